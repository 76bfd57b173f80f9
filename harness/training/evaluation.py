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
from pacebench.harness.study.construct import distributions
from pacebench.harness.study.specs import EvaluationCell
from pacebench.harness.training.slices import play_slice

# Children of the study's EPISODES stream.
_TARGET, _INITIAL, _EPISODES = 0, 1, 2
# The initial and the current distribution are watched, not scored: fewer episodes will do.
SIDE_CONTEXTS = 20
# Episodes played at once: bounds the memory of an evaluation, whatever the study asks for.
MAX_COPIES = 1024


def held_out_contexts(
    setup: envs.Setup, evaluation: EvaluationCell, distribution: str = "target"
) -> Floats:
    """Returns the frozen contexts of an evaluation, unclipped.

    They depend on the setup, the root seed and their number alone, and a longer list begins with
    the shorter one. The distribution is `target`, or `initial`, which gets at most `SIDE_CONTEXTS`.
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
    each point of the grid. What an episode comes to does not depend on those played beside it.
    """

    def __init__(
        self, setup: envs.Setup, evaluation: EvaluationCell, seeds: Sequence[RunSeed]
    ) -> None:
        self.setup, self.evaluation, self.seeds = setup, evaluation, seeds
        self._target = held_out_contexts(setup, evaluation, "target")
        self._initial = held_out_contexts(setup, evaluation, "initial")

    def evaluate(
        self,
        agents: Agents,
        current: Sequence[curricula.Curriculum],
        point: int,
        step: int,
        rows: Sequence[int],
        *,
        last: bool = True,
    ) -> EvaluationResult:
        """Plays every episode of one point of the grid.

        Args:
            agents: The agents.
            current: Each seed's curriculum, for its current distribution.
            point: Number of the point on the grid.
            step: The point of the grid, in environment steps.
            rows: Positions of the seeds to evaluate.
            last: Whether it is the last point. Before, unless the study asks for all, only what is
                scored is played: the deterministic policy in target contexts.
        """
        some = self._target[: self.evaluation.curve_contexts]
        target = self._target if last else some
        blocks = [("target", "deterministic", len(target))]
        contexts = [[target] for _ in rows]
        if last or self.evaluation.detail == "full":
            side = len(self._initial)
            blocks += [
                ("target", "stochastic", len(some)),
                ("initial", "deterministic", side),
                ("current", "deterministic", side),
            ]
            for k, own in zip(rows, contexts, strict=True):
                rng = self.seeds[k].generator(RunRole.EVALUATION, point)
                own += [some, self._initial, current[k].sample(side, rng)]
        labels: dict[str, list[Any]] = {
            "distribution": [name for name, _, n in blocks for _ in range(n)],
            "policy": [policy for _, policy, n in blocks for _ in range(n)],
            # Episode i of a block has seed i, whichever block it is in.
            "context": [i for _, _, n in blocks for i in range(n)],
        }
        stacked = np.stack([np.concatenate(own) for own in contexts])
        slices = [
            play_slice(
                self.setup,
                agents,
                rows,
                stacked[:, part],
                [_episode_seed(self.evaluation, i) for i in labels["context"][part]],
                self._streams(rows, point, labels["policy"][part], labels["context"][part]),
            )
            for part in _parts(stacked.shape[1], max(1, MAX_COPIES // len(rows)))
        ]
        measured = {
            name: np.concatenate([played[name] for played, _ in slices], axis=1)
            for name in slices[0][0]
        }
        broken = {k: reason for _, found in reversed(slices) for k, reason in found.items()}
        columns = {
            k: {
                "step": [step] * stacked.shape[1],
                **labels,
                **{name: column[i].tolist() for name, column in measured.items()},
            }
            for i, k in enumerate(rows)
            if k not in broken
        }
        return EvaluationResult(columns, broken)

    def _streams(
        self, rows: Sequence[int], point: int, policies: list[str], contexts: list[int]
    ) -> list[np.random.Generator | None]:
        """Returns what the policies of a slice draw from, agent by agent."""
        return [
            self.seeds[k].generator(RunRole.EVALUATION, point, i)
            if policy == "stochastic"
            else None
            for k in rows
            for policy, i in zip(policies, contexts, strict=True)
        ]


def _parts(total: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def _episode_seed(evaluation: EvaluationCell, index: int) -> np.random.SeedSequence:
    return study_sequence(evaluation.root, StudyRole.EPISODES, _EPISODES, index)
