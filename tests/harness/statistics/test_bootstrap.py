"""The resampling: the same as rliable's on the same draws, reproducible, and nobody's RNG moved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rliable import library, metrics

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import bootstrap, estimands, intervals, rliable_adapter
from pacebench.harness.statistics.interval import RefusedIntervalError
from pacebench.harness.statistics.scores import FloatArray, Scores, aligned

NAMES = tuple(estimands.FUNCTIONALS)


class _Bootstrap(library.StratifiedBootstrap):
    """rliable's stratified bootstrap on our indices."""

    def __init__(self, scores: FloatArray, rng: np.random.Generator) -> None:
        super().__init__(scores)
        self._rng = rng

    def update_indices(self) -> tuple[Any, ...]:
        """Draws run indices for every task."""
        return (self._rng.integers(self._num_items, size=self._args_shape), *self._strata_indices)


class _PairBootstrap(library.StratifiedIndependentBootstrap):
    """rliable's bootstrap of two methods on our indices."""

    def __init__(
        self, a: FloatArray, b: FloatArray, resamples: int, rng: np.random.Generator
    ) -> None:
        super().__init__(a, b)
        drawn = [rng.integers(len(v), size=(resamples, *v.shape)) for v in (a, b)]
        self._drawn: Iterator[Any] = (i for both in zip(*drawn, strict=True) for i in both)

    def _get_indices(
        self, num_runs: int, array_shape: tuple[int, ...], strata_indices: list[Any]
    ) -> tuple[Any, ...]:
        return (next(self._drawn), *strata_indices)


def rliable_interval(
    scores: Scores,
    function: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
    resamples: int = 50_000,
    level: float = 0.95,
) -> FloatArray:
    """Returns rliable's percentile interval (2 × outputs) of a function of the scores."""
    resampled = _Bootstrap(scores.matrix, rng)
    ends = resampled.conf_int(function, reps=resamples, size=level, method="percentile")
    return np.asarray(ends)


def rliable_pair_interval(
    a: Scores,
    b: Scores,
    function: Callable[[FloatArray, FloatArray], float],
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Returns the ends of rliable's percentile interval of a function of two methods."""
    x, y = aligned(a, b)
    resampled = _PairBootstrap(x, y, resamples, rng)
    ends = resampled.conf_int(
        lambda left, right: np.array([function(left, right)]),
        reps=resamples,
        size=level,
        method="percentile",
    )
    return float(ends[0, 0]), float(ends[1, 0])


def _scores(runs: int = 8, tasks: int = 3, seed: int = 0) -> Scores:
    values = np.random.default_rng(seed).normal(size=(runs, tasks))
    return Scores("m", tuple(f"t{i}" for i in range(tasks)), tuple(range(runs)), values)


@given(st.integers(2, 25), st.integers(1, 5), st.integers(0, 10_000))
def test_counting_draws_gives_what_copying_runs_gives(runs: int, tasks: int, seed: int) -> None:
    # Rounded, so that ties occur.
    values = np.round(np.random.default_rng(seed).normal(size=(runs, tasks)), 1)
    found = bootstrap.resample(values, NAMES, 50, np.random.default_rng(seed))
    indices = np.random.default_rng(seed).integers(runs, size=(50, runs, tasks))
    copies = values[indices, np.arange(tasks)]
    for name in NAMES:
        expected = estimands.FUNCTIONALS[name](copies)
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["mean", "iqm", "median", "optimality_gap"])
def test_percentile_interval_is_rliables_on_the_same_draws(name: str) -> None:
    scores = _scores()
    function = getattr(metrics, f"aggregate_{name}")
    ends = rliable_interval(
        scores, lambda x: np.array([function(x)]), np.random.default_rng(5), resamples=500
    )
    values = bootstrap.resample(scores.matrix, [name], 500, np.random.default_rng(5))[name]
    ours = intervals.from_distribution(scores, name, values, intervals.PERCENTILE)
    assert ours.estimate == function(scores.matrix)
    assert (ours.low, ours.high) == pytest.approx(tuple(ends[:, 0]), abs=1e-12)


def test_the_size_of_blocks_does_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values = _scores().matrix
    whole = bootstrap.resample(values, NAMES, 1_000, np.random.default_rng(1))
    monkeypatch.setattr(bootstrap, "_BLOCK", 100)
    parts = bootstrap.resample(values, NAMES, 1_000, np.random.default_rng(1))
    for name in NAMES:
        # Block shapes may change the order of summation in BLAS, not the draws.
        np.testing.assert_allclose(whole[name], parts[name], rtol=0, atol=1e-13)


def test_same_seed_same_bytes_and_another_seed_others() -> None:
    def run(seed: int) -> bytes:
        found = bootstrap.resample(_scores().matrix, NAMES, 300, np.random.default_rng(seed))
        return b"".join(found[name].tobytes() for name in NAMES)

    assert run(3) == run(3)
    assert run(3) != run(4)
    assert run(0) != run(1), "seed 0 is a seed like any other"


def test_the_global_generator_is_left_alone_by_us_and_not_by_rliable() -> None:
    scores = _scores()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    rng = np.random.default_rng(0)
    bootstrap.resample(scores.matrix, NAMES, 50, rng)
    rliable_interval(scores, lambda x: np.array([x.mean()]), rng, resamples=20)
    rliable_pair_interval(scores, scores, rliable_adapter.improvement, rng, resamples=20)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    position = np.random.get_state()[2]  # noqa: NPY002
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.get_interval_estimates(
            {"m": scores.matrix},
            lambda x: np.array([x.mean()]),
            reps=5,
            random_state=np.random.RandomState(0),
        )
    moved = np.random.get_state()  # noqa: NPY002
    assert moved[2] != position or (moved[1] != before).any(), (
        "rliable heeds its random_state now: the adapter can go"
    )


def _mean_difference(x: FloatArray, y: FloatArray) -> float:
    return float(x.mean() - y.mean())


@pytest.mark.parametrize(
    ("name", "function"),
    [("improvement", metrics.probability_of_improvement), ("difference", _mean_difference)],
)
def test_percentile_intervals_of_a_pair_are_rliables_on_the_same_draws(
    name: str, function: Callable[[FloatArray, FloatArray], float]
) -> None:
    # Another number of runs on each side, and ties.
    a, b = (
        Scores(scores.method, scores.tasks, scores.seeds, np.round(scores.matrix, 1))
        for scores in (_scores(), _scores(runs=11, seed=1))
    )
    found = intervals.percentile_pair(a, b, np.random.default_rng(3), resamples=400)[name]
    ends = rliable_pair_interval(a, b, function, np.random.default_rng(3), resamples=400)
    assert found.estimate == pytest.approx(function(a.matrix, b.matrix), abs=1e-12)
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-12)
    assert found.kind == intervals.PERCENTILE


def test_percentile_intervals_of_few_or_equal_runs_are_refused() -> None:
    few = Scores.single_task("m", np.arange(5.0))
    with pytest.raises(RefusedIntervalError, match="far less often"):
        intervals.percentile_pair(few, few, np.random.default_rng(0))
    same = Scores.single_task("m", np.ones(8))
    assert intervals.percentile_pair(same, same, np.random.default_rng(0)) == {}
    apart = [Scores.single_task("m", np.linspace(0, 1, 11) + shift) for shift in (0.0, 5.0)]
    assert list(intervals.percentile_pair(*apart, np.random.default_rng(0))) == ["difference"]


def test_unknown_functional_is_a_sentence() -> None:
    with pytest.raises(UserError, match="Unknown functional 'mode'"):
        bootstrap.resample(_scores().matrix, ["mode"], 10, np.random.default_rng(0))


def test_expanded_tail_of_hesterberg() -> None:
    # n = 10: √(10/9) · t(0.975, 9) = 2.3846 → Φ(−2.3846) = 0.00855 (Hesterberg 2015, Table 3).
    assert bootstrap.expanded_tail(0.95, 10, 9) == pytest.approx(0.0086, abs=1e-4)
    assert bootstrap.expanded_tail(0.95, 5, 4) == pytest.approx(0.0010, abs=1e-4)
    assert bootstrap.expanded_tail(0.95, 10**6, 10**6) == pytest.approx(0.025, abs=1e-5)


def test_pairs_are_counted_by_rank_and_drawn_less_often_of_many_runs() -> None:
    rng = np.random.default_rng(3)
    # Ties within and between the methods, and more runs of the one.
    x, y = rng.integers(6, size=(9, 2)) / 2, rng.integers(6, size=(5, 2)) / 2
    found = bootstrap.resample_pair(x, y, 50, np.random.default_rng(4))
    again = np.random.default_rng(4)
    first, second = (again.integers(len(v), size=(50, *v.shape)) for v in (x, y))
    for k in range(50):
        a, b = (np.take_along_axis(v, i[k], axis=0) for v, i in ((x, first), (y, second)))
        wins = (a[:, None] > b).mean(axis=(0, 1)) + (a[:, None] == b).mean(axis=(0, 1)) / 2
        assert found["improvement"][k] == pytest.approx(wins.mean())
        assert found["difference"][k] == pytest.approx(a.mean() - b.mean())
    assert [bootstrap.enough(50_000, runs) for runs in (200, 250, 6_250)] == [50_000, 8_000, 2_000]
    assert bootstrap.enough(500, 6_250) == 500
