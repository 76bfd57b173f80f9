"""Training functions with a known answer, for the runner to run in place of training."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from pacebench import envs
from pacebench.harness.records import Hooks, RunResult, Status
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.study.specs import Cell

HERE = "tests.harness.tuning.substitutes"


def _result(cell: Cell, seed: RunSeed, score: float, status: Status = Status.OK) -> RunResult:
    """A run whose normalised score is `score` in every episode of every evaluation."""
    anchors = envs.setup(cell.setup).anchors
    assert anchors is not None
    low, high = anchors.baseline.mean_return, anchors.reference.mean_return
    steps = [step for step in cell.evaluation.steps for _ in range(cell.evaluation.contexts)]
    n = len(steps)
    evaluations = {
        "step": steps,
        "distribution": ["target"] * n,
        "policy": ["deterministic"] * n,
        "context": list(range(cell.evaluation.contexts)) * len(cell.evaluation.steps),
        "return": [low + score * (high - low)] * n,
        "discounted_return": [0.0] * n,
        "success": [score > 0.5] * n,
        "length": [1] * n,
    }
    return RunResult(
        seed=seed,
        status=status,
        reason="" if status is Status.OK else "It was told to.",
        env_steps=cell.budget,
        evaluations=evaluations,
        updates={},
        timings={"rollout": 0.1},
        policy={},
    )


def _noise(cell: Cell, seed: RunSeed) -> float:
    """A draw from U(0, 1) that belongs to one configuration and one seed."""
    sequence = seed.sequence(RunRole.POLICY)
    key = int(cell.digest, 16)
    rng = np.random.default_rng([*sequence.generate_state(2).tolist(), key % 2**32, key >> 32])
    return float(rng.random())


def noise(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks | None = None) -> list[RunResult]:
    """No configuration is better than any other."""
    hooks = hooks or Hooks()
    results = [_result(cell, seed, _noise(cell, seed)) for seed in seeds]
    for result in results:
        hooks.finished(result)
    return results


def hill(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks | None = None) -> list[RunResult]:
    """Best at ε = 0.05; a little noise per seed."""
    hooks = hooks or Hooks()
    epsilon = cell.curriculum.epsilon or 0.05
    height = math.exp(-(math.log(epsilon / 0.05) ** 2))
    results = [_result(cell, seed, 0.9 * height + 0.1 * _noise(cell, seed)) for seed in seeds]
    for result in results:
        hooks.finished(result)
    return results


def slow_hill(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks | None = None) -> list[RunResult]:
    """The same, slow enough to be killed in the middle."""
    time.sleep(0.3)
    return hill(cell, seeds, hooks)


def fragile(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks | None = None) -> list[RunResult]:
    """Diverges wherever ε is above 0.05."""
    hooks = hooks or Hooks()
    broken = (cell.curriculum.epsilon or 0.0) > 0.05
    status = Status.DIVERGED if broken else Status.OK
    results = [_result(cell, seed, 0.5, status) for seed in seeds]
    for result in results:
        hooks.finished(result)
    return results
