"""Streams recorded from training runs: what each curriculum update of a run was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pacebench import curricula
from pacebench.harness.overhead.instances import Floats, Instance, RecordedStream
from pacebench.harness.overhead.training import overhead_study
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.training import train

RECORDED_SETUPS = ("point-mass-1", "point-mass-2")
# The curriculum that makes the stream must keep to a diagonal Gaussian, which every method can
# start from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"
STEPS = 163_840


def record(setup: str, seed: int, steps: int = STEPS) -> RecordedStream:
    """Returns the stream of one training run."""
    study = overhead_study([RECORDED], setup, steps, seed)
    cell = resolve_cell(study, study.curricula[0], setup)
    run = RunSeed(root=seed, role=StudyRole.PILOT, index=0)
    with _recording() as (name, instances):
        named = cell.curriculum.model_copy(update={"name": name})
        train(cell.model_copy(update={"curriculum": named}), [run])
    about = cell.model_dump(mode="json", include={"setup", "curriculum", "learner", "schedule"})
    source = {**about, "steps": steps, "seed": run.model_dump(mode="json")}
    return RecordedStream(source=source, instances=tuple(instances))


@contextmanager
def _recording() -> Iterator[tuple[str, list[Instance]]]:
    """Registers, for a while, a curriculum that notes what each update is given."""
    name = "overhead-recording"
    instances: list[Instance] = []
    base: Any = curricula.get(RECORDED)

    class Recording(base):  # type: ignore[misc]
        """The recorded curriculum with a memory."""

        def _propose(self, contexts: Floats, values: Floats) -> Any:
            given = contexts.copy(), values.copy(), float(self.threshold), self.epsilon
            instances.append(Instance(self.target, self.distribution, *given))
            return super()._propose(contexts, values)

    curricula.register(name)(Recording)
    try:
        yield name, instances
    finally:
        curricula.unregister(name)
