"""Several studies at once: an index of a results folder, and two studies side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from pacebench.harness.errors import UserError
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.answer import Grid
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.rows import Dot, Row, RowPlot
from pacebench.harness.report.make import FOLDER, report
from pacebench.harness.report.palette import Style, looks
from pacebench.harness.report.plain import SUMMARY, VERSION
from pacebench.harness.report.render import page
from pacebench.harness.store.files import write_atomic
from pacebench.harness.store.store import RunStore

Summary = Mapping[str, Any]


def report_all(results: Path) -> Iterator[str]:
    """Writes the report of every study in a results folder, and an index of them.

    Yields:
        A line about every study, and where the index is.

    Raises:
        UserError: There is no study with a finished run.
    """
    found = []
    for folder in sorted(results.iterdir()) if results.is_dir() else []:
        try:
            if folder.is_dir() and RunStore(folder).manifest() is not None:
                report(folder)
                found.append((folder.name, read_summary(folder / FOLDER)))
                yield f"{folder.name}: {found[-1][1]['answer']}"
        except UserError as error:
            # One study that cannot be read does not take the others with it.
            yield f"{folder.name}: no report: {error}"
    if not found:
        raise UserError(f"{results}: no study here has a finished run; run one first.")
    yield f"Index: {write_index(results, found)}"


def read_summary(folder: Path) -> Summary:
    """Returns the summary beside a report.

    Raises:
        UserError: There is none, or it is of another version.
    """
    path = folder / SUMMARY
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = found["version"] == VERSION
    except (OSError, ValueError, TypeError, KeyError):
        raise UserError(f"'{path}' is no summary of a report; report the study again.") from None
    if not known:
        raise UserError(f"'{path}' was written by another pacebench; report the study again.")
    summary: Summary = found
    return summary


def write_index(results: Path, studies: list[tuple[str, Summary]]) -> Path:
    """Writes the page of what the folders of a results folder report, and returns where it is."""
    sections = []
    for folder, said in studies:
        blocks: list[doc.Block] = [
            *_first_screen(said),
            doc.Text(
                " · ".join([said["strength"] or "no claims", *said["facts"]])
                + f" · {said['known']} of {said['runs']} observations known · reported "
                f"{said['date'][:10]} by code {said['revision'][:12]}"
            ),
            doc.Link("Open the report", f"{folder}/{FOLDER}/index.html"),
        ]
        sections.append(doc.Section(words.slug(said["study"]), said["study"], blocks))
    made = doc.Document(
        title=f"Studies in {results.resolve().name}",
        question="What was asked, and what the runs say.",
        facts=[words.plural(len(studies), "study").replace("studys", "studies")],
        sections=sections,
    )
    path = results / "index.html"
    write_atomic(path, page(made, {}).encode())
    return path


def _first_screen(said: Summary) -> list[doc.Block]:
    """Returns question, answer and verdicts of a study."""
    grid = TypeAdapter(Grid).validate_python(said["grid"])
    return [doc.Text(said["question"]), doc.Heading(said["answer"]), doc.Verdicts(grid)]


def compare(first: Path, second: Path) -> Path:
    """Writes a page of two reports side by side into the first's folder, returns where it is.

    Raises:
        UserError: They are one study, or have no setup in common.
    """
    both = [read_summary(folder) for folder in (first, second)]
    names = [said["study"] for said in both]
    if names[0] == names[1]:
        raise UserError(f"'{names[0]}' cannot be compared with itself.")
    shared = [setup for setup in both[0]["scores"] if setup in both[1]["scores"]]
    if not shared:
        raise UserError(f"{names[0]} and {names[1]} have no setup in common.")
    entries = [
        (f"{label} · {said['study']}", said["names"][label])
        for said in both
        for label in said["labels"]
    ]
    styles = looks(entries)
    differing = [
        f"{key}: {both[0]['settings'][key]} in {names[0]}, {other} in {names[1]}."
        for key, other in both[1]["settings"].items()
        if both[0]["settings"].get(key) != other
    ]
    warning = (
        "No verdict is made across studies: none was declared before the runs. What differs "
        "beside the methods:"
    )
    sections = [
        doc.Section(
            "scores",
            "Scores on the setups in common",
            [
                doc.Warned(warning, differing or ["nothing that a study file says."]),
                doc.Figures([_side_by_side(both, setup, styles) for setup in shared]),
            ],
        )
    ]
    sections += [
        doc.Section(words.slug(said["study"]), said["study"], _first_screen(said)) for said in both
    ]
    made = doc.Document(
        title=f"{names[0]} and {names[1]}",
        question=f"Two studies, {words.plural(len(shared), 'setup')} in common.",
        sections=sections,
    )
    path = first / f"compared-with-{words.slug(names[1])}.html"
    write_atomic(path, page(made, styles).encode())
    return path


def _side_by_side(both: list[Summary], setup: str, styles: Mapping[str, Style]) -> Figure:
    rows = []
    for said in both:
        for label, runs in said["scores"][setup].items():
            style = styles[f"{label} · {said['study']}"]
            dots = [Dot(v, None, "solved" if ok else "open") for v, ok in runs if v is not None]
            if dots:
                mean = float(np.mean([dot.value for dot in dots]))
                solved = f"{sum(dot.kind == 'solved' for dot in dots)}/{len(dots)}"
                tip = f"{style.label}: mean {mean:.4g}"
                rows.append(
                    Row([style], style.label, estimate=mean, dots=dots, note=solved, tip=tip)
                )
    return RowPlot(
        words.slug(f"compared-{setup}"),
        setup,
        "A dot is one run: full where it solved the task, hollow where it did not. Above the dots, "
        "the mean.",
        Axis.over([v for row in rows for v in row.drawn], "mean target return"),
        rows,
        head="solved",
    )
