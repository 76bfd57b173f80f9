"""How a search went: what was tried, what it scored, and where the choice lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import FloatArray, Line, Panel, PanelPlot
from pacebench.harness.report.palette import Style
from pacebench.harness.tuning.record import SearchRecord

SHORT = {"epsilon": "ε", "threshold": "V₋", "std_floor_ratio": "std floor"}


def history_figure(
    data: ReportData, setup: str, searches: Sequence[SearchRecord], look: Mapping[str, Style]
) -> Figure:
    """Draws every trial in its order, and the best so far, a panel per method."""
    panels = []
    for method, mine in _by_method(searches).items():
        lines = []
        for search in mine:
            known = [(t.number + 1, t.value) for t in search.trials if t.value is not None]
            x, y = _columns(known)
            best = np.array(list(accumulate(y.tolist(), max)))
            lines += [Line(x, y, "dots"), Line(x, best, steps=True)]
        style = look[method]
        panels.append(Panel(style.short, [style], lines))
    most = max(len(search.trials) for search in searches)
    plot = PanelPlot(
        f"tuning-{setup}",
        f"Searches on {setup}",
        "Every trial (dots) and the best so far (lines). The best of many noisy scores is lucky as "
        "well as good; the optimism gap in the table says by how much.",
        Axis.over([1, most], "trial", count=3),
        _scores(searches),
        panels,
    )
    return data.figure(plot)


def response_figure(
    data: ReportData, setup: str, searches: Sequence[SearchRecord], look: Mapping[str, Style]
) -> Figure | None:
    """Draws the scores of all trials over each searched range, a panel per method and range."""
    y = _scores(searches)
    panels = []
    for method, mine in _by_method(searches).items():
        ranges = {n: part for n, part in mine[0].space.items() if isinstance(part, Mapping)}
        for name, part in ranges.items():
            panels.append(_response(mine, name, part, look[method], y))
    if not panels:
        return None
    plot = PanelPlot(
        f"response-{setup}",
        f"What was tried on {setup}",
        "The score of every trial over one searched value, whatever the others were; rings mark "
        "what was chosen, the dashed line the study's own value. Tuning scores choose; they are "
        "never results.",
        Axis.over([0, 1], "the value named above the panel"),
        y,
        panels,
    )
    return data.figure(plot)


def _response(
    searches: Sequence[SearchRecord], name: str, part: Mapping[str, Any], style: Style, y: Axis
) -> Panel:
    tried = [trial for search in searches for trial in search.trials if trial.value is not None]
    chosen = [
        (float(trial.point[name]), trial.value)
        for search in searches
        for trial in search.trials
        if trial.number == search.chosen and trial.value is not None
    ]
    ends = (float(part["low"]), float(part["high"]))
    log = bool(part.get("log"))
    x = Axis.over(ends, name, log=log, count=3, most=1e9)
    lines = [
        Line(*_columns((float(t.point[name]), t.value) for t in tried), "dots"),
        Line(*_columns(chosen), "rings"),
    ]
    own = searches[0].own.get(name)
    if isinstance(own, int | float) and ends[0] <= own <= ends[1]:
        lines.append(Line(np.array([own, own]), np.array([y.low, y.high]), "rule"))
    return Panel(style.short, [style], lines, note=SHORT.get(name, name), axes=(x, y))


def _scores(searches: Iterable[SearchRecord]) -> Axis:
    values = [t.value for s in searches for t in s.trials if t.value is not None]
    return Axis.over(values, "score (normalised)", count=3)


def _by_method(searches: Sequence[SearchRecord]) -> dict[str, list[SearchRecord]]:
    found: dict[str, list[SearchRecord]] = {}
    for search in searches:
        found.setdefault(search.method, []).append(search)
    return found


def _columns(pairs: Iterable[tuple[float, Any]]) -> tuple[FloatArray, FloatArray]:
    table = np.array([(float(a), float(b)) for a, b in pairs], dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
