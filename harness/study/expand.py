"""From a study to its runs: curricula × setups × seeds, every default resolved."""

from __future__ import annotations

from pacebench import curricula, envs
from pacebench.harness import learners
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.fingerprint import setup_digest, training_figures, versions
from pacebench.harness.study.models import CurriculumEntry, Study
from pacebench.harness.study.specs import (
    Cell,
    CurriculumCell,
    EvaluationCell,
    EvaluationDetail,
    LearnerCell,
    PlannedRun,
)

DEFAULT_EPSILON = 0.05


# Seeds of each cell of an adaptive study, by label and setup.
Counts = dict[tuple[str, str], int]


def expand(study: Study, counts: Counts | None = None) -> list[PlannedRun]:
    """Returns the runs of a study, setup by setup, curriculum by curriculum, seed by seed.

    Without `counts`, a cell of an adaptive study has all the seeds that it may ever have.
    """
    runs = []
    for setup in study.setups:
        for entry in study.curricula:
            cell = resolve_cell(study, entry, setup)
            count = study.seeds.most(setup) if counts is None else counts[entry.shown, setup]
            # Every method gets the same seeds, but every search seeds of its own: two that chose
            # alike would otherwise be one observation counted twice.
            apart = entry.tuned.replicate if entry.tuned and study.by_search else 0
            first = apart * study.seeds.count
            seeds = [
                RunSeed(root=study.seeds.root, role=StudyRole.EVALUATE, setup=setup, index=i)
                for i in range(first, first + count)
            ]
            runs += [PlannedRun(label=entry.shown, cell=cell, seed=seed) for seed in seeds]
    return runs


def resolve_cell(study: Study, entry: CurriculumEntry, setup: str) -> Cell:
    """Returns one curriculum on one setup with every default filled in."""
    chosen, task = study.learner_of(entry), study.setup(setup)
    learner = learners.get(chosen.name)
    params = learner.Params.model_validate({**learner.defaults(task), **chosen.params})
    return Cell(
        curriculum=resolve_curriculum(entry, task),
        setup=setup,
        declared=training_figures(task) if setup in study.declared_names else None,
        setup_digest=setup_digest(task),
        learner=LearnerCell(name=chosen.name, params=params.model_dump(mode="json")),
        schedule=study.schedule,
        budget=study.budget,
        evaluation=EvaluationCell(
            steps=study.evaluation_steps(),
            contexts=study.evaluation.contexts,
            root=study.seeds.root,
            **study.evaluation.model_dump(include=set(EvaluationDetail.model_fields)),
        ),
        versions=versions(entry.name, task, chosen.name),
    )


def resolve_curriculum(entry: CurriculumEntry, setup: envs.Setup) -> CurriculumCell:
    """Returns a study's curriculum on one setup with every default filled in."""
    kind = curricula.get(entry.name)
    # What ignores ε or V₋ must not get a new run id when they change.
    said = kind.capabilities
    given = entry.on(setup.name)
    epsilon = DEFAULT_EPSILON if given.epsilon is None else given.epsilon
    threshold = setup.threshold if given.threshold is None else given.threshold
    # What the authors published for the task comes before the curriculum's own defaults.
    defaults = {name: option.default for name, option in kind.options().items()}
    return CurriculumCell(
        name=entry.name,
        epsilon=epsilon if said.has_budget else None,
        threshold=threshold if said.self_paced else None,
        options=defaults | dict(setup.options.get(entry.name, {})) | given.options,
    )
