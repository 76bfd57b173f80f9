"""The shipped coverage table: true to its source, complete, and used."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pacebench.harness.analysis.comparisons import compare, model_coverage, questions
from pacebench.harness.cli import app
from pacebench.harness.statistics import (
    bootstrap,
    coverage,
    coverage_table,
    intervals,
    simulation,
)
from pacebench.harness.statistics.interval import SUCCESSES, shape_words
from pacebench.harness.statistics.scores import FloatArray, Scores
from pacebench.harness.statistics.simulation import CoverageCell
from tests.harness.statistics.tables import score_table

SHIPPED = Path(simulation.__file__).with_name(coverage.TABLE)
# A few cells are made again from their source in every test run; `make validate` makes all.
SAMPLE = (
    CoverageCell("t", "gaussian", 5, 1),
    CoverageCell("t", "binary-90", 10, 1),
    CoverageCell("t", "bimodal", 20, 4),
    CoverageCell("t", "skewed", 10, 2),
    CoverageCell("t", "tight against 90", 10, 1),
    CoverageCell("pair", "80 against tight", 5, 1),
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


def test_command_checks_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The group's rows are checked above; the command is as well checked on a few of them.
    function, sets, _, _ = simulation.GROUPS["t"]
    monkeypatch.setitem(simulation.GROUPS, "t", (function, sets, ("gaussian",), (1,)))
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


def gate(good: int, bad: int, seed: int = 0) -> FloatArray:
    """Runs that found the gate, and runs that did not."""
    centres = np.repeat([85.0, 15.0], [good, bad])
    return np.random.default_rng(seed).permutation(centres + 0.5 * np.sin(np.arange(good + bad)))


@pytest.mark.parametrize(
    ("a", "b", "pair"),
    [
        (gate(10, 0), gate(9, 1), "tight against 90"),
        (gate(9, 1), gate(10, 0), "90 against tight"),
        (gate(20, 0), gate(11, 9), "tight against 60"),
        (gate(20, 0), gate(14, 6), "tight against 80"),
        (gate(50, 0), gate(49, 1), "tight against 95"),
        # Mirrored: one run in ten succeeds. The coverage of a mean is the same.
        (gate(1, 9), gate(0, 10), "90 against tight"),
        (gate(7, 3), gate(8, 2), "bimodal"),
        (np.linspace(-2, 2, 10), np.linspace(-1, 3, 10), "gaussian"),
        (gate(7, 13), np.linspace(15, 85, 20), "bimodal against gaussian"),
        (gate(14, 1), gate(3, 12), "95 against 80"),
    ],
)
def test_a_caption_quotes_the_cell_of_the_pair_it_stands_under(
    a: FloatArray, b: FloatArray, pair: str
) -> None:
    table = score_table({"b": b, "a": a})
    found = compare(table, questions(table.study, ())[0], confirmatory=True)
    assert coverage.classify_pair(a[:, None], b[:, None]) == pair
    assert found.model is not None
    quoted = found.model.coverage
    assert quoted is not None
    said = model_coverage([found])
    if pair in ("bimodal against gaussian", "95 against 80"):
        assert not quoted.matched
        assert "data of this shape not simulated" in said
        return
    rows = simulation.simulate(CoverageCell("t", pair, quoted.runs, 1), 2_000)
    (row,) = [r for r in rows if (r["estimand"], r["level"]) == ("difference", 0.95)]
    assert quoted.share == pytest.approx(row["coverage"], abs=0.045)
    assert said == f"a − b: {quoted.sentence()}"
    assert f"simulated coverage {100 * quoted.share:.1f} % for {shape_words(pair)}, " in said


def test_unequal_arms_cover_alike_in_both_directions_and_as_badly_as_we_say() -> None:
    def share(pair: str, runs: int) -> float:
        found = coverage.lookup("welch-t", "difference", runs, 1, pair)
        assert found is not None
        assert found.matched
        return found.share

    for success in SUCCESSES:
        for runs in simulation.RUNS:
            pair = share(f"tight against {success}", runs), share(f"{success} against tight", runs)
            assert pair[0] == pytest.approx(pair[1], abs=0.02)
    # A failure that has not happened yet is not in the interval: 0.9¹⁰ = 35 % of the time.
    assert share("tight against 90", 10) == pytest.approx(1 - 0.9**10, abs=0.02)


def test_coverage_is_only_quoted_near_the_level_that_was_simulated() -> None:
    at = functools.partial(coverage.lookup, "max-t", "curve", 10, 1, "gaussian")
    assert at(0.95) is not None
    assert at(0.997) is None
    assert at(0.9) is None
    shared = coverage.lookup("welch-t", "difference", 10, 1, "tight against 90", 1 - 0.05 / 3)
    assert shared is not None
    assert shared.level == 0.975
    assert "97.5 % intervals, n = 10" in shared.sentence()


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
    (
        "Welch *t*, difference",
        "welch-t",
        "difference",
        ("gaussian", "skewed", "bimodal", *simulation.UNEQUAL),
    ),
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
        if row["level"] == simulation.LEVEL
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
