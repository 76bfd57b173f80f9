"""The shipped coverage table: true to its source, complete, and used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.statistics import coverage, intervals, simulation
from harness.statistics.scores import Scores
from harness.statistics.simulation import Cell

SHIPPED = Path(simulation.__file__).with_name(coverage.TABLE)
# A few cells are made again from their source in every test run; `make validate` makes all.
SAMPLE = (
    Cell("t", "gaussian", 5, 1),
    Cell("t", "binary-90", 10, 1),
    Cell("t", "bimodal", 20, 4),
    Cell("bounded", "fractions", 10, 1),
    Cell("bootstrap", "skewed", 5, 4),
    Cell("bootstrap", "binary-90", 3, 1),
    Cell("improvement", "gaussian", 10, 1),
    Cell("profile", "bimodal", 5, 1),
    Cell("family", "gaussian", 5, 1),
    Cell("curve", "gaussian", 5, 1),
)


@pytest.mark.parametrize("cell", SAMPLE, ids=lambda c: f"{c.group}-{c.shape}-{c.runs}-{c.tasks}")
def test_shipped_rows_come_out_again(cell: Cell) -> None:
    shipped = simulation.read(SHIPPED)
    assert simulation.differences(shipped, [(cell, simulation.simulate(cell))]) == []


@pytest.mark.validation
def test_the_whole_table_comes_out_again() -> None:
    fresh = [(cell, simulation.simulate(cell)) for cell in simulation.cells()]
    assert simulation.differences(simulation.read(SHIPPED), fresh) == []


def test_the_table_is_complete() -> None:
    assert set(simulation.read(SHIPPED)) == set(simulation.cells())


def test_a_false_table_is_noticed(tmp_path: Path) -> None:
    cell = Cell("t", "gaussian", 5, 1)
    fresh = [(cell, simulation.simulate(cell, 500))]
    table = {cell: [dict(row) for row in fresh[0][1]]}
    assert simulation.differences(table, fresh) == []
    table[cell][0]["coverage"] -= 0.01
    assert "the table says" in simulation.differences(table, fresh)[0]
    assert "not in the table" in simulation.differences({}, fresh)[0]
    simulation.write(tmp_path / "t.json", dict(fresh))
    assert simulation.read(tmp_path / "t.json") == dict(fresh)


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
    assert simulation.read(path) == simulation.read(SHIPPED)


def test_lookup_takes_the_nearest_cell_that_is_not_more_favourable() -> None:
    found = coverage.lookup("welch-t", "mean", 13, 3, "gaussian")
    assert found is not None
    assert (found.runs, found.tasks, found.shape) == (10, 1, "gaussian")
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
    bad = intervals.percentile(coins, ["mean"], rng, resamples=500)["mean"]
    assert bad.coverage is not None
    assert bad.coverage.shape == "binary-90"
    assert bad.coverage.share < 0.75
    assert bad.under_covers
    # The table is about 95 %; nothing is claimed about other levels.
    assert intervals.mean_t(coins, 0.9).coverage is None


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
