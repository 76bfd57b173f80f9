"""Records the updates of real training runs: contexts, values, and where they were drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacebench import curricula
from pacebench.harness.overhead.instances import Instance, RecordedStream, save_stream
from pacebench.harness.overhead.training import training_cell
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.training import train

SETUPS = ("point-mass-1", "point-mass-2")
# The curriculum that makes the stream must keep to a diagonal Gaussian, which every method can
# start from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"
_NAME = "overhead-recording"


def record_streams(folder: Path, steps: int, seed: int) -> Iterator[str]:
    """Trains once per setup and writes `<setup>.npz`; yields the setups as they are done."""
    for setup in SETUPS:
        path = folder / f"{setup}.npz"
        if not path.exists():
            save_stream(path, record(setup, steps, seed))
            yield setup


def record(setup: str, steps: int, seed: int) -> RecordedStream:
    """Returns the stream of one training run of `steps` environment steps."""
    cell = training_cell(RECORDED, setup, steps, seed)
    run = RunSeed(root=seed, role=StudyRole.PILOT, index=0)
    with _recording() as instances:
        named = cell.curriculum.model_copy(update={"name": _NAME})
        train(cell.model_copy(update={"curriculum": named}), [run])
    source = {
        "setup": setup,
        "curriculum": cell.curriculum.model_dump(mode="json"),
        "learner": cell.learner.model_dump(mode="json"),
        "schedule": cell.schedule.model_dump(mode="json"),
        "steps": steps,
        "seed": run.model_dump(mode="json"),
    }
    return RecordedStream(setup, source, tuple(instances))


@contextmanager
def _recording() -> Iterator[list[Instance]]:
    """Registers, for a while, a curriculum that notes what each update is given."""
    instances: list[Instance] = []
    base: Any = curricula.get(RECORDED)

    class Recording(base):  # type: ignore[misc]
        """The recorded curriculum with a memory."""

        def update(self, contexts: ArrayLike, values: ArrayLike) -> curricula.UpdateRecord:
            given = np.array(contexts, dtype=np.float64), np.array(values, dtype=np.float64)
            instances.append(
                Instance(
                    self.target, self.distribution, *given, float(self.threshold), self.epsilon
                )
            )
            record: curricula.UpdateRecord = super().update(contexts, values)
            return record

    curricula.register(_NAME)(Recording)
    try:
        yield instances
    finally:
        curricula.unregister(_NAME)
