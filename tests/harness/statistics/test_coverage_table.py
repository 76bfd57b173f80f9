"""The shipped coverage table: true to its source, complete, and used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.statistics import (
    bootstrap,
    coverage,
    coverage_table,
    intervals,
    simulation,
)
from pacebench.harness.statistics.scores import Scores
from pacebench.harness.statistics.simulation import CoverageCell

SHIPPED = Path(simulation.__file__).with_name(coverage.TABLE)
# A few cells are made again from their source in every test run; `make validate` makes all.
SAMPLE = (
    CoverageCell("t", "gaussian", 5, 1),
    CoverageCell("t", "binary-90", 10, 1),
    CoverageCell("t", "bimodal", 20, 4),
    CoverageCell("t", "skewed", 10, 2),
    CoverageCell("bounded", "fractions", 10, 1),
    CoverageCell("bootstrap", "skewed", 5, 4),
    CoverageCell("bootstrap", "binary-90", 3, 1),
    CoverageCell("improvement", "gaussian", 10, 1),
    CoverageCell("profile", "bimodal", 5, 1),
    CoverageCell("curve", "gaussian", 5, 1),
    CoverageCell("pair", "binary-90", 10, 2),
)


@pytest.mark.parametrize("cell", SAMPLE, ids=lambda c: f"{c.group}-{c.shape}-{c.runs}-{c.tasks}")
def test_shipped_rows_come_out_again(cell: CoverageCell) -> None:
    shipped = coverage_table.read(SHIPPED)
    assert coverage_table.differences(shipped, [(cell, simulation.simulate(cell))]) == []


@pytest.mark.validation
def test_the_whole_table_comes_out_again() -> None:
    fresh = [(cell, simulation.simulate(cell)) for cell in simulation.cells()]
    assert coverage_table.differences(coverage_table.read(SHIPPED), fresh) == []


def test_the_table_is_complete() -> None:
    assert set(coverage_table.read(SHIPPED)) == set(simulation.cells())


def test_a_false_table_is_noticed(tmp_path: Path) -> None:
    cell = CoverageCell("t", "gaussian", 5, 1)
    fresh = [(cell, simulation.simulate(cell, 500))]
    table = {cell: [dict(row) for row in fresh[0][1]]}
    assert coverage_table.differences(table, fresh) == []
    table[cell][0]["coverage"] -= 0.01
    assert "the table says" in coverage_table.differences(table, fresh)[0]
    assert "not in the table" in coverage_table.differences({}, fresh)[0]
    coverage_table.write(tmp_path / "t.json", dict(fresh))
    assert coverage_table.read(tmp_path / "t.json") == dict(fresh)


def test_command_checks_and_refuses(tmp_path: Path) -> None:
    runner = CliRunner()
    unknown = runner.invoke(app, ["coverage", "--group", "nonsense"])
    assert unknown.exit_code == 2
    path = tmp_path / "table.json"
    record = json.loads(SHIPPED.read_text(encoding="utf-8"))
    for row in record["rows"]:
        if row["group"] == "t" and row["shape"] == "gaussian" and row["runs"] == 3:
            row["coverage"] = 0.5
    path.write_text(json.dumps(record), encoding="utf-8")
    stale = runner.invoke(app, ["coverage", "--check", "--group", "t", "--output", str(path)])
    assert stale.exit_code == 2
    rewritten = runner.invoke(app, ["coverage", "--group", "t", "--output", str(path)])
    assert rewritten.exit_code == 0
    assert coverage_table.read(path) == coverage_table.read(SHIPPED)


def test_lookup_takes_the_nearest_cell_that_is_not_more_favourable() -> None:
    found = coverage.lookup("welch-t", "mean", 13, 3, "gaussian")
    assert found is not None
    assert (found.runs, found.tasks, found.shape) == (10, 2, "gaussian")
    assert found.worst <= found.share
    assert coverage.lookup("welch-t", "mean", 2, 1, "gaussian") is None
    assert coverage.lookup("crystal ball", "mean", 20, 1, "gaussian") is None
    unknown_shape = coverage.lookup("welch-t", "mean", 10, 1, "no such shape")
    assert unknown_shape is not None
    assert unknown_shape.share == unknown_shape.worst


def test_intervals_carry_their_coverage_and_warn_where_it_is_bad() -> None:
    rng = np.random.default_rng(0)
    good = intervals.mean_t(Scores.single_task("m", rng.normal(size=20)))
    assert good.coverage is not None
    assert 0.93 < good.coverage.share < 0.975
    assert not good.under_covers
    assert "simulated coverage 9" in good.coverage.sentence()
    coins = Scores.single_task("m", np.repeat([1.0, 0.0], [9, 1]))
    values = bootstrap.resample(coins.matrix, ["mean"], 500, rng)["mean"]
    bad = intervals.from_distribution(coins, "mean", values, intervals.PERCENTILE)
    assert bad.coverage is not None
    assert bad.coverage.shape == "binary-90"
    assert bad.coverage.share < 0.75
    assert bad.under_covers
    # The table is about 95 %; nothing is claimed about other levels.
    assert intervals.mean_t(coins, 0.9).coverage is None


def test_a_shape_that_was_not_simulated_is_not_called_the_datas() -> None:
    known = coverage.lookup("wilson", "success", 20, 1, "binary-37")
    other = coverage.lookup("wilson", "success", 20, 1, "gaussian")
    assert known is not None
    assert other is not None
    assert known.matched
    assert not other.matched
    assert other.share == other.worst
    assert "data of this shape not simulated" in other.sentence()


def test_a_difference_has_the_coverage_of_its_worse_side() -> None:
    rng = np.random.default_rng(0)
    smooth = Scores.single_task("a", rng.normal(size=20))
    coin = Scores.single_task("b", (np.arange(20) < 18).astype(float))
    alone = coverage.lookup("logit-brunner-munzel", "improvement", 20, 1, "binary-90")
    for x, y in ((smooth, coin), (coin, smooth)):
        interval = intervals.probability_of_improvement(x, y)
        assert interval.coverage is not None
        assert alone is not None
        assert interval.coverage.share == alone.share


def test_coverage_is_only_quoted_at_the_level_that_was_simulated() -> None:
    assert coverage.at_level(0.95, "max-t", "curve", 10, 1, "gaussian") is not None
    assert coverage.at_level(0.997, "max-t", "curve", 10, 1, "gaussian") is None
    assert coverage.at_level(0.95, "max-t", "curve", 10, 1) is None


@pytest.mark.parametrize("shape", simulation.SHAPES)
def test_shapes_are_recognised_from_many_runs(shape: str) -> None:
    values = simulation.draw(shape, 1, 400, 1, np.random.default_rng(0))[0]
    bounds = (0.0, 1.0) if shape in ("fractions", "binary-37", "binary-90") else None
    assert coverage.classify(values, bounds) == shape


def test_truths_are_true() -> None:
    for shape in simulation.SHAPES:
        for tasks in simulation.TASKS:
            rng = np.random.default_rng(3)
            values = simulation.draw(shape, 1, 200_000, tasks, rng)[0]
            error = values.std() / np.sqrt(values.size)
            assert abs(values.mean() - simulation.truth(shape, tasks, "mean")) < 5 * error


DOCS = Path(__file__).parents[3] / "docs" / "statistics.md"
# What the documentation shows: title, kind, estimand, shapes.
SHOWN = (
    ("Welch *t*, mean", "welch-t", "mean", ("gaussian", "skewed", "bimodal", "binary-90")),
    ("Welch *t*, difference", "welch-t", "difference", ("gaussian", "skewed", "bimodal")),
    ("rliable's percentile, mean", "percentile (rliable)", "mean", ("gaussian", "binary-90")),
    (
        "rliable's percentile, difference",
        "percentile (rliable)",
        "difference",
        ("gaussian", "binary-90"),
    ),
    (
        "rliable's percentile, improvement",
        "percentile (rliable)",
        "improvement",
        ("gaussian", "binary-90"),
    ),
    ("rliable's percentile, IQM", "percentile (rliable)", "iqm", ("gaussian", "bimodal")),
    ("expanded percentile, IQM", "expanded-percentile", "iqm", ("gaussian", "skewed", "bimodal")),
    ("Wilson, success", "wilson", "success", ("binary-37", "binary-90", "fractions")),
    ("Learned-Miller–Thomas", "learned-miller-thomas", "mean", ("binary-90", "fractions")),
    (
        "logit Brunner–Munzel",
        "logit-brunner-munzel",
        "improvement",
        ("gaussian", "bimodal", "binary-90"),
    ),
    ("profile band", "kolmogorov", "profile", ("gaussian", "bimodal")),
    ("learning-curve band", "max-t", "curve", ("gaussian", "bimodal")),
)


def _documented() -> str:
    """Returns the documentation's table, from the shipped one."""
    found = {
        (row["kind"], row["estimand"], row["shape"], row["runs"], row["tasks"]): row["coverage"]
        for rows in coverage_table.read(SHIPPED).values()
        for row in rows
    }
    head = " | ".join(f"n = {runs}" for runs in simulation.RUNS)
    lines = [f"| Interval | Shape | Tasks | {head} |", "|---|---|---|" + "---|" * 5]
    for title, kind, estimand, shapes in SHOWN:
        for shape in shapes:
            for tasks in simulation.TASKS:
                cells = [found.get((kind, estimand, shape, n, tasks)) for n in simulation.RUNS]
                if None not in cells:
                    shares = " | ".join(f"{100 * cell:.1f}" for cell in cells if cell is not None)
                    lines.append(f"| {title} | {shape} | {tasks} | {shares} |")
    return "\n".join(lines)


def test_the_documentation_shows_the_shipped_figures() -> None:
    """`PACEBENCH_GOLDEN=1 pytest …` writes them anew."""
    begin, end = "<!-- coverage: begin -->\n", "\n<!-- coverage: end -->"
    text = DOCS.read_text(encoding="utf-8")
    head, rest = text.split(begin.strip())
    _, tail = rest.split(end.strip())
    wanted = f"{head}{begin}{_documented()}{end}{tail}"
    if os.environ.get("PACEBENCH_GOLDEN"):
        DOCS.write_text(wanted, encoding="utf-8")
    assert DOCS.read_text(encoding="utf-8") == wanted
