"""Scores from elsewhere get the intervals, verdicts and estimates that ours get."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rliable import metrics

from pacebench import harness
from pacebench.harness.analysis.foreign import UNPLANNED, ForeignQuestions, foreign_study
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import difference_interval
from pacebench.harness.statistics.rliable_adapter import aggregate
from pacebench.harness.store.foreign.sources import read_scores, scores_in_memory

AGGREGATES = {
    "mean": metrics.aggregate_mean,
    "median": metrics.aggregate_median,
    "iqm": metrics.aggregate_iqm,
    "optimality_gap": metrics.aggregate_optimality_gap,
}


def table(seeds: int = 12, tasks: tuple[str, ...] = ("hop",), **shift: float) -> pd.DataFrame:
    """Returns scores in [0, 1] of methods with these means."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        [
            {"method": m, "task": t, "seed": s, "score": float(np.clip(rng.normal(mu, 0.1), 0, 1))}
            for m, mu in shift.items()
            for t in tasks
            for s in range(seeds)
        ]
    )


def made(frame: pd.DataFrame, **asked: object) -> list[dict[str, object]]:
    """Returns the verdicts on a table."""
    return foreign_study(scores_in_memory(frame), ForeignQuestions(**asked)).verdicts()  # type: ignore[arg-type]


def test_the_interval_is_that_of_the_published_function() -> None:
    frame = table(30, ("hop", "walk"), a=0.2, b=0.7, c=0.7)
    # The order of rows says nothing.
    found = made(frame.sample(frac=1, random_state=1), bounds=(0, 1), control="a")
    assert {(v["task"], v["a"], v["b"]) for v in found} == {
        (task, other, "a") for task in ("hop", "walk") for other in ("b", "c")
    }
    wide = frame.pivot_table(index="seed", columns=["task", "method"], values="score")
    for v in found:
        z = (wide[v["task"], v["a"]] - wide[v["task"], v["b"]]).to_numpy()
        low, high = difference_interval(z, 1.0, 0.05 / 4)
        assert (v["low"], v["high"], v["n"]) == (low, high, 30)
        assert (v["verdict"] == "better") == (low > 0)
        assert v["confirmatory"] is False


def test_without_a_range_a_t_test_decides_and_says_so() -> None:
    study = foreign_study(scores_in_memory(table(a=0.2, b=0.7)), ForeignQuestions())
    (verdict,) = study.verdicts()
    assert verdict["beside"]["model"]["low"] == verdict["low"]
    assert "rests on a t-test" in verdict["sentence"]
    assert any("range of scores was not given" in note for note in study.notes)
    assert study.analysis.exploratory == (UNPLANNED,)
    assert [v["sentence"] for v in study.analysis.verdicts()] == [verdict["sentence"]]
    for word in ("plan", "denominator", "crashed"):
        assert any(word in said for said in study.unknown)


def test_rliables_point_estimates_of_its_own_dictionaries() -> None:
    """The matrices are those of rliable's own tests."""
    x, y = np.array([[1, 2], [2, 2], [1, 1], [2, 1]]), np.array([[1, 1], [2, 2], [3, 3]])
    _equal_to_rliable(harness.analyse({"x": x, "y": y}), {"x": x, "y": y})
    many = np.arange(80).reshape(5, 16)
    sample = {"method": many, "baseline": np.flip(many, axis=0)}
    table = foreign_study(scores_in_memory(sample), ForeignQuestions()).table
    for label, matrix in sample.items():
        scores = table.scores(label, "suite", "normalised")
        assert scores is not None
        for name, function in AGGREGATES.items():
            expected = function(matrix.astype(float))
            assert aggregate(name, scores.matrix) == pytest.approx(expected, abs=1e-12)


def test_rliables_point_estimates_of_a_table_of_the_open_rl_benchmark(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    names = ["Breakout-v5", "Pong-v5", "Qbert-v5"]
    rows, matrices = [], {}
    for method, level in (("ppo_atari", 0.4), ("dqn_atari", 0.9)):
        matrices[method] = rng.normal(level, 0.3, (4, 3))
        for j, task in enumerate(names):
            for seed in range(1, 5):
                for step in (1_000_000, 5_000_000, 10_000_000):
                    last = step == 10_000_000
                    score = matrices[method][seed - 1, j] if last else float(rng.random())
                    rows.append((method, task, seed, step, score))
    header = ["exp_name", "env_id", "seed", "global_step", "charts/episodic_return"]
    path = tmp_path / "orlb.csv"
    pd.DataFrame(rows, columns=header).to_csv(path, index=False)
    _equal_to_rliable(harness.analyse(path, normalised=True), matrices)
    low, high = -3.0, 4.0
    scaled = {name: (matrix - low) / (high - low) for name, matrix in matrices.items()}
    _equal_to_rliable(harness.analyse(path, bounds=(low, high)), scaled)


def _equal_to_rliable(analysis: object, matrices: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
    found = {
        (e.label, e.functional): e.value
        for e in analysis.estimates  # type: ignore[attr-defined]
        if (e.scope, e.estimand) == ("suite", "normalised")
    }
    assert set(found) == {(label, name) for label in matrices for name in AGGREGATES}
    for (label, name), value in found.items():
        assert value == pytest.approx(AGGREGATES[name](matrices[label].astype(float)), abs=1e-12)


def test_ragged_seeds_meet_where_they_are_shared() -> None:
    frame = table(8, a=0.2, b=0.7)
    # Seed 0 of a and seed 3 of b are not there: the six that both have come first, by seed.
    frame = frame[~((frame.method == "a") & (frame.seed == 0))]
    frame = frame[~((frame.method == "b") & (frame.seed == 3))]
    study = foreign_study(scores_in_memory(frame), ForeignQuestions(bounds=(0, 1)))
    pairs = study.table.paired("b", "a", "hop", "return")
    by_seed = frame.set_index(["method", "seed"])["score"]
    shared = [1, 2, 4, 5, 6, 7]
    assert pairs.x[:6, 0].tolist() == [by_seed["b", s] for s in shared]
    assert pairs.y[:6, 0].tolist() == [by_seed["a", s] for s in shared]
    assert (pairs.x[6, 0], pairs.y[6, 0]) == (by_seed["b", 0], by_seed["a", 3])
    assert any("same seeds" in note for note in study.notes)


def test_a_method_that_is_not_on_a_task_has_no_verdict_there() -> None:
    frame = table(6, ("hop", "walk"), a=0.2, b=0.7)
    frame = frame[~((frame.method == "b") & (frame.task == "walk"))]
    there, not_there = made(frame, bounds=(0, 1))
    assert (there["n"], not_there["n"], not_there["verdict"]) == (6, 0, "undecided")


def test_runs_without_an_end_enter_as_best_and_as_worst() -> None:
    frame = table(20, a=0.2, b=0.9)
    frame["step"] = 1000
    whole = made(frame, bounds=(0, 1))[0]
    frame.loc[(frame.method == "b") & (frame.seed == 4), "score"] = np.nan
    frame.loc[(frame.method == "b") & (frame.seed == 5), "step"] = 700
    study = foreign_study(scores_in_memory(frame), ForeignQuestions(bounds=(0, 1)))
    (lost,) = study.verdicts()
    assert lost["beside"]["lost"] == 2
    assert lost["low"] < whole["low"]
    assert lost["high"] >= whole["high"] - 1e-9
    assert any("2 runs without a final score" in note for note in study.notes)


def test_curves_are_of_the_steps_that_all_runs_share() -> None:
    frame = pd.concat(
        [table(5, a=0.2, b=0.7).assign(step=step) for step in (100, 200, 300)], ignore_index=True
    )
    study = foreign_study(scores_in_memory(frame), ForeignQuestions())
    assert study.study.evaluation_steps() == (100, 200, 300)
    assert "auc" in study.table.estimands
    # One run was evaluated at another step between: that point is nobody else's.
    frame.loc[(frame.method == "a") & (frame.seed == 2) & (frame.step == 200), "step"] = 210
    assert foreign_study(scores_in_memory(frame), ForeignQuestions()).study.evaluation_steps() == (
        100,
        300,
    )
    # A score at the end is one however a method counts its steps.
    frame.loc[(frame.method == "a") & (frame.step == 300), "step"] = 299
    study = foreign_study(scores_in_memory(frame), ForeignQuestions())
    assert study.study.evaluation_steps() == (300,)
    assert (study.runs["status"] == "ok").all()
    until = foreign_study(scores_in_memory(frame), ForeignQuestions(until=150))
    assert until.study.evaluation_steps() == (100,)


def test_solved_follows_success_or_the_normalised_score() -> None:
    frame = table(6, a=0.2, b=0.95)
    scored = foreign_study(scores_in_memory(frame), ForeignQuestions(bounds=(0, 1))).table.rows
    assert (scored["solved"] == (scored["return"] >= 0.8)).all()
    flagged = foreign_study(
        scores_in_memory(frame.assign(success=frame["seed"] / 5)), ForeignQuestions()
    ).table
    assert (flagged.rows["solved"] == (flagged.rows["success"] >= 0.8)).all()
    assert set(flagged.estimands) == {"return", "success", "solved"}


def test_one_question_about_all_tasks() -> None:
    frame = table(25, ("hop", "walk"), a=0.2, b=0.8)
    (verdict,) = made(frame, bounds=(0, 1), suite=True, alpha=0.1)
    wide = frame.pivot_table(index="seed", columns=["task", "method"], values="score")
    z = np.mean([wide[t, "b"] - wide[t, "a"] for t in ("hop", "walk")], axis=0)
    assert verdict["task"] == "suite"
    assert (verdict["low"], verdict["high"]) == pytest.approx(difference_interval(z, 1.0, 0.1))
    with pytest.raises(UserError, match="--suite"):
        made(frame, suite=True)


def test_numbers_in_files_and_in_memory_are_the_same(tmp_path: Path) -> None:
    frame = table(7, a=0.2, b=0.8)
    frame.to_csv(tmp_path / "s.csv", index=False)
    frame.to_parquet(tmp_path / "s.parquet", index=False)
    in_memory = scores_in_memory(frame).rows.drop(columns="where")
    for name in ("s.csv", "s.parquet"):
        read = read_scores([tmp_path / name]).rows.drop(columns="where")
        pd.testing.assert_frame_equal(read, in_memory)
