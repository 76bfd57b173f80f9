"""Tables of a small result set with known answers, against hand computation and kept files.

After a wanted change: PACEBENCH_UPDATE_GOLDEN=1 pytest tests/harness/report/test_report_golden.py,
and read the difference before committing it.
"""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

import pytest
from scipy import stats

from pacebench.harness.report.document import Document
from pacebench.harness.report.tables import Table
from tests.harness.report import synthetic

GOLDEN = Path(__file__).parent / "golden"
NAMES = (
    "verdicts",
    "results-point-mass-1",
    "results-point-mass-2",
    "solved",
    "solved-differences",
    "aggregates",
    "improvement",
    "curriculum-behaviour",
    "sample-efficiency",
    "wall-clock",
    "accounting",
    "runs",
    "anchors",
)


def find(made: Document, name: str) -> Table:
    (table,) = [table for table in made.tables() if table.name == name]
    return table


def row(made: Document, name: str, **where: object) -> dict:
    (found,) = [
        row
        for row in find(made, name).rows
        if all(row[key] == value for key, value in where.items())
    ]
    return dict(found)


def test_there_is_a_golden_file_for_every_table(golden_document: Document) -> None:
    assert [table.name for table in golden_document.tables()] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_of_the_golden_files(golden_document: Document, name: str) -> None:
    text = find(golden_document, name).csv()
    path = GOLDEN / f"{name}.csv"
    if os.environ.get("PACEBENCH_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    kept = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    found = list(csv.reader(io.StringIO(text)))
    assert found[0] == kept[0]
    assert len(found) == len(kept)
    for mine, theirs in zip(found[1:], kept[1:], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            # Sums and roots differ in their last digits from machine to machine, answers do not.
            assert a == b or float(a) == pytest.approx(float(b), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("method", synthetic.METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize(("setup", "shift"), [("point-mass-1", 0.0), ("point-mass-2", 0.1)])
def test_the_papers_layout_says_what_was_put_in(
    golden_document: Document, method: synthetic.Method, setup: str, shift: float
) -> None:
    found = row(golden_document, f"results-{setup}", method=method.name)
    n, unit = 12, 50.0
    mean = 10 + unit * (method.mean - shift)
    error = unit * method.spread / math.sqrt(n)
    assert found["runs"] == n
    assert found["mean"] == pytest.approx(mean, rel=1e-6)
    assert found["standard_error"] == pytest.approx(error, rel=1e-5)
    half = stats.t.ppf(0.975, n - 1) * error
    assert found["interval"] == pytest.approx((mean - half, mean + half), rel=1e-5)
    if method.name == "spgl":
        assert found["p_against_best"] is None
    else:
        gap = unit * (0.80 - method.mean)
        other = unit * 0.08 / math.sqrt(n)
        df = (error**2 + other**2) ** 2 / ((error**4 + other**4) / (n - 1))
        p = 2 * stats.t.sf(gap / math.hypot(error, other), df)
        assert found["p_against_best"] == pytest.approx(p, rel=1e-3)


def test_verdicts_are_where_the_intervals_lie(golden_document: Document) -> None:
    """Twelve seeds that never vary would decide; these twelve and the range alone do not."""
    for setup in ("point-mass-1", "point-mass-2"):
        good = row(golden_document, "verdicts", method="spgl", setup=setup)
        assert good["difference"] == pytest.approx(50 * 0.4, rel=1e-6)
        assert good["smallest_effect"] == pytest.approx(50 * 0.1)
        low, high = good["interval"]
        assert low < 0 < high
        assert good["verdict"] == "undecided"
        assert good["model_verdict"] == "better"
        assert good["model"][0] > 0
        unsure = row(golden_document, "verdicts", method="spdl", setup=setup)
        assert unsure["difference"] == pytest.approx(50 * 0.02, rel=1e-5)
        assert (unsure["verdict"], unsure["model_verdict"]) == ("undecided", "undecided")


def test_aggregates_are_means_over_setups(golden_document: Document) -> None:
    for method in synthetic.METHODS:
        found = row(golden_document, "aggregates", method=method.name, aggregate="mean")
        assert found["value"] == pytest.approx(method.mean - 0.05, rel=1e-6)
        gap = row(golden_document, "aggregates", method=method.name, aggregate="optimality gap")
        assert gap["value"] == pytest.approx(1 - method.mean + 0.05, rel=1e-6)


def test_every_broken_budget_is_counted(golden_document: Document) -> None:
    for name in ("spdl", "spgl"):
        found = row(golden_document, "curriculum-behaviour", method=name, setup="point-mass-1")
        assert found["updates"] == 12 * 24
        # The third update of every run is made to use twice its ε.
        assert found["violations"] == 12
        assert found["largest_ratio"] == pytest.approx(2.0)
        assert found["on_target"] == 12
    fixed = row(golden_document, "curriculum-behaviour", method="default", setup="point-mass-1")
    assert "violations" not in fixed


def test_the_wall_clock_is_split_as_it_was_made(golden_document: Document) -> None:
    found = row(golden_document, "wall-clock", method="spdl", setup="point-mass-1")
    assert found["total"] == pytest.approx(25.5 + 30 + 12 + 5)
    assert found["share"] == pytest.approx(12 / 72.5)
    assert found["per_thousand"] == pytest.approx(12 / 60)
