"""The findings as a page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from pacebench.harness.overhead.findings import OverheadSummary
from pacebench.harness.overhead.summary import predict
from pacebench.harness.report import document as doc
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.overhead.claims import all_claims, headline_cells
from pacebench.harness.report.overhead.tables import by_cell, by_method, duration, percent
from pacebench.harness.report.palette import Style, looks
from pacebench.harness.report.render import write
from pacebench.harness.report.tables import count
from pacebench.harness.store.provenance import code_words, hardware_words, version_words

# Above this the machine was too noisy for small effects, and the page says so.
_NOISY = 1.05
_NO_FIT = "No curriculum has enough cells dominated by work, or times near the law, to be fitted."
_SHORT = (
    "Every curriculum replayed the same updates, from the same distribution, with the same "
    "contexts and values, interleaved on one thread in blocks, each a fresh process. What lies "
    "within the noise floor of the A/A (one curriculum under two names) is inconclusive. Answers "
    "are judged beside their speed, by exact formulas. “Published solver” is `spdl`: the published "
    "algorithm and optimiser settings (SciPy's trust-constr) with our analytic gradients; the "
    "original implementation, which differentiates automatically, is slower still."
)
_METHOD = (
    "State is restored before every update, outside the timed region; V₋ counts as not reached "
    "before, so that below it every method takes its performance step. Passes are interleaved in "
    "random order and then run backwards; an instance's time is the median over passes. Synthetic "
    "instances lie on the way from a wide initial distribution to the target, with diagonal "
    "covariances; recorded ones come from training runs."
)
_HEADLINE = (
    "Time and quality on the same updates. Times are of whole updates without divergences and "
    "distances for the record, whose cost is in the table of training runs; “own step” is the "
    "method's step alone. “Total” is the ratio of the summed times, what a user pays; “per update” "
    "the geometric mean of the ratios. The first 95 % interval is for other instances of the same "
    "workload, timed again (instances and blocks are samples); the second is for these instances, "
    "timed again (only blocks are). Gap: 0 % is the best feasible answer of any method, 100 % is "
    "not moving; negative gaps are bought by breaking a constraint."
)
_RATIOS = (
    "{clock} per update over instances and {blocks} blocks, each a fresh process that replays "
    "every instance; columns as above. Slower or faster only where both ratios have intervals that "
    "exclude 1 and estimates beyond the noise floor of the cell's A/A. What takes more than "
    "{limit:g} s on average over the probed updates, or did so at smaller d with the same K "
    "already, is not timed."
)
_SCALING = (
    "t = t₀ + c·dᵅ·Kᵝ, least squares on the logarithms, fitted in every block; t intervals over "
    "blocks, so for the same instances timed again. Work dominates a cell that takes at least "
    "three times the cheapest one; where few cells are, the exponents extrapolate."
)
_QUALITY = (
    "All by exact formulas. The budget is KL(p'‖p) for the forward problem and KL(p‖p') for the "
    "reverse one, the value is importance-weighted, in standard deviations of V; a violation is "
    "more than 0.1 % of ε or of that deviation. Methods that linearise the value are judged by the "
    "exact one. A rejected update leaves the distribution in place."
)
_TRAINING = (
    "Instrumented runs on {setup}, {env_steps} environment steps, {seeds} seeds, one process at a "
    "time on one thread, curricula in random order within each seed; 95 % t intervals over seeds. "
    "Evaluation is not counted. The last score is read after {common_seconds:.3g} s, the mean time "
    "of the quickest curriculum; a run that was done before keeps its last score."
)


def time_figure(summary: OverheadSummary, look: Mapping[str, Style]) -> PanelPlot:
    """Draws the time per update against d, at one K, of self-paced curricula and one control."""
    grid = [cell for cell in summary.cells if cell.kind == "synthetic"]
    size = min((cell.size for cell in grid), key=lambda k: abs(k - 64))
    line = sorted((cell for cell in grid if cell.size == size), key=lambda cell: cell.d)
    limit, panels = summary.settings.limit, []
    reached = [limit]
    for name in (n for n in summary.settings.curricula if n in summary.quality or n == "default"):
        times = {cell.d: cell.methods[name].time for cell in line if name in cell.methods}
        ends = [end for time in times.values() for end in (time.low, time.high, np.nan)]
        reached += ends
        d = np.array(list(times), dtype=np.float64)
        mean = Line(d, np.array([time.estimate for time in times.values()]))
        lines = [mean, replace(mean, kind="dots"), Line(np.repeat(d, 3), np.array(ends), "path")]
        if name in summary.scaling and len(d) > 1:
            x = np.geomspace(d.min(), d.max(), 40)
            lines.append(Line(x, predict(summary.scaling[name], x, size), "second"))
        stops = [f"{c.untimed[name]} at d = {c.d}" for c in line if name in c.untimed]
        panels.append(Panel(look[name].short, [look[name]], lines, note="".join(stops[:1])))
    across = Axis.over([cell.d for cell in line], "context dimensions d", log=True, most=1e9)
    up = Axis.over(reached, "time per update", log=True, most=1e9)
    return PanelPlot(
        "time-d",
        f"Time per update against d, K = {size}",
        f"{summary.clock_name} of a whole update on the same instances with its 95 % interval; "
        "the others in grey, so that a distance between lines is a ratio. Dashed: the fit "
        "t₀ + c·dᵅ·Kᵝ over the whole grid, if there is one.",
        across,
        replace(up, names=tuple(duration(x).replace(".0", "").replace(" ", "") for x in up.ticks)),
        panels,
        rules=((limit, f"limit {duration(limit)}"),),
        compared=True,
        notes="Geometric mean over instances and blocks; intervals for other instances.",
    )


def document(summary: OverheadSummary, look: Mapping[str, Style]) -> doc.Document:
    """Returns the whole page."""
    settings, floor, made = summary.settings, percent(summary.median_floor - 1), summary.machine
    loads, stolen = [c.load for c in summary.cells], max(c.steal for c in summary.cells)
    busy = (
        f"The machine was busy (load up to {max(loads):.2g}) and the median noise floor of the "
        f"cells is {floor}: smaller differences were not looked for."
    )
    noise = [busy] if summary.median_floor > _NOISY else []
    ratios = _RATIOS.format(clock=summary.clock_name, **dict(settings))
    found: list[doc.Block] = [
        *([doc.Warned("Exploratory: the machine was too noisy.", noise)] if noise else []),
        doc.Text(_SHORT),
        doc.Claims(list(all_claims(summary))),
        by_cell("headline", "Time and quality of one update", _HEADLINE, headline_cells(summary)),
    ]
    fits, title = summary.scaling, "Growth with d and K"
    time: list[doc.Block] = [
        doc.Figures([time_figure(summary, look)]),
        by_method("scaling", title, _SCALING, fits) if fits else doc.Text(_NO_FIT),
        by_cell("ratios", "Ratios to the closed form", ratios, summary.cells, folded=True),
    ]
    quality = by_method("quality", "Quality of the answers", _QUALITY, summary.quality)
    training = []
    if (trained := summary.training) is not None:
        title = "Share of training time, score per second"
        about = dict(trained) | {"env_steps": count(trained.env_steps)}
        table = by_method("training", title, _TRAINING.format(**about), trained.methods)
        training.append(doc.Section("training", "In a training run", [table]))
    load = f"{min(loads):.2g} to {max(loads):.2g} over the cells; at most {percent(stolen)} stolen"
    machine = [
        ("processor", hardware_words(made)),
        ("load", load),
        ("versions", version_words(made)),
        ("revision", code_words(made)),
    ]
    how = doc.Text(_METHOD), doc.Pairs(machine)
    return doc.Document(
        title="Wall-clock overhead",
        question="What does a closed form buy, against the published solver and a strong one?",
        facts=[
            f"{settings.blocks} blocks",
            f"{len(summary.cells)} cells",
            f"limit {settings.limit:g} s per update",
            f"noise floor {floor}",
        ],
        exploratory=noise,
        strength="exploratory" if noise else "",
        sections=[
            doc.Section("verdicts", "What was found", found),
            doc.Section("time", "Time per update", time),
            doc.Section("quality", "Quality next to speed", [quality]),
            *training,
            doc.Section("machine", "How it was measured", how),
        ],
    )


def write_pages(folder: Path, summary: OverheadSummary) -> None:
    """Writes page, Markdown, tables and figures."""
    look = looks([(name, name) for name in summary.settings.curricula])
    write(document(summary, look), look, folder)
