"""Scores: every run as a dot, and the papers' tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.rows import Dot, Row, RowPlot
from pacebench.harness.report.sections.aggregates import aggregates, improvement
from pacebench.harness.report.sections.solved import solved
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
    """Returns the runs of every setup, with tables and what other papers print folded."""
    figures = [f for setup in data.study.setups if (f := _returns(data, setup)) is not None]
    tables = [_table(data, setup) for setup in data.study.setups]
    folds: list[tuple[str, Sequence[doc.Block]]] = [
        ("Tables in the papers' layout, with intervals", tables)
    ]
    if data.analysis.solved:
        folds.append(("Solved runs, and what they return", solved(data)))
    if any(estimand == "normalised" for _, _, estimand in data.analysis.scores):
        title = "Aggregates and performance profiles, as rliable defines them"
        folds.append((title, aggregates(data)))
    folds.append(("Probability of improvement", [improvement(data)]))
    blocks: list[doc.Block] = [doc.Figures(figures)]
    blocks += (doc.Fold(title, inside) for title, inside in folds)
    return doc.Section("results", "Scores", blocks)


def seed_plot(
    data: ReportData,
    setup: str,
    estimand: str,
    *,
    name: str,
    title: str,
    caption: str,
    label: str,
    head: str = "",
    note: Callable[[list[Dot]], str] | None = None,
    dots: Callable[[str], list[Dot]] | None = None,
    references: tuple[float, ...] = (),
) -> Figure | None:
    """Draws every run of a setup as a dot, and the mean of an estimand with its interval above.

    `dots` gives a method's runs, where they are not those of the estimand's own column, and `note`
    what stands at the end of a row of runs; `head` stands above that.
    """
    rows, found = [], []
    for method in data.study.labels:
        item = data.estimate(method, setup, estimand)
        if item is None:
            continue
        found.append(item.interval)
        runs = data.dots(setup, method, estimand) if dots is None else dots(method)
        ends = None if item.interval is None else (item.interval.low, item.interval.high)
        shown = "" if ends is None else f" [{ends[0]:.4g}, {ends[1]:.4g}]"
        style = data.styles[method]
        rows.append(
            Row(
                [style],
                style.short,
                ends,
                item.value,
                runs[: data.most_shown],
                note=note(runs) if note else "",
                tip=f"{method}: mean {item.value:.4g}{shown}, n = {item.runs}",
            )
        )
    if not rows:
        return None
    axis = Axis.over([*(v for row in rows for v in row.drawn), *references], label)
    plot = RowPlot(name, title, caption + data.thinned, axis, rows, None, references, head)
    return data.figure(replace(plot, notes=words.intervals(found) + data.unknown))


def _returns(data: ReportData, setup: str) -> Figure | None:
    anchors = data.scales[setup].anchors
    ends = (anchors.baseline, anchors.reference) if anchors else ()
    return seed_plot(
        data,
        setup,
        "return",
        name=f"return-{setup}",
        title=setup,
        caption=f"A dot is one run: full where it solved the task ({data.solved_words}), hollow "
        "where it did not, × where it failed. Above the dots, the mean and its interval"
        + ("; dashed, what is 0 and what is 1 on the normalised scale." if ends else "."),
        label=f"{data.score_word} at the end of training",
        head="solved",
        note=lambda runs: f"{sum(d.kind == 'solved' for d in runs)}/{len(runs)}",
        references=tuple(end.mean_return for end in ends),
    )


def _table(data: ReportData, setup: str) -> Table:
    rows = [_row(data, setup, label) for label in data.study.labels]
    show = fitted([row[key] for row in rows for key in ("mean", "low", "high")], 4)
    columns = [
        Column("method", "method", kind="method"),
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
        f"{_described(data, setup)}The p-value is Welch's, unadjusted, against whichever "
        "mean came out best: a convention of the papers.",
        columns,
        rows,
        notes=_notes(data, setup),
        optional=[column.key for column in columns if column.where != "csv"],
    )


def _described(data: ReportData, setup: str) -> str:
    """Returns what a setup is, where that is known."""
    task = data.setups.get(setup)
    return "" if task is None else f"{task.doc.rstrip('.')}; success: {task.success}. "


def _notes(data: ReportData, setup: str) -> str:
    estimates_ = [
        [item for label in data.study.labels if (item := data.estimate(label, setup, column))]
        for column in ("return", "success")
    ]
    scores, both = estimates_[0], [*estimates_[0], *estimates_[1]]
    bounded = [item.bounded for item in scores if item.bounded is not None]
    return (
        f"{words.intervals(item.interval for item in both)}"
        + (f"\nFrom the range of scores alone: {words.intervals(bounded)}" if bounded else "")
        + (
            words.percentiles(item.rliable for item in both)
            or "\nThe percentile bootstrap of other papers is refused at so few runs."
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
