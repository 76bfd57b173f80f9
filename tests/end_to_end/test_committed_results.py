"""What is committed under results/ is what the code makes of the committed runs."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pacebench.harness import report
from tests.end_to_end.committed import RESULTS, ROOT, copied

# Studies that a later one asks again: their reports are made again by `make validate` alone.
SUPERSEDED = {
    "field.only-point-mass-2d-point-mass-2.224e8f",
    "point-mass",
    "point-mass-spdl",
    "point-mass-tuning.tuned",
    "target-or-curriculum",
}


def _committed() -> list[Path]:
    """Returns the results folders whose report git knows; there may be others, of the user."""
    command = ["git", "ls-files", "results/*/report/report.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [(ROOT / line).parents[1] for line in listed.stdout.splitlines()]


def test_superseded_studies_are_marked() -> None:
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    marked = text[text.index("\nSuperseded") :]
    assert all(f"`{study}`" in marked for study in SUPERSEDED)
    for path in (ROOT / "studies").glob("*.yaml"):
        said = path.read_text(encoding="utf-8").startswith("# Superseded by ")
        assert said == (not SUPERSEDED.isdisjoint({path.stem, f"{path.stem}.tuned"})), path
    assert {folder.name for folder in _committed()} >= SUPERSEDED


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            folder,
            id=folder.name,
            marks=[pytest.mark.validation] if folder.name in SUPERSEDED else [],
        )
        for folder in _committed()
    ],
)
def test_a_report_from_the_committed_files_has_the_committed_tables(
    folder: Path, tmp_path: Path
) -> None:
    # A copy: a report is noted in the ledger of its results. Reports look beside them for tuning.
    copy = copied(folder.name, tmp_path)
    for record in RESULTS.glob("*/tuning/record.json"):
        there = tmp_path / record.relative_to(RESULTS)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(record, there)
    made = report(copy)
    kept = folder / "report" / "tables"
    names = sorted(path.name for path in kept.glob("*.csv"))
    assert names == sorted(path.name for path in (made.folder / "tables").glob("*.csv"))
    for name in names:
        _same(_rows(kept / name), _rows(made.folder / "tables" / name))
    # The strength of a claim comes from ledger, plan and times, not from a table.
    assert _claims(folder / "report") == _claims(made.folder)


@pytest.mark.parametrize("folder", _committed(), ids=lambda folder: folder.name)
@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("report.md", r"\]\(((?:figures|tables)/[^)]+)\)"),
        ("index.html", r'href="((?:figures|tables)/[^"]+)"'),
    ],
)
def test_links_of_a_committed_report_lead_to_committed_files(
    folder: Path, name: str, link: str
) -> None:
    text = (folder / "report" / name).read_text(encoding="utf-8")
    links = re.findall(link, text)
    assert len(links) > 10
    command = ["git", "ls-files", str(folder / "report")]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    known = set(listed.stdout.splitlines())
    there = (folder / "report").relative_to(ROOT)
    assert {str(there / link) for link in links} <= known


def _claims(report: Path) -> str:
    text = (report / "report.md").read_text(encoding="utf-8")
    return text[: text.index("\n## Scores")]


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _same(kept: list[list[str]], found: list[list[str]]) -> None:
    assert kept[0] == found[0]
    assert len(kept) == len(found)
    for mine, theirs in zip(found, kept, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            # Byte for byte on one machine; sums differ in their last digits between machines.
            assert a == b or float(a) == pytest.approx(float(b), rel=1e-6, abs=1e-12)
