"""Of scores that were not made here: where they come from, what is not known, and every run."""

from __future__ import annotations

from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.tables import Column, Table, count, fixed, number, percent


def origin(data: ReportData) -> doc.Section:
    """Returns what a report of our own results says of plan, denominator and provenance."""
    assert data.foreign is not None
    blocks: list[doc.Block] = [
        doc.Warned("What cannot be known of scores from a file", list(data.foreign.unknown)),
        doc.Pairs(list(data.provenance)),
        _runs(data),
    ]
    return doc.Section("origin", "Where the scores come from", blocks)


def _runs(data: ReportData) -> Table:
    columns = [
        Column("setup", "setup"),
        Column("label", "method", kind="method"),
        Column("seed", "seed"),
        Column("return", "score", number(4), number=True),
        Column("normalised", "normalised", fixed(3), number=True),
        Column("success", "success", percent(0), number=True),
        Column("env_steps", "steps", count, number=True),
        Column("status", "status"),
        Column("reason", "reason"),
    ]
    places = {name: i for i, name in enumerate(data.study.setups)}
    labels = {name: i for i, name in enumerate(data.study.labels)}
    rows = [
        {
            **{str(key): value for key, value in run.items()},
            "seed": run["named_seed"],
            "unit": data.units.get((run["label"], run["setup"], int(run["seed"]))),
        }
        for run in data.runs.sort_values("seed").to_dict("records")
    ]
    rows.sort(key=lambda run: (places[run["setup"]], labels[run["label"]]))
    caption = "One row per run that the file has; a run is numbered by its place among them."
    return Table("runs", "All runs", caption, columns, rows, folded=True)
