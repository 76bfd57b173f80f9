"""Results per setup in the papers' layout, with our intervals and every seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.rows import row_figure, seed_rows
from pacebench.harness.report.tables import (
    Column,
    Table,
    fitted,
    fixed,
    interval_cells,
    number,
    p_value,
    percent,
    span,
)

# What the papers print beside the number of runs.
_PAPER = ("mean", "standard_error", "p_against_best", "success")


def results(data: ReportData) -> doc.Section:
    """Returns one table and two figures per setup."""
    lead = (
        "One row per curriculum in the layout of the papers: mean of the runs' final target "
        "returns, its standard error, p-value against the best mean, success rate. Beside it "
        "the intervals this harness stands for, and the one that other papers print."
    )
    blocks: list[doc.Block] = [doc.Text(lead)]
    for setup in data.study.setups:
        blocks += [doc.TableBlock(_table(data, setup)), doc.Figures(_figures(data, setup))]
    return doc.Section("results", "Results per setup", blocks)


def _table(data: ReportData, setup: str) -> Table:
    rows = [_row(data, setup, label) for label in data.study.labels]
    show = fitted([row[key] for row in rows for key in ("mean", "low", "high")], 4)
    columns = [
        Column("method", "curriculum", kind="method"),
        Column("runs", "n", number=True),
        Column("mean", "mean return", show, number=True),
        Column("standard_error", "SE", show, number=True),
        Column("p_against_best", "p vs best", p_value, number=True),
        Column("success", "success", percent(1), number=True),
        *Column.interval("interval", "interval of the mean", show),
        *Column.interval("bounded", "bounded-score interval", show),
        *Column.interval("rliable", "percentile (other papers)", show),
        *Column.interval("success_interval", "success interval", percent(0)),
        *Column.interval("success_rliable", "success, percentile", percent(0)),
        Column("normalised", "normalised", fixed(3), number=True),
        Column("iqm", "IQM, normalised", fixed(3), number=True),
        Column("cvar", "worst 20 %, normalised", fixed(3), number=True),
        Column("bounds", "if unknown runs were worst/best", span(number(4))),
    ]
    return Table(
        words.slug(f"results-{setup}"),
        setup,
        _caption(data, setup),
        columns,
        rows,
        optional=[column.key for column in columns if column.where != "csv"],
    )


def _caption(data: ReportData, setup: str) -> str:
    estimates = [
        [item for label in data.study.labels if (item := data.estimate(label, setup, column))]
        for column in ("return", "success")
    ]
    scores, both = estimates[0], [*estimates[0], *estimates[1]]
    bounded = [item.bounded for item in scores if item.bounded is not None]
    task = data.setups[setup]
    return (
        f"{task.doc} Success: {task.success}. "
        "The p-value is Welch's, unadjusted, against whichever mean came out best: a convention "
        "of the papers, not a test of a hypothesis. "
        f"{words.intervals(item.interval for item in both)} "
        + (f"\nFrom the range of scores alone: {words.intervals(bounded)} " if bounded else "")
        + (
            words.percentiles(item.rliable for item in both)
            or "The percentile bootstrap of other papers is refused at so few runs."
        )
        + " "
        + " ".join(dict.fromkeys(sentence for item in scores for sentence in item.refusals))
    )


def _row(data: ReportData, setup: str, label: str) -> dict[str, Any]:
    paper = next((p for p in data.analysis.paper if (p.setup, p.label) == (setup, label)), None)
    score, success = (data.estimate(label, setup, column) for column in ("return", "success"))
    further = {
        "normalised": data.estimate(label, setup, "normalised"),
        "iqm": data.estimate(label, setup, "normalised", "iqm"),
        "cvar": data.estimate(label, setup, "cvar"),
    }
    bounded = score is not None and score.worst is not None and score.best is not None
    return {
        "method": label,
        "runs": paper.runs if paper else 0,
        **{name: getattr(paper, name, None) for name in _PAPER},
        **{name: item.value if item else None for name, item in further.items()},
        "bounds": (score.worst, score.best) if score and bounded else None,
        **interval_cells("interval", score.interval if score else None),
        **interval_cells("bounded", score.bounded if score else None),
        **interval_cells("rliable", score.rliable if score else None),
        **interval_cells("success_interval", success.interval if success else None),
        **interval_cells("success_rliable", success.rliable if success else None),
    }


def _figures(data: ReportData, setup: str) -> list[Figure]:
    anchors = data.scales[setup].anchors
    ends = (
        [(e.mean_return, e.policy) for e in (anchors.baseline, anchors.reference)]
        if anchors
        else []
    )
    before = (
        f"Dots: one training run each, its mean over {data.study.evaluation.contexts} held-out "
        "target contexts (crosses: failed runs at the floor). Bars: "
    )
    returns = row_figure(
        data,
        f"return-{setup}",
        f"Final target return, {setup}",
        seed_rows(data, setup, "return", _tip),
        "mean target return",
        per_row=0.52,
        before=before,
        references=ends,
        include=[value for value, _ in ends],
    )
    success = row_figure(
        data,
        f"success-{setup}",
        f"Final success rate, {setup}",
        seed_rows(data, setup, "success", _tip),
        "success rate",
        per_row=0.52,
        before=before,
        include=[0.0, 1.0],
    )
    return [figure for figure in (returns, success) if figure is not None]


def _tip(run: Mapping[Any, Any]) -> str:
    failed = f" ({run['status']})" if run["how"] != MEASURED else ""
    scores = f"return {run['return']:.4g}, success {run['success']:.0%}"
    return f"{run['label']}, seed {run['seed']}: {scores}{failed}"
