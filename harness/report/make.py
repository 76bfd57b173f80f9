"""`report`: from a results folder to pages, tables and figures."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from pacebench.harness.analysis.deviations import noted
from pacebench.harness.analysis.freeze import analysis_code
from pacebench.harness.analysis.history import REPORT_EVENT
from pacebench.harness.analysis.scores import UNRESOLVED, broken_cells
from pacebench.harness.errors import UserError
from pacebench.harness.report import render
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.document import Document
from pacebench.harness.report.gather import gather
from pacebench.harness.report.paper import write_paper
from pacebench.harness.report.plain import SUMMARY, embedded, summary
from pacebench.harness.report.sections.order import document
from pacebench.harness.store.files import StorageError, make_folder, storage, write_atomic
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.load import load_results
from pacebench.harness.store.provenance import hostname
from pacebench.harness.store.study_files import StudyFiles

FOLDER = "report"


@dataclass(frozen=True)
class Report:
    """A written report.

    Attributes:
        folder: Where its files are.
        view: What it was made from.
        document: What it says.
    """

    folder: Path
    view: ReportData
    document: Document

    def __repr__(self) -> str:
        """Says where it is."""
        return f"<Report {self.page}>"

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.folder / "index.html"


def report(path: Path | str, out: Path | str | None = None) -> Report:
    """Writes the report of a results folder and notes in its ledger that the data were looked at.

    The same results give the same tables and figures, byte for byte; only the provenance section
    says when and by which code the report was made.

    Args:
        path: The results folder, `results/<study>`, or a packed study.
        out: Where to write; `report` inside it if not given.

    Raises:
        UserError: There are no results, or they cannot be analysed.
    """
    root = Path(path)
    data = looked_at(root, must_note=out is None)
    made = document(data)
    folder = StudyFiles(root).folder / FOLDER if out is None else Path(out)
    write(made, data, folder)
    return Report(folder, data, made)


def looked_at(root: Path, *, must_note: bool) -> ReportData:
    """Analyses a results folder and notes in its ledger that the data were looked at.

    Args:
        root: The results folder, or a packed study.
        must_note: Whether a ledger that cannot be written is an error, or said in the report.

    Raises:
        UserError: There are no results, or they cannot be analysed.
    """
    results, ledger = load_results(root), Ledger(root)
    data = gather(root, results, ledger)
    known = data.runs["how"] != UNRESOLVED
    counts = known.groupby([data.runs["label"], data.runs["setup"]]).sum()
    if not counts.any():
        for (label, setup), crash in broken_cells(data.runs).items():
            raise UserError(
                f"{root}: every run that ended crashed, {label} on {setup} with {crash}; correct "
                "the code and run the study again."
            )
        reasons = list(results.problems.values())
        some = f" ({len(reasons)} are on disk but damaged: {reasons[0]})" if reasons else ""
        raise UserError(f"{root}: no run has finished yet{some}; run the study first.")
    # Noted before it is written: a report that fails half-way has been a look all the same.
    look = sorted({int(counts.min()), int(counts.max())})
    try:
        ledger.append(
            REPORT_EVENT,
            runs_known=look,
            plan=results.manifest.plan_digest,
            analysis=analysis_code(),
            verdicts=noted(data.analysis.comparisons),
        )
    except StorageError as error:
        if must_note:
            raise
        said = f"This look at the data is not noted in the study's ledger: {error}"
        data = replace(data, notes=[*data.notes, said])
    return data


def write(made: Document, data: ReportData, folder: Path) -> None:
    """Writes a document's files beside those of an earlier report, and then puts them in place.

    Raises:
        StorageError: The folder cannot be written.
    """
    make_folder(folder)
    mine = f".new-{hostname()}-"
    with storage(folder), TemporaryDirectory(prefix=f"{mine}{os.getpid()}-", dir=folder) as name:
        new = Path(name)
        _remove_leftovers(folder, mine, new)
        render.write(made, data.styles, new, embedded(data))
        write_paper(made, make_folder(new / "paper"))
        write_atomic(new / SUMMARY, summary(made, data).encode())
        # All of it is there, so an interruption leaves the old report or the new one.
        for part in ("tables", "figures", "paper", "report.md", SUMMARY, "index.html"):
            if os.path.lexists(folder / part):
                os.rename(folder / part, new / f"old-{part}")
            os.rename(new / part, folder / part)


def _remove_leftovers(folder: Path, mine: str, new: Path) -> None:
    """Removes what killed reports of this machine left half-written."""
    for path in folder.glob(".new-*"):
        pid = path.name.removeprefix(mine).partition("-")[0]
        known = path.name.startswith(mine) and pid.isdigit() and path != new
        if known and (int(pid) == os.getpid() or not psutil.pid_exists(int(pid))):
            shutil.rmtree(path, ignore_errors=True)
