"""Measures the two fixed scores between which results are normalised."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.random import SeedSequence

from pacebench.envs.catalogue import ANCHORS_FILE
from pacebench.envs.errors import SetupError
from pacebench.envs.registry import environment, setup
from pacebench.envs.rollout import PlayedEpisodes, draw_contexts, play
from pacebench.envs.setup import Anchors, PolicyScore, Setup


def measure_anchors(name: str | Setup, episodes: int, seed: int, command: str) -> Anchors:
    """Plays the baseline and the reference policy on the target distribution.

    Both meet the same contexts and the same random streams.

    Args:
        name: A setup or its name.
        episodes: Episodes per policy.
        seed: Seed of contexts, episodes and of the random policy.
        command: What was typed, recorded with the figures.
    """
    if episodes < 2:
        raise SetupError(f"a standard error needs at least two episodes, got {episodes}.")
    spec = setup(name)
    contexts_seed, episodes_seed = SeedSequence(seed).spawn(2)
    contexts = draw_contexts(spec, episodes, contexts_seed)
    scores = [
        _score(policy, play(spec, policy, contexts, episodes_seed))
        for policy in (environment(spec).baseline_policy, "reference")
    ]
    return Anchors(
        baseline=scores[0],
        reference=scores[1],
        episodes=episodes,
        seed=seed,
        command=command,
        version=version("pacebench"),
    )


def write_anchors(name: str, anchors: Anchors, path: Path = ANCHORS_FILE) -> None:
    """Records a setup's anchors in the file from which setups load them, atomically."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    stored[name] = asdict(anchors)
    text = json.dumps(dict(sorted(stored.items())), indent=2, ensure_ascii=False)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text + "\n", encoding="utf-8")
    os.replace(fresh, path)


def _score(policy: str, played: PlayedEpisodes) -> PolicyScore:
    root = np.sqrt(len(played.returns))
    values = []
    for sample in (played.returns, played.discounted_returns, played.successes.astype(float)):
        values += [float(sample.mean()), float(sample.std(ddof=1) / root)]
    return PolicyScore(policy, *values)
