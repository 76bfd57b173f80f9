"""How long a study will take on this machine, from a few seconds of the real thing.

Rates differ tenfold between machines, setups and learners, so nothing is assumed: each setup is
trained for two rollouts, and each curriculum is updated a few times on made-up values.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from pacebench import curricula
from pacebench.harness.runner.interrupt import Interrupt
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.specs import Cell, CurriculumCell, EvaluationCell, PlannedRun

# Enough seeds to see the rate of a batch, few enough to be done in seconds.
CALIBRATION_SEEDS = 5
CALIBRATION_UPDATES = 3


def seconds_by_cell(cells: list[list[PlannedRun]]) -> list[float]:
    """Returns the CPU seconds that the runs of each cell will take together.

    Ctrl-C is heard between two trainings: inside physics or an import, compiled code would swallow
    the exception or abort.

    Raises:
        UserError: A cell cannot be trained.
    """
    from pacebench.harness.training.rehearsal import rehearse

    interrupt = Interrupt()
    with interrupt.listening():
        rehearse(run for runs in cells for run in runs[:1])
        return _seconds(cells, interrupt)


def _seconds(cells: list[list[PlannedRun]], interrupt: Interrupt) -> list[float]:
    rates: dict[tuple[str, str], tuple[float, float]] = {}
    seconds = []
    for runs in cells:
        cell = runs[0].cell
        key = (cell.setup, cell.learner.model_dump_json())
        if interrupt.asked:
            raise KeyboardInterrupt
        if key not in rates:
            rates[key] = _training_rates(cell, len(runs))
        per_step, per_evaluation = rates[key]
        updates = cell.budget / _rollout_steps(cell) / cell.schedule.every
        per_run = (
            per_step * cell.budget
            + per_evaluation * _whole_evaluations(cell.evaluation)
            + _update_seconds(cell) * updates
        )
        seconds.append(per_run * len(runs))
    return seconds


def _whole_evaluations(evaluation: EvaluationCell) -> float:
    """Returns how many evaluations like that of the last point a run pays for, by episodes."""
    from pacebench.harness.training.evaluation import SIDE_CONTEXTS

    n = evaluation.contexts
    some = evaluation.curve_contexts or n
    side = some + 2 * min(SIDE_CONTEXTS, n)
    before = some + (side if evaluation.detail == "full" else 0)
    # The estimate's own evaluation leaves nothing out.
    whole = 2 * n + 2 * min(SIDE_CONTEXTS, n)
    return (n + side + (len(evaluation.steps) - 1) * before) / whole


def _rollout_steps(cell: Cell) -> int:
    from pacebench.harness.training.resolved import ResolvedCell

    return ResolvedCell.of(cell).rollout_steps


def _training_rates(cell: Cell, seeds: int) -> tuple[float, float]:
    """Returns seconds per environment step and per evaluation, of one seed in a batch."""
    from pacebench.harness.training import train

    budget = 2 * _rollout_steps(cell)
    sample = cell.model_copy(
        update={
            "curriculum": CurriculumCell(name="default", epsilon=None, threshold=None),
            "budget": budget,
            "evaluation": EvaluationCell(
                steps=(budget,),
                contexts=cell.evaluation.contexts,
                root=cell.evaluation.root,
            ),
        }
    )
    batch = [
        # Pilot seeds: the estimate must not look at an evaluation run, not even at its first steps.
        RunSeed(root=cell.evaluation.root, role=StudyRole.PILOT, index=i)
        for i in range(min(seeds, CALIBRATION_SEEDS))
    ]
    # Not timed: the first training of a process imports and compiles what all others find there.
    train(sample.model_copy(update={"budget": budget // 2}), batch[:1])
    started = perf_counter()
    results = train(sample, batch)
    elapsed = perf_counter() - started
    evaluation = sum(result.timings.get("evaluation", 0.0) for result in results)
    return (elapsed - evaluation) / (budget * len(batch)), evaluation / len(batch)


def _update_seconds(cell: Cell) -> float:
    """Returns the median seconds of one update of the cell's curriculum."""
    from pacebench.harness.training.resolved import ResolvedCell

    seed = RunSeed(root=cell.evaluation.root, role=StudyRole.PILOT, index=0)
    curriculum = ResolvedCell.of(cell).curriculum(seed)
    rng = np.random.default_rng(0)
    threshold = cell.curriculum.threshold or 0.0
    seconds = []
    for _ in range(CALIBRATION_UPDATES):
        contexts = curriculum.sample(20, rng)
        values = threshold + rng.normal(1.0, 0.3, len(contexts))
        episodes = curricula.Episodes.standing_in(contexts, values, curriculum.reads)
        record = curriculum.update(episodes)
        seconds.append(record.seconds + record.seconds_recording)
    return float(np.median(seconds))
