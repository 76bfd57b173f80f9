"""Mistakes that statistics code is known for, planted one by one: each must be caught.

A mutant is a change of the source text, so it fails loudly when the line it changes has moved.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pacebench.harness.analysis import planning
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import (
    bootstrap,
    curves,
    hypothesis_tests,
    improvement,
    missing,
    multiplicity,
    profiles,
    rehearsal,
    scores,
    welch,
)


@contextmanager
def planted(module: types.ModuleType, old: str, new: str) -> Iterator[None]:
    """Runs with a line of a module's source replaced."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(old) >= 1, f"{module.__name__} no longer holds {old!r}"
    kept = dict(vars(module))
    try:
        exec(compile(source.replace(old, new), module.__file__, "exec"), vars(module))
        yield
    finally:
        vars(module).clear()
        vars(module).update(kept)


def _refuses(action: Callable[[], object]) -> None:
    try:
        action()
    except UserError:
        return
    raise AssertionError("not refused")


def check_seeds_are_heeded() -> None:
    values = np.random.default_rng(0).normal(size=(8, 2))

    def resample(seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        return bootstrap.resample(values, ["mean"], 40, rng)["mean"].tobytes()

    def permute(seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        return hypothesis_tests.permutation_statistics(values, values + 1, rng, 40).tobytes()

    def band(seed: int) -> float:
        walks = values.cumsum(axis=1)
        return curves.max_t_quantile(walks, 0.95, np.random.default_rng(seed), 40)

    for function in (resample, permute, band):
        assert function(0) == function(0)
        assert function(0) != function(1)


def check_spread_against_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=5), rng.normal(size=7)
    oracle = stats.ttest_ind(a, b, equal_var=False)
    moments = welch.difference_moments(a[:, None], b[:, None])
    assert abs(float(welch.p_value(moments)) - oracle.pvalue) < 1e-9
    assert abs(float(welch.mean_moments(a[:, None]).error) - stats.sem(a)) < 1e-9
    p = float(welch.p_value(improvement.moments(a[:, None], b[:, None]), 0.5))
    assert abs(p - stats.brunnermunzel(a, b).pvalue) < 1e-9


def check_smoothed_pilot_keeps_its_spread() -> None:
    pilot = scores.Scores.single_task("m", np.random.default_rng(0).normal(size=6))
    (drawn,) = rehearsal._draw([pilot], 50, 4_000, np.random.default_rng(1))
    assert abs(drawn.std() / pilot.matrix.std(ddof=1) - 1) < 0.02


def check_nothing_vanishes() -> None:
    _refuses(lambda: scores.Scores.single_task("m", [1.0, np.nan, 3.0]))
    runs = pd.DataFrame(
        {"method": "m", "setup": "x", "seed": [0, 1], "status": "ok", "score": [1.0, 2.0]}
    )
    manifest = [("m", "x", seed) for seed in range(4)]
    found = missing.complete(runs, manifest, ["score"], {"score": {"x": (0.0, 9.0)}})
    assert len(found.worst) == 4
    assert found.worst["score"].sum() == 3
    runs.loc[1, "score"] = np.nan
    _refuses(lambda: missing.complete(runs, manifest, ["score"], {"score": {"x": (0.0, 9.0)}}))


def check_transposed_is_refused() -> None:
    _refuses(lambda: scores.Scores("m", ("a", "b"), (0, 1, 2), np.ones((2, 3))))
    _refuses(
        lambda: scores.Scores("m", (0, 1), ("a", "b"), np.ones((2, 2)))  # type: ignore[arg-type]
    )
    _refuses(lambda: scores.Scores("m", (0, 1), (5, 6), np.ones((2, 2))))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    _refuses(lambda: curves.learning_curve(range(4), np.ones((4, 3)), range(3), rng))


def check_overlapping_seeds_are_refused() -> None:
    _refuses(lambda: scores.Scores("m", ("a",), (0, 0), np.ones((2, 1))))
    twice = [scores.RunScore("a", 0, 1.0), scores.RunScore("a", 0, 2.0)]
    _refuses(lambda: scores.Scores.from_runs("m", twice))
    _refuses(lambda: planning.refuse_overlap("pilot", {"1", "2"}, "study", {"2", "3"}))
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(3, 4)).cumsum(axis=1)
    _refuses(lambda: curves.learning_curve(range(4), walks, (0, 0, 1), rng))


def check_both_sides_count() -> None:
    strata = {m: multiplicity.Stratum(1.0, 1e6) for m in range(4)}
    contrasts = [{m: 1.0, 0: -1.0} for m in range(1, 4)]
    level = multiplicity.simultaneous_level(
        strata, contrasts, 0.95, np.random.default_rng(0), 40_000
    )
    assert abs(stats.norm.ppf(0.5 + level / 2) - 2.349) < 0.03
    independent = np.random.default_rng(0).normal(size=(40, 10))
    found = curves.max_t_quantile(independent, 0.95, np.random.default_rng(0))
    assert abs(found - stats.t.isf(0.025 / 10, 39)) < 0.15
    a, b = (
        scores.Scores.single_task("a", np.arange(6.0)),
        scores.Scores.single_task("b", np.arange(6.0) + 1.5),
    )
    p = [
        hypothesis_tests.permutation_test(x, y, np.random.default_rng(0), 2_000).p_value
        for x, y in ((a, b), (b, a))
    ]
    oracle = stats.ttest_ind(np.arange(6.0), np.arange(6.0) + 1.5).pvalue
    for value in p:
        assert abs(value - oracle) < 0.05
    grid = np.linspace(0, 1, 50)
    assert profiles.half_width(20, 1, 0.95) > stats.ksone.ppf(0.95, 20) + 0.01, len(grid)


CHECKS = (
    check_seeds_are_heeded,
    check_spread_against_scipy,
    check_smoothed_pilot_keeps_its_spread,
    check_nothing_vanishes,
    check_transposed_is_refused,
    check_overlapping_seeds_are_refused,
    check_both_sides_count,
)

FRESH = "np.random.default_rng(0)"
MUTANTS = {
    "ignored seed, bootstrap": (bootstrap, "rng.integers(", f"{FRESH}.integers("),
    "ignored seed, permutation": (hypothesis_tests, "rng.random(", f"{FRESH}.random("),
    "ignored seed, band": (curves, "rng.standard_normal(", f"{FRESH}.standard_normal("),
    "unseeded bootstrap": (bootstrap, "rng.integers(", "np.random.default_rng().integers("),
    "global generator": (hypothesis_tests, "rng.random((", "np.random.random_sample(("),
    "ddof = 0, Welch": (welch, "ddof=1", "ddof=0"),
    "ddof = 0, Brunner-Munzel": (improvement, "ddof=1", "ddof=0"),
    "ddof = 0, pilot": (rehearsal, "(count - 1) / count + bandwidth**2", "1 + bandwidth**2"),
    "dropped NaN, scores": (
        scores,
        "if not np.isfinite(values).all():",
        "values = np.nan_to_num(values)\n        if False:",
    ),
    "dropped NaN, frame": (missing, "if len(bad):", "if False:"),
    "dropped runs": (missing, 'how="left")\n    observed', 'how="inner")\n    observed'),
    "transposed scores": (
        scores,
        "if values.shape != shape:",
        "values = values.T if values.shape != shape else values\n        if False:",
    ),
    "transposed names": (
        scores,
        "if not all(isinstance(task, str)",
        "if False and not all(isinstance(task, str)",
    ),
    "transposed curves": (
        curves,
        "if values.shape != (len(seeds), grid.size):",
        "values = values.T if values.shape != (len(seeds), grid.size) else values\n    if False:",
    ),
    "overlapping seeds, scores": (
        scores,
        "if len(set(self.seeds)) != len(self.seeds):",
        "if False:",
    ),
    "overlapping seeds, runs": (scores, "if (seed, task) in table:", "if False:"),
    "overlapping seeds, roles": (planning, "if shared:", "if False:"),
    "overlapping seeds, curves": (curves, "if len(set(seeds)) != len(seeds):", "if False:"),
    "signed maximum, contrasts": (multiplicity, "np.abs(means @ weights.T)", "(means @ weights.T)"),
    "signed maximum, band": (
        curves,
        "np.abs(process.mean(axis=1) / error)",
        "(process.mean(axis=1) / error)",
    ),
    "signed maximum, permutation": (
        hypothesis_tests,
        "np.abs(permutation_statistics(x, y, rng, draws))",
        "permutation_statistics(x, y, rng, draws)",
    ),
    "signed maximum, profile": (profiles, "stats.kstwo.ppf", "stats.ksone.ppf"),
}


def _failures() -> list[str]:
    failed = []
    for check in CHECKS:
        try:
            check()
        except Exception:  # noqa: BLE001 - a mutant may break in any way; broken is caught
            failed.append(check.__name__)
    return failed


def test_the_code_as_it_is_passes_every_check() -> None:
    assert _failures() == []


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    module, old, new = MUTANTS[name]
    with planted(module, old, new):
        assert _failures(), f"the mutant '{name}' survives"
    assert vars(module)["__name__"] == module.__name__
