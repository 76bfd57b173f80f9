"""Small cells for tests."""

from __future__ import annotations

from typing import Any

from pacebench import curricula, envs
from pacebench.harness import learners
from pacebench.harness.study.construct import distributions
from pacebench.harness.study.specs import (
    Cell,
    CurriculumCell,
    EvaluationCell,
    LearnerCell,
    ScheduleCell,
)


def curriculum_of(name: str, setup: envs.Setup, **options: Any) -> curricula.Curriculum:
    target, initial = distributions(setup)
    if curricula.get(name).capabilities.self_paced:
        options = {"threshold": setup.threshold, **options}
    return curricula.make(
        name, target=target, initial=initial, bounds=(setup.lower, setup.upper), **options
    )


def make_cell(
    setup: str = "point-mass-2",
    curriculum: str = "spgl",
    learner: str = "ppo",
    *,
    budget: int = 4000,
    steps: tuple[int, ...] = (2000, 4000),
    contexts: int = 12,
    params: dict[str, Any] | None = None,
    schedule: dict[str, Any] | None = None,
    threshold: float | None = None,
    options: dict[str, Any] | None = None,
) -> Cell:
    kind = learners.get(learner)
    small = {"n_envs": 10, "n_steps": 100, "n_epochs": 2, "batch_size": 100}
    if learner == "sb3-sac":
        small = {"n_envs": 4, "look_every": 260, "train_freq": 20}
    chosen = kind.Params.model_validate({**kind.defaults(setup), **small, **(params or {})})
    paced = curricula.get(curriculum).capabilities.self_paced
    if threshold is None:
        threshold = envs.setup(setup).threshold
    return Cell(
        curriculum=CurriculumCell(
            name=curriculum,
            epsilon=0.05 if paced else None,
            threshold=threshold if paced else None,
            options=options or {},
        ),
        setup=setup,
        setup_digest="test",
        learner=LearnerCell(name=learner, params=chosen.model_dump(mode="json")),
        schedule=ScheduleCell(**(schedule or {})),
        budget=budget,
        evaluation=EvaluationCell(steps=steps, contexts=contexts, root=3),
        versions={},
    )
