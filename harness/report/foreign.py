"""The report of scores that were not made here: the same analysis, and the same page.

Its last section says where they come from, what is not known, and every run.
"""

from __future__ import annotations

from pathlib import Path

from pacebench.harness.analysis.foreign import ForeignStudy
from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.gather import report_made
from pacebench.harness.report.make import Report, write
from pacebench.harness.report.sections.claims import claims, wealth
from pacebench.harness.report.sections.closing import SCORES, runs_table
from pacebench.harness.report.sections.curves import learning
from pacebench.harness.report.sections.order import document
from pacebench.harness.report.sections.scores import results
from pacebench.harness.report.tables import Column, count, number

_RUN = (
    Column("setup", "setup"),
    Column("label", "method", kind="method"),
    Column("seed", "seed"),
    Column("return", "score", number(4), number=True),
    *SCORES,
    Column("env_steps", "steps", count, number=True),
    Column("status", "status"),
    Column("reason", "reason"),
)


def foreign_data(made: ForeignStudy) -> ReportData:
    """Returns what the report of scores from elsewhere is made from."""
    rows = [
        ("scores", made.source),
        ("SHA-256 of the scores as read", made.digest),
        ("report", report_made()),
    ]
    runs = made.table.rows
    return ReportData(
        study=made.study,
        declared=made.study,
        setups={},
        scales=made.scales,
        runs=runs,
        scored=runs,
        curves=made.curves,
        updates=made.updates,
        analysis=made.analysis,
        provenance=rows,
        notes=made.notes,
        foreign=made,
    )


def report_foreign(made: ForeignStudy, out: Path) -> Report:
    """Writes the report of scores from elsewhere.

    Raises:
        StorageError: The folder cannot be written.
    """
    data = foreign_data(made)
    curves = (learning,) if made.table.has_area else ()
    said = document(data, (claims, wealth, results, *curves, origin))
    write(said, data, out)
    return Report(out, data, said)


def origin(data: ReportData) -> doc.Section:
    """Returns what a report of our own results says of plan, denominator and provenance."""
    assert data.foreign is not None
    caption = "One row per run that the file has; a run is numbered by its place among them."
    blocks: list[doc.Block] = [
        doc.Warned("What cannot be known of scores from a file", list(data.foreign.unknown)),
        doc.Pairs(list(data.provenance)),
        runs_table(data, caption, _RUN),
    ]
    return doc.Section("origin", "Where the scores come from", blocks)
