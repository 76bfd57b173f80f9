"""Measures the two fixed scores between which results are normalised."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from numpy.random import SeedSequence

from pacebench.envs.errors import SetupError
from pacebench.envs.registry import environment, setup
from pacebench.envs.rollout import draw_contexts, play
from pacebench.envs.setup import Anchors, PolicyScore, Setup


def measure_anchors(name: str | Setup, episodes: int, seed: int, command: str) -> Anchors:
    """Plays the baseline and the reference policy on the target distribution.

    Both meet the same contexts and the same random streams. Where there is no reference policy, the
    setup's declared return takes its place.

    Args:
        name: A setup or its name.
        episodes: Episodes per policy.
        seed: Seed of contexts, episodes and of the random policy.
        command: What was typed, recorded with the figures.
    """
    if episodes < 2:
        raise SetupError(f"a standard error needs at least two episodes, got {episodes}.")
    spec, kind = setup(name), environment(name)
    declared = spec.reference_return
    if not kind.has_reference() and declared is None:
        raise SetupError(
            f"setup {spec.name!r} has no reference policy, so nothing is 1 on its scale; declare "
            "its reference_return, or report raw returns."
        )
    return Anchors(
        baseline=baseline_score(spec, episodes, seed),
        reference=PolicyScore("declared", declared)
        if declared is not None
        else _score(spec, "reference", episodes, seed),
        episodes=episodes,
        seed=seed,
        command=command,
        version=version("pacebench"),
    )


def baseline_score(name: str | Setup, episodes: int, seed: int) -> PolicyScore:
    """Plays the policy that is normalised to 0 on the target distribution."""
    return _score(setup(name), environment(name).baseline_policy, episodes, seed)


def _score(spec: Setup, policy: str, episodes: int, seed: int) -> PolicyScore:
    contexts_seed, episodes_seed = SeedSequence(seed).spawn(2)
    contexts = draw_contexts(spec, episodes, contexts_seed)
    played = play(spec, policy, contexts, episodes_seed)
    root = np.sqrt(len(played.returns))
    values = []
    for sample in (played.returns, played.discounted_returns, played.successes.astype(float)):
        values += [float(sample.mean()), float(sample.std(ddof=1) / root)]
    return PolicyScore(policy, *values)
