"""Results per setup in the papers' layout, with our intervals and every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pacebench.harness.analysis.scores import MEASURED, UNRESOLVED
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import (
    ReportData,
    interval_cells,
    interval_words,
    percentile_words,
    slug,
)
from pacebench.harness.report.document import Block, Figures, Section, TableBlock, Text
from pacebench.harness.report.figures.rows import Reference, Row, Seed, draw_rows, height_of
from pacebench.harness.report.tables import (
    Column,
    Table,
    fitted,
    fixed,
    number,
    p_value,
    percent,
    span,
)
from pacebench.harness.statistics.estimates import Estimate
from pacebench.harness.statistics.paper import PaperRow
from pacebench.harness.statistics.specification import NORMALISED, SUCCESS


def results(view: ReportData) -> Section:
    """Returns one table and two figures per setup."""
    blocks: list[Block] = [
        Text(
            "One row per curriculum in the layout of the papers: mean of the runs' final target "
            "returns, its standard error, p-value against the best mean, success rate. Beside it "
            "the intervals this harness stands for, and the one that other papers print."
        )
    ]
    for setup in view.study.setups:
        blocks.append(TableBlock(_table(view, setup)))
        blocks.append(Figures(_figures(view, setup)))
    return Section("results", "Results per setup", blocks)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    show = fitted([row[key] for row in rows for key in ("mean", "low", "high")], 4)
    return [
        Column("method", "curriculum", kind="method"),
        Column("runs", "n", number=True),
        Column("mean", "mean return", show, number=True),
        Column("standard_error", "SE", show, number=True),
        Column("p_against_best", "p vs best", p_value, number=True),
        Column("success", "success", percent(1), number=True),
        Column("interval", "interval of the mean", span(show), number=True, where="shown"),
        Column("low", "", where="csv"),
        Column("high", "", where="csv"),
        Column("bounded", "bounded-score interval", span(show), number=True, where="shown"),
        Column("bounded_low", "", where="csv"),
        Column("bounded_high", "", where="csv"),
        Column("rliable", "percentile (other papers)", span(show), number=True, where="shown"),
        Column("rliable_low", "", where="csv"),
        Column("rliable_high", "", where="csv"),
        Column(
            "success_interval", "success interval", span(percent(0)), number=True, where="shown"
        ),
        Column("success_low", "", where="csv"),
        Column("success_high", "", where="csv"),
        Column(
            "success_rliable", "success, percentile", span(percent(0)), number=True, where="shown"
        ),
        Column("success_rliable_low", "", where="csv"),
        Column("success_rliable_high", "", where="csv"),
        Column("normalised", "normalised", fixed(3), number=True),
        Column("iqm", "IQM, normalised", fixed(3), number=True),
        Column("cvar", "worst 20 %, normalised", fixed(3), number=True),
    ]


def _table(view: ReportData, setup: str) -> Table:
    paper = {row.method: row for row in view.analysis.paper if row.setup == setup}
    rows = [_row(view, setup, label, paper.get(label)) for label in view.labels]
    columns = _columns(rows)
    found = [view.estimate(label, setup, "score") for label in view.labels]
    if any(item is not None and item.unresolved for item in found):
        columns.append(Column("bounds", "if unknown runs were worst/best", span(number(4))))
    success = [view.estimate(label, setup, SUCCESS) for label in view.labels]
    empty = {c.key for c in columns if c.where != "csv" and all(r[c.key] is None for r in rows)}
    hidden = {f"{key}_{end}" for key in empty for end in ("low", "high")}
    described = view.setups[setup]
    text = (
        f"{described.doc} Success: {described.success}. "
        "The p-value is Welch's, unadjusted, against whichever mean came out best: a convention "
        "of the papers, not a test of a hypothesis. "
        f"{interval_words(e.interval for e in (*found, *success) if e is not None)} "
        f"{_bounded_words(found)}"
        f"{_rliable_words([*found, *success])}{_refusals(found)}"
    )
    return Table(
        f"results-{slug(setup)}",
        setup,
        text,
        [c for c in columns if c.key not in empty | hidden],
        rows,
    )


def _row(view: ReportData, setup: str, label: str, paper: PaperRow | None) -> dict[str, Any]:
    score = view.estimate(label, setup, "score")
    success = view.estimate(label, setup, SUCCESS)
    row: dict[str, Any] = {
        "method": label,
        "runs": paper.runs if paper else 0,
        "mean": paper.mean if paper else None,
        "standard_error": paper.standard_error if paper else None,
        "p_against_best": paper.p_against_best if paper else None,
        "success": paper.success if paper else None,
        "normalised": _value(view.estimate(label, setup, NORMALISED)),
        "iqm": _value(view.estimate(label, setup, NORMALISED, "iqm")),
        "cvar": _value(view.estimate(label, setup, "cvar")),
        "bounds": None,
    }
    row |= interval_cells(score.interval if score else None, "interval")
    row |= interval_cells(score.bounded if score else None, "bounded", "bounded_")
    row |= interval_cells(score.rliable if score else None, "rliable", "rliable_")
    row |= interval_cells(success.interval if success else None, "success_interval", "success_")
    row |= interval_cells(
        success.rliable if success else None, "success_rliable", "success_rliable_"
    )
    if score is not None and score.worst is not None and score.best is not None:
        row["bounds"] = (score.worst, score.best)
    return row


def _value(item: Estimate | None) -> float | None:
    return item.value if item is not None else None


def _rliable_words(found: Sequence[Estimate | None]) -> str:
    known = [e.rliable for e in found if e is not None and e.rliable is not None]
    if not known:
        return "The percentile bootstrap of other papers is refused at so few runs. "
    return f"{percentile_words(known)} "


def _bounded_words(found: Sequence[Estimate | None]) -> str:
    known = [e.bounded for e in found if e is not None and e.bounded is not None]
    return f"\nFrom the range of scores alone: {interval_words(known)} " if known else ""


def _refusals(found: Sequence[Estimate | None]) -> str:
    sentences = dict.fromkeys(s for e in found if e is not None for s in e.refusals)
    return " ".join(sentences)


def _figures(view: ReportData, setup: str) -> list[Figure]:
    scale = view.scales[setup]
    anchors = scale.anchors
    references = [
        Reference(anchors.baseline.mean_return, anchors.baseline.policy),
        Reference(anchors.reference.mean_return, anchors.reference.policy),
    ]
    ends = [reference.value for reference in references]
    returns = _figure(
        view,
        setup,
        "score",
        "return",
        "Final target return",
        "mean target return",
        references,
        ends,
    )
    success = _figure(
        view, setup, SUCCESS, "success", "Final success rate", "success rate", (), [0.0, 1.0]
    )
    return [figure for figure in (returns, success) if figure is not None]


def _figure(
    view: ReportData,
    setup: str,
    column: str,
    raw: str,
    title: str,
    xlabel: str,
    references: Sequence[Reference],
    include: Sequence[float],
) -> Figure | None:
    here = view.scored[(view.scored["setup"] == setup) & (view.scored["how"] != UNRESOLVED)]
    rows = []
    for label in view.labels:
        item = view.estimate(label, setup, column)
        if item is None:
            continue
        mine = here[here["label"] == label].sort_values("seed")
        seeds = [_seed(run, raw) for run in mine.to_dict("records")]
        style = view.styles[label]
        rows.append(Row(style, style.short, item.interval, seeds, estimate=item.value))
    if not rows:
        return None
    name = f"{raw}-{slug(setup)}"
    height = height_of(len(rows), 0.52)
    with view.canvas(name, f"{title}, {setup}", height=height) as canvas:
        draw_rows(canvas, rows, xlabel, references=references, include=include)
        return canvas.finish(
            f"Dots: one training run each, its mean over {view.study.evaluation.contexts} held-out "
            f"target contexts (crosses: failed runs at the floor). Bars: "
            f"{interval_words(row.interval for row in rows)}{view.unknown}"
        )


def _seed(run: Mapping[Any, Any], raw: str) -> Seed:
    failed = run["how"] != MEASURED
    tip = f"{run['label']}, seed {run['seed']}: return {run['return']:.4g}, "
    tip += f"success {run['success']:.0%}"
    return Seed(float(run[raw]), tip + (f" ({run['status']})" if failed else ""), failed)
