"""The plain records that pass between training, the runner and the store.

Training fills them, the store writes them, the statistics read them back as frames; none of the
three knows another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench.harness.seeding import RunSeed


class Status(StrEnum):
    """How a run ended. Everything but `OK` and `INFRASTRUCTURE` scores the declared floor."""

    OK = "ok"
    DIVERGED = "diverged"
    TIMEOUT = "timeout"
    CRASHED = "crashed-method"
    INFRASTRUCTURE = "crashed-infrastructure"


def common_crash(ends: Iterable[tuple[str, str]]) -> str:
    """Returns the exception that every run of a cell crashed with; empty if any ended otherwise.

    Such a cell is broken: it says something about its code, and nothing about its method.

    Args:
        ends: Status and reason of each run that ended.
    """
    kinds = {why.partition(":")[0] if how == Status.CRASHED else "" for how, why in ends}
    return kinds.pop() if len(kinds) == 1 else ""


# Columns of evaluations.parquet: one row per episode of an evaluation.
EVALUATION_COLUMNS: dict[str, str] = {
    "step": "int64",  # the point of the evaluation grid, in environment steps
    "distribution": "category",  # target | initial | current
    "policy": "category",  # deterministic | stochastic
    "context": "int32",  # index into the held-out list of that distribution
    "return": "float32",
    "discounted_return": "float32",
    "success": "bool",
    "length": "int32",
}

# Columns of updates.parquet that stand beside the fields of the UpdateRecord.
UPDATE_COLUMNS: dict[str, str] = {
    "iteration": "int32",  # policy updates done
    "env_steps": "int64",  # environment steps done
    "episodes": "int32",  # contexts given to the update
    "discarded": "int32",  # finished episodes outside the cohort that the update learned from
    "mean": "list<float>",
    "std": "list<float>",
    "theta": "list<float>",  # null where the family has none
}

# And those fields. Spelled out, because who only stores them has no use for SciPy. What is held
# against a bound keeps all its digits.
RECORD_COLUMNS: dict[str, str] = {
    "step": "category",
    "case": "category",
    "epsilon": "float64",
    "threshold": "float64",
    "mean_value": "float64",
    "slack": "float64",
    "predicted_value": "float32",
    "iterations": "int64",
    "accepted": "bool",
    "seconds": "float32",
    "seconds_recording": "float32",
    "kl_step": "float64",
    "kl_target_forward": "float32",
    "kl_target_reverse": "float32",
    "kl_estimated": "bool",
    "ess": "float32",
    "sliced_wasserstein": "float32",
}

# Columns of diagnostics.parquet: one row per policy update, NaN where a learner cannot tell.
DIAGNOSTIC_COLUMNS: dict[str, str] = {
    "iteration": "int32",  # policy updates done
    "env_steps": "int64",  # environment steps done
    "approx_kl": "float32",  # KL(old ‖ new policy), estimated
    "clip_fraction": "float32",  # share of ratios outside 1 ± clip_range
    "entropy": "float32",  # of the policy, in nats
    "value_loss": "float32",  # mean squared error of the critic
    "explained_variance": "float32",  # of the returns, by the critic before the update
    "gradient_norm": "float32",  # before clipping
}


@dataclass(frozen=True)
class RunResult:
    """What one training run leaves behind.

    Attributes:
        seed: The seed it ran with.
        status: How it ended.
        reason: One sentence for every status but `OK`.
        env_steps: Environment steps consumed.
        evaluations: Columns of `EVALUATION_COLUMNS`, equally long.
        updates: Columns of `UPDATE_COLUMNS` and of the UpdateRecord, equally long.
        timings: Seconds by phase (rollout, policy, curriculum, evaluation), this seed's share.
        policy: Final parameters by name, in float32.
        extras: Further JSON-able facts (peak memory, library versions, …).
        diagnostics: Columns of `DIAGNOSTIC_COLUMNS`, equally long; empty where a learner has none.
    """

    seed: RunSeed
    status: Status
    reason: str
    env_steps: int
    evaluations: dict[str, list[Any]]
    updates: dict[str, list[Any]]
    timings: dict[str, float]
    policy: dict[str, NDArray[np.float32]]
    extras: dict[str, Any] = field(default_factory=dict)
    diagnostics: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """The state of one run between two rollouts; training goes on from it bit for bit.

    Attributes:
        step: Environment steps done.
        arrays: Parameters, optimiser moments, environment states, recorded rows, …
        state: JSON-able remainder (generator states, curriculum, counters).
    """

    step: int
    arrays: dict[str, NDArray[Any]]
    state: dict[str, Any]


class Hooks:
    """What training asks of its caller; as it stands: no checkpoints, nobody told, no stop."""

    def load(self, seed: RunSeed) -> Checkpoint | None:
        """Returns the latest usable checkpoint of a run, if there is one."""
        return None

    def refuse(self, seed: RunSeed, reason: str) -> None:
        """Is told that training cannot go on from what `load` returned."""

    def save(self, seed: RunSeed, checkpoint: Checkpoint) -> None:
        """Keeps a checkpoint of a run, replacing the one before."""

    def progress(self, env_steps: int) -> None:
        """Is told how many environment steps were done since the last call, over all seeds."""

    def finished(self, result: RunResult) -> None:
        """Is given the result of a run as soon as it has ended."""

    def should_stop(self) -> bool:
        """Says whether to stop at the next checkpoint."""
        return False
