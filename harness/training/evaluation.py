"""The evaluation: held-out contexts, the same for every method, exactly one episode each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacebench import curricula, envs
from pacebench.envs.arrays import Floats
from pacebench.harness.learners.base import Agents
from pacebench.harness.records import EVALUATION_COLUMNS
from pacebench.harness.seeding import RunRole, RunSeed, StudyRole, study_sequence
from pacebench.harness.study.specs import EvaluationCell
from pacebench.harness.training.non_finite import zero_non_finite

# Children of the study's EPISODES stream.
_TARGET, _INITIAL, _EPISODES = 0, 1, 2
# The initial and the current distribution are watched, not scored: fewer episodes will do.
SIDE_CONTEXTS = 20


def distributions(setup: envs.Setup) -> tuple[curricula.Gaussian, curricula.Gaussian]:
    """Returns the target and the initial distribution of a setup."""
    return (
        curricula.Gaussian(setup.target_mean, setup.target_variance),
        curricula.Gaussian(setup.initial_mean, setup.initial_variance),
    )


def held_out_contexts(
    setup: envs.Setup, evaluation: EvaluationCell, distribution: str = "target"
) -> Floats:
    """Returns the frozen contexts of an evaluation, unclipped.

    They depend on the setup, the root seed and their number alone, and a longer list begins with
    the shorter one.

    Args:
        setup: The task.
        evaluation: How many contexts, and the root seed.
        distribution: `target`, or `initial`, which gets at most `SIDE_CONTEXTS`.
    """
    key = {"target": _TARGET, "initial": _INITIAL}[distribution]
    count = evaluation.contexts
    if distribution == "initial":
        count = min(SIDE_CONTEXTS, count)
    rng = np.random.default_rng(study_sequence(evaluation.root, StudyRole.EPISODES, key))
    if (drawn := setup.target if distribution == "target" else setup.initial) is not None:
        return drawn.sample(count, rng)
    return distributions(setup)[key].sample(count, rng)


def evaluation_digest(setup: envs.Setup, evaluation: EvaluationCell) -> str:
    """Returns a hash of the held-out contexts and of the seed of every episode."""
    contexts = [held_out_contexts(setup, evaluation, name) for name in ("target", "initial")]
    seeds = [_episode_seed(evaluation, i).generate_state(4) for i in range(evaluation.contexts)]
    parts = (*contexts, np.stack(seeds))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def empty_evaluations() -> dict[str, list[Any]]:
    """Returns the columns of an evaluation without episodes."""
    return {name: [] for name in EVALUATION_COLUMNS}


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found.

    Attributes:
        columns: `EVALUATION_COLUMNS` by seed position, of the seeds whose numbers are all finite.
        broken: Why a seed could not be evaluated, by its position.
    """

    columns: dict[int, dict[str, list[Any]]]
    broken: dict[int, str]


class Evaluator:
    """Evaluates the policies of S seeds, and leaves no trace in their training.

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
        n, side = len(self._target), len(self._initial)
        # Columns that tell the M episodes of a seed apart: four blocks, one after the other.
        self._labels: dict[str, list[Any]] = {
            "distribution": ["target"] * 2 * n + ["initial"] * side + ["current"] * side,
            "policy": ["deterministic"] * n + ["stochastic"] * n + ["deterministic"] * 2 * side,
            "context": [*range(n), *range(n), *range(side), *range(side)],
        }
        self._stochastic = slice(n, 2 * n)
        # Episode i of a block has seed i, whichever block it is in.
        self._episode_seeds = [_episode_seed(evaluation, i) for i in self._labels["context"]]

    def evaluate(
        self,
        agents: Agents,
        current: Sequence[curricula.Curriculum],
        point: int,
        step: int,
        rows: Sequence[int],
    ) -> EvaluationResult:
        """Plays every episode once.

        Args:
            agents: The agents.
            current: Each seed's curriculum, for its current distribution.
            point: Number of the point on the grid.
            step: The point of the grid, in environment steps.
            rows: Seeds to report on; the others' episodes are played and dropped.
        """
        count, m = agents.count, len(self._episode_seeds)
        total = count * m
        rngs = [seed.generator(RunRole.EVALUATION, point) for seed in self.seeds]
        drawn = [c.sample(len(self._initial), rng) for c, rng in zip(current, rngs, strict=True)]
        contexts = np.concatenate(
            [part for own in drawn for part in (self._target, self._target, self._initial, own)]
        )
        # Copies that are done begin again, unrecorded, until the last one is done.
        env = envs.make_batch(
            self.setup, total, self._episode_seeds * count, lambda done: contexts[done]
        )
        obs = env.reset(contexts)
        noise = np.zeros((count, m, *env.action_space.shape))
        returns, discounted, discount = np.zeros(total), np.zeros(total), 1.0
        success, length = np.zeros(total, dtype=np.bool_), np.zeros(total, dtype=np.int64)
        running = np.ones(total, dtype=np.bool_)
        broken: dict[int, str] = {}

        def check(what: str, array: Floats) -> None:
            for i in zero_non_finite(array):
                if running[i]:
                    broken.setdefault(i // m, f"An evaluation met a non-finite {what}.")

        while running.any():
            for own, rng in zip(noise, rngs, strict=True):
                own[self._stochastic] = rng.standard_normal(own[self._stochastic].shape)
            actions = agents.act(obs.reshape(count, m, -1), noise).reshape(total, -1)
            check("action", actions)
            obs, reward, terminated, truncated, info = env.step(actions)
            check("reward", reward)
            returns[running] += reward[running]
            discounted[running] += discount * reward[running]
            discount *= self.setup.gamma
            length[running] += 1
            ended = running & (terminated | truncated)
            success[ended] = info["success"][ended]
            running &= ~ended
            check("observation", obs)
            if ended.any():
                env.dismiss(np.flatnonzero(ended))
        env.close()
        measured = {
            "return": returns,
            "discounted_return": discounted,
            "success": success,
            "length": length,
        }
        columns = {
            k: {
                "step": [step] * m,
                **self._labels,
                **{name: column[k * m : (k + 1) * m].tolist() for name, column in measured.items()},
            }
            for k in rows
            if k not in broken
        }
        return EvaluationResult(columns, {k: broken[k] for k in rows if k in broken})


def _episode_seed(evaluation: EvaluationCell, index: int) -> np.random.SeedSequence:
    return study_sequence(evaluation.root, StudyRole.EPISODES, _EPISODES, index)
