"""What a study will do, for people and for scripts, before it does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pacebench.harness import threads
from pacebench.harness.analysis.comparisons import fewest_seeds, questions
from pacebench.harness.runner.display import duration
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import by_cell

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class CellSummary:
    """One row of the plan."""

    setup: str
    curriculum: str
    epsilon: float | None
    threshold: float | None
    runs: int
    env_steps: int
    cpu_seconds: float | None


@dataclass(frozen=True)
class Summary:
    """The plan of a study.

    Attributes:
        seconds: Estimated wall-clock time with `workers` processes, None if not asked for.
        fewest: Seeds that the clearest possible difference takes, and two arms that never differ,
            for the question with the least weight; None where nothing is compared.
        adaptive: Whether fewer seeds may do, so that the figures are the most it can take.
        warnings: What will be missed once the runs are made.
    """

    study: str
    question: str
    cells: tuple[CellSummary, ...]
    runs: int
    env_steps: int
    comparisons: int
    workers: int
    seconds: float | None
    fewest: tuple[int, int | None] | None
    adaptive: bool
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as plain JSON-able values."""
        return asdict(self)

    def rendered(self) -> Iterator[RenderableType]:
        """Yields what a terminal shows."""
        from rich.table import Table
        from rich.text import Text

        yield Text(f"{self.study}: {self.question.strip()}")
        table = Table(box=None, pad_edge=False)
        for column in ("setup", "curriculum", "ε", "V₋", "runs", "environment steps", "CPU time"):
            table.add_column(
                column, justify="left" if column in ("setup", "curriculum") else "right"
            )
        for cell in self.cells:
            table.add_row(
                Text(cell.setup),
                Text(cell.curriculum),
                "–" if cell.epsilon is None else f"{cell.epsilon:g}",
                "–" if cell.threshold is None else f"{cell.threshold:g}",
                str(cell.runs),
                f"{cell.env_steps:,}",
                "–" if cell.cpu_seconds is None else duration(cell.cpu_seconds),
            )
        yield table
        most = "At most " if self.adaptive else ""
        yield Text(f"{most}{self.runs:,} runs, {self.env_steps:,} environment steps.")
        if self.seconds is not None:
            processes = f"{self.workers} process{'es' if self.workers > 1 else ''}"
            yield Text(f"About {duration(self.seconds)} on this machine with {processes}.")
        for warning in self.warnings:
            yield Text(f"Warning: {warning}", "yellow")
        if self.fewest is None:
            yield Text("Nothing is compared; declare comparisons, or add a second curriculum.")
        else:
            clear, equal = self.fewest
            same = "more than 1,000" if equal is None else f"{equal:,}"
            yield Text(
                f"{self.comparisons} question{'s' if self.comparisons > 1 else ''}: the clearest "
                f"difference takes {clear} seeds, equivalence at least {same}; `pacebench plan` "
                "says more."
            )


def summarise(study: Study, *, estimate: bool = True, workers: int | None = None) -> Summary:
    """Returns the plan of a study; timing it takes a few seconds per setup."""
    from pacebench.harness.runner.estimate import seconds_by_cell

    planned = by_cell(expand(study))
    seconds: list[float | None] = [None] * len(planned)
    if estimate:
        seconds = list(seconds_by_cell(planned))
    cells = tuple(
        CellSummary(
            setup=runs[0].cell.setup,
            curriculum=runs[0].label,
            epsilon=runs[0].cell.curriculum.epsilon,
            threshold=runs[0].cell.curriculum.threshold,
            runs=len(runs),
            env_steps=runs[0].cell.budget * len(runs),
            cpu_seconds=s,
        )
        for runs, s in zip(planned, seconds, strict=True)
    )
    workers = workers or threads.available_workers()
    known = [s for s in seconds if s is not None]
    asked = [q for q in questions(study, ()) if q.weighted]
    return Summary(
        study=study.name,
        question=study.question,
        cells=cells,
        runs=sum(cell.runs for cell in cells),
        env_steps=sum(cell.env_steps for cell in cells),
        comparisons=len(asked),
        workers=workers,
        seconds=sum(known) / workers if known else None,
        adaptive=study.seeds.adaptive,
        fewest=fewest_seeds(asked, study.statistics.smallest_effect) if asked else None,
        warnings=tuple(_warnings(study)),
    )


def _warnings(study: Study) -> Iterator[str]:
    for setup in map(study.setup, study.setups):
        if setup.anchors is not None:
            continue
        declared = setup.name in study.declared_names
        remedy = (
            "declare its 'anchors:'"
            if declared
            else f"measure them with pacebench anchors {setup.name} --write"
        )
        several = len(study.setups) > 1
        yield (
            f"setup '{setup.name}' has no anchors, so "
            + ("no report over several setups can be made" if several else "scores are raw returns")
            + f" and smallest_effect {study.statistics.smallest_effect:g} is one of the return; "
            f"{remedy}."
        )
        if setup.min_return is None and study.statistics.floor is None:
            yield (
                f"setup '{setup.name}' says neither its min_return nor is there a 'statistics: "
                "floor:', so a run that fails has no score and there will be no report; give one."
            )
