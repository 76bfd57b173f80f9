"""The figure of a measurement: time against d."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pacebench.harness.overhead.findings import OverheadSummary
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.overhead.tables import duration
from pacebench.harness.report.palette import Style


def time_figure(summary: OverheadSummary, look: Mapping[str, Style]) -> Figure:
    """Draws the time per update against d, at one K, of self-paced curricula and one control."""
    grid = [cell for cell in summary.cells if cell.kind == "synthetic"]
    size = min((cell.size for cell in grid), key=lambda k: abs(math.log(k / 64)))
    line = sorted((cell for cell in grid if cell.size == size), key=lambda cell: cell.d)
    panels, reached = [], []
    for name in summary.settings.curricula:
        if name not in summary.quality and name != "default":
            continue
        times = {cell.d: cell.methods[name].time for cell in line if name in cell.methods}
        ends = [(time.low, time.high, np.nan) for time in times.values()]
        reached += [end for low, high, _ in ends for end in (low, high)]
        d = np.array(list(times), dtype=np.float64)
        mean = Line(d, np.array([time.estimate for time in times.values()]))
        bars = Line(np.repeat(d, 3), np.array(ends).ravel(), "path")
        lines = [mean, replace(mean, kind="dots"), bars]
        if name in summary.scaling and len(d) > 1:
            x = np.geomspace(d.min(), d.max(), 40)
            fitted = predict(summary.scaling[name], x, np.full(len(x), float(size)))
            lines.append(Line(x, fitted, "second"))
        stops = [f"{c.untimed[name]} at d = {c.d}" for c in line if name in c.untimed]
        panels.append(Panel(look[name].short, [look[name]], lines, note="".join(stops[:1])))
    limit = summary.settings.limit
    across = Axis.over([cell.d for cell in line], "context dimensions d", log=True, most=1e9)
    up = Axis.over([*reached, limit], "time per update", log=True, most=1e9)
    return PanelPlot(
        "time-d",
        f"Time per update against d, K = {size}",
        f"{summary.clock_name} of a whole update on the same instances with its 95 % interval; "
        "the others in grey, so that a distance between lines is a ratio. Dashed: the fit "
        "t₀ + c·dᵅ·Kᵝ over the whole grid, if there is one.",
        across,
        replace(up, names=tuple(duration(tick).replace(" ", "") for tick in up.ticks)),
        panels,
        rules=((limit, f"limit {duration(limit)}"),),
        compared=True,
        notes="Geometric mean over instances and blocks; intervals for other instances.",
    )
