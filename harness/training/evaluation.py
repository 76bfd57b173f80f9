"""The evaluation: held-out contexts, the same for every method, exactly one episode each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench import curricula, envs
from pacebench.harness.learners.base import Agents
from pacebench.harness.records import EVALUATION_COLUMNS
from pacebench.harness.seeding import RunRole, RunSeed, StudyRole, study_sequence
from pacebench.harness.study.specs import EvaluationCell

Floats = NDArray[np.float64]

# Children of the study's EPISODES stream.
_TARGET, _INITIAL, _EPISODES = 0, 1, 2
# The initial and the current distribution are looked at, not scored: fewer episodes will do.
SIDE_CONTEXTS = 20


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found.

    Attributes:
        columns: `EVALUATION_COLUMNS` by seed position, of the seeds whose numbers are sound.
        broken: Why a seed could not be evaluated, by its position.
    """

    columns: dict[int, dict[str, list[Any]]]
    broken: dict[int, str]


@dataclass(frozen=True)
class EpisodeBlock:
    """Episodes of one distribution with one kind of policy: rows `start` to `stop` of a seed."""

    distribution: str
    policy: str
    start: int
    stop: int


def held_out_contexts(
    setup: envs.Setup, evaluation: EvaluationCell, distribution: str = "target"
) -> Floats:
    """Returns the frozen contexts of an evaluation, unclipped.

    They depend on the setup, the root seed and their number alone, and a longer list begins with
    the shorter one.

    Args:
        setup: The task.
        evaluation: How many contexts, and the root seed.
        distribution: `target` or `initial`.
    """
    key = {"target": _TARGET, "initial": _INITIAL}[distribution]
    gaussian = distributions(setup)[key]
    count = evaluation.contexts if distribution == "target" else side_contexts(evaluation)
    rng = np.random.default_rng(study_sequence(evaluation.root, StudyRole.EPISODES, key))
    return gaussian.sample(count, rng)


def evaluation_digest(setup: envs.Setup, evaluation: EvaluationCell) -> str:
    """Returns a hash of the held-out contexts and of the seed of every episode."""
    parts = [held_out_contexts(setup, evaluation, name) for name in ("target", "initial")]
    seeds = [_episode_seed(evaluation, i).generate_state(4) for i in range(evaluation.contexts)]
    return hashlib.sha256(
        b"".join(part.tobytes() for part in (*parts, np.stack(seeds)))
    ).hexdigest()


def distributions(setup: envs.Setup) -> tuple[curricula.Gaussian, curricula.Gaussian]:
    """Returns the target and the initial distribution of a setup."""
    return (
        curricula.Gaussian(setup.target_mean, setup.target_variance),
        curricula.Gaussian(setup.initial_mean, setup.initial_variance),
    )


def side_contexts(evaluation: EvaluationCell) -> int:
    """Returns on how many contexts the initial and the current distribution are looked at."""
    return min(SIDE_CONTEXTS, evaluation.contexts)


class Evaluator:
    """Examines the policies of S seeds, and leaves no trace in their training.

    The environment streams belong to the study and are indexed by context, so all methods and all
    seeds face the same contexts with the same episode seeds. The noise of stochastic policies and
    the contexts of the current distribution come from the run's own evaluation stream, anew for
    each point of the grid.
    """

    def __init__(
        self, setup: envs.Setup, evaluation: EvaluationCell, seeds: Sequence[RunSeed]
    ) -> None:
        self.setup, self.seeds = setup, seeds
        self._target = held_out_contexts(setup, evaluation, "target")
        self._initial = held_out_contexts(setup, evaluation, "initial")
        side = len(self._initial)
        self.blocks = _stacked(
            ("target", "deterministic", len(self._target)),
            ("target", "stochastic", len(self._target)),
            ("initial", "deterministic", side),
            ("current", "deterministic", side),
        )
        self.episodes = self.blocks[-1].stop
        # Episode i of a block has seed i, whichever block it is in.
        self._episode_seeds = [
            _episode_seed(evaluation, i)
            for block in self.blocks
            for i in range(block.stop - block.start)
        ]

    def evaluate(
        self,
        agents: Agents,
        paced: Sequence[curricula.Curriculum],
        point: int,
        step: int,
        rows: Sequence[int],
    ) -> EvaluationResult:
        """Plays every episode once.

        Args:
            agents: The agents.
            paced: Each seed's curriculum, for its current distribution.
            point: Number of the point on the grid.
            step: The point of the grid, in environment steps.
            rows: Seeds to report on; the others' rows are computed and dropped.
        """
        count, m, d = agents.count, self.episodes, self.setup.dim
        stochastic = self.blocks[1]
        rngs = [_generator(seed, point) for seed in self.seeds]
        contexts = np.empty((count, m, d))
        for k, rng in enumerate(rngs):
            current = paced[k].sample(len(self._initial), rng)
            contexts[k] = np.concatenate([self._target, self._target, self._initial, current])
        flat = contexts.reshape(count * m, d)
        # Copies that are done begin again, unheard, until the last one is.
        env = envs.make_batch(
            self.setup, count * m, self._episode_seeds * count, lambda done: flat[done]
        )
        obs = env.reset(flat).reshape(count, m, -1)
        noise = np.zeros((count, m, *env.action_space.shape))
        returns, discounted = np.zeros(count * m), np.zeros(count * m)
        success = np.zeros(count * m, dtype=np.bool_)
        length = np.zeros(count * m, dtype=np.int64)
        running = np.ones(count * m, dtype=np.bool_)
        discount = 1.0
        broken: dict[int, str] = {}
        while running.any():
            for k, rng in enumerate(rngs):
                part = noise[k, stochastic.start : stochastic.stop]
                part[:] = rng.standard_normal(part.shape)
            actions = agents.act(obs, noise).reshape(count * m, -1)
            _mend("action", actions, running, m, broken)
            flat_obs, reward, terminated, truncated, info = env.step(actions)
            _mend("reward", reward, running, m, broken)
            returns[running] += reward[running]
            discounted[running] += discount * reward[running]
            length[running] += 1
            ended = running & (terminated | truncated)
            success[ended] = info["success"][ended]
            running &= ~ended
            _mend("observation", flat_obs, running, m, broken)
            if ended.any():
                env.dismiss(np.flatnonzero(ended))
            discount *= self.setup.gamma
            obs = flat_obs.reshape(count, m, -1)
        env.close()
        columns = {
            "return": returns,
            "discounted_return": discounted,
            "success": success,
            "length": length,
        }
        found = {
            k: self._columns(step, {n: c.reshape(count, m)[k] for n, c in columns.items()})
            for k in rows
            if k not in broken
        }
        return EvaluationResult(found, {k: reason for k, reason in broken.items() if k in rows})

    def _columns(self, step: int, found: dict[str, NDArray[Any]]) -> dict[str, list[Any]]:
        columns = empty_evaluations()
        for block in self.blocks:
            n = block.stop - block.start
            columns["step"] += [step] * n
            columns["distribution"] += [block.distribution] * n
            columns["policy"] += [block.policy] * n
            columns["context"] += list(range(n))
            for name, column in found.items():
                columns[name] += column[block.start : block.stop].tolist()
        return columns


def _mend(
    what: str, array: Floats, heard: NDArray[np.bool_], episodes: int, broken: dict[int, str]
) -> None:
    """Blames the seeds whose numbers are not finite, and lets the episodes of the others go on."""
    # A sum is finite only if all its terms are, and costs less than asking each of them.
    if np.isfinite(array.sum()):
        return
    bad = ~np.isfinite(array)
    for i in np.flatnonzero(bad.reshape(len(array), -1).any(axis=1) & heard).tolist():
        broken.setdefault(i // episodes, f"An evaluation met a non-finite {what}.")
    array[bad] = 0.0


def empty_evaluations() -> dict[str, list[Any]]:
    """Returns the columns of an evaluation without episodes."""
    return {name: [] for name in EVALUATION_COLUMNS}


def _episode_seed(evaluation: EvaluationCell, index: int) -> np.random.SeedSequence:
    return study_sequence(evaluation.root, StudyRole.EPISODES, _EPISODES, index)


def _generator(seed: RunSeed, point: int) -> np.random.Generator:
    parent = seed.sequence(RunRole.EVALUATION)
    return np.random.default_rng(
        np.random.SeedSequence(parent.entropy, spawn_key=(*parent.spawn_key, point))
    )


def _stacked(*blocks: tuple[str, str, int]) -> list[EpisodeBlock]:
    placed, start = [], 0
    for distribution, policy, n in blocks:
        placed.append(EpisodeBlock(distribution, policy, start, start + n))
        start += n
    return placed
