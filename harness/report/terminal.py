"""The first screen of a report as text: question, answer, grid, contrasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pacebench.harness.analysis import freeze
from pacebench.harness.analysis.comparisons import ComparisonResult
from pacebench.harness.analysis.deviations import standing
from pacebench.harness.analysis.history import history_of
from pacebench.harness.analysis.verdicts import number
from pacebench.harness.analysis.waves import open_questions, scored_table
from pacebench.harness.report.answer import SIGNS, answer, grid, in_order, places
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.load import load_results
from pacebench.harness.study.models import Study

_STYLES = {"better": "green", "worse": "red", "equivalent": "blue", "not worse": "green"}
_STYLES |= {"not better": "red", "undecided": "dim"}
_WIDTH = 33  # characters of a drawn interval


def first_screen(
    study: Study, family: Sequence[ComparisonResult], *, exploratory: bool, unit: str = "seeds"
) -> Iterator[RenderableType]:
    """Yields what a terminal shows of a study's weighted comparisons."""
    yield Text(study.question.strip(), style="dim")
    yield Text(answer(study, family, exploratory=exploratory, unit=unit), style="bold")
    chips = grid(study, family)
    if not chips.rows:
        return
    table = Table(box=None, pad_edge=False)
    for head in (f"against {chips.control}", *chips.heads()):
        table.add_column(Text(head), no_wrap=True)
    for text, line in chips.lines():
        shown = [Text(c.text, _STYLES[c.word]) if c else Text("–") for c in line]
        table.add_row(Text(text), *shown)
    yield Text()
    yield table
    yield Text()
    yield _contrasts(family)


def study_screen(study: Study, root: Path) -> Iterator[RenderableType]:
    """Yields the first screen of a results folder, without a report of it."""
    table = scored_table(study, root)
    results, history = load_results(root), history_of(Ledger(root))
    changes = results.manifest.history
    doubts = standing(freeze.load(root), study, results.runs, history, changes).doubts
    family = in_order(table.study, open_questions(table))
    unit = "searches" if study.by_search else "seeds"
    yield from first_screen(table.study, family, exploratory=bool(doubts), unit=unit)


def _contrasts(family: Sequence[ComparisonResult]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in ("difference", "where", "", "estimate", "interval", "n"):
        right = head in ("estimate", "n")
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    most: dict[tuple[str, str], float] = {}
    for item in family:
        if item.shown:
            key = item.question.scope, item.question.estimand
            most[key] = max(most.get(key, 0.0), abs(item.shown.low), abs(item.shown.high))
    titles = places(family)
    for item in family:
        q, shown, tone = item.question, item.shown, _STYLES[item.verdict.value]
        drawn = Text(_drawn(item, most.get((q.scope, q.estimand), 1.0)), tone)
        estimate = number(shown.estimate) if shown else "–"
        ends = f"{number(shown.low)} to {number(shown.high)}" if shown else "–"
        sign = SIGNS[item.verdict.value]
        name = Text(f"{sign} {q.a} − {q.b}", tone)
        table.add_row(
            name, Text(titles[q.scope, q.estimand]), drawn, estimate, ends, str(item.seeds)
        )
    return table


def _drawn(item: ComparisonResult, most: float) -> str:
    """Returns an interval as a line of characters, with zero in the middle."""
    if item.shown is None:
        return ""
    half = _WIDTH // 2

    def place(value: float) -> int:
        return half + round(max(-1.0, min(1.0, value / (most or 1.0))) * half)

    cells = [" "] * _WIDTH
    for band in range(place(-item.effect), place(item.effect) + 1):
        cells[band] = "░"
    low, high = place(item.shown.low), place(item.shown.high)
    cells[low : high + 1] = "─" * (high - low + 1)
    cells[half] = "┼" if low <= half <= high else "│"
    cells[place(item.shown.estimate)] = "●"
    return "".join(cells)
