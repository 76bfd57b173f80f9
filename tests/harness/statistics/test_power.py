"""Planning against analytic power, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.power import (
    minimum_detectable_effect,
    plan,
    runs_needed,
)
from pacebench.harness.statistics.rehearsal import Design, simulate_equivalence, simulate_power
from pacebench.harness.statistics.scores import Scores
from pacebench.harness.statistics.sequential import schedule


@given(st.integers(3, 60), st.floats(0.5, 0.95))
def test_detectable_effect_is_statsmodels(runs: int, power: float) -> None:
    oracle = TTestIndPower().solve_power(None, nobs1=runs, alpha=0.05, power=power)
    found = minimum_detectable_effect(np.sqrt(2 / runs), 2 * runs - 2, 0.05, power)
    assert found == pytest.approx(oracle, rel=2e-3)


def _pilot(methods: int, runs: int = 400, tasks: int = 1) -> dict[str, Scores]:
    rng = np.random.default_rng(0)
    names = tuple(f"t{i}" for i in range(tasks))
    pilot = {}
    for method in range(methods):
        values = rng.normal(size=(runs, tasks))
        values = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
        pilot[f"m{method}"] = Scores(f"m{method}", names, tuple(range(runs)), values)
    return pilot


def _family(methods: int) -> list[tuple[str, str]]:
    return [(f"m{i}", "m0") for i in range(1, methods)]


def _design(methods: int, effect: float) -> Design:
    return Design(_family(methods), effect)


def test_simulated_power_of_one_comparison_is_the_analytic_one() -> None:
    oracle = TTestIndPower().power(0.8, nobs1=20, alpha=0.05)
    found = simulate_power(
        _pilot(2), _design(2, 0.8), 20, np.random.default_rng(0), simulations=6_000
    )
    assert found == pytest.approx(oracle, abs=0.025)


def test_power_falls_with_the_size_of_the_family() -> None:
    alone = simulate_power(_pilot(2), _design(2, 0.8), 20, np.random.default_rng(0))
    crowd = simulate_power(_pilot(6), _design(6, 0.8), 20, np.random.default_rng(0))
    bonferroni = TTestIndPower().power(0.8, nobs1=20, alpha=0.05 / 5)
    assert crowd < alone
    assert crowd == pytest.approx(bonferroni, abs=0.04)


def test_the_declared_family_is_what_is_simulated() -> None:
    """All pairs of four are six comparisons, not three; a chain of three is what it is."""
    pilot = _pilot(4)
    names = sorted(pilot)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    chain = [("m1", "m0"), ("m2", "m1"), ("m3", "m2")]
    for family in (pairs, chain):
        rng = np.random.default_rng(0)
        found = simulate_power(pilot, Design(family, 0.8), 20, rng, simulations=4_000)
        bonferroni = TTestIndPower().power(0.8, nobs1=20, alpha=0.05 / len(family))
        assert found == pytest.approx(bonferroni, abs=0.04)
    made = plan(pilot, Design(pairs, 1.0), 10, np.random.default_rng(0), simulations=200)
    assert made.comparisons == 6


def test_power_without_effect_is_at_most_alpha() -> None:
    found = simulate_power(
        _pilot(4), _design(4, 1e-9), 10, np.random.default_rng(0), simulations=4_000
    )
    assert found <= 0.05 / 3 + 0.008


def test_plan_finds_the_analytic_number_of_runs() -> None:
    oracle = TTestIndPower().solve_power(1.0, alpha=0.05, power=0.8)
    found = plan(_pilot(2), _design(2, 1.0), 10, np.random.default_rng(0), simulations=4_000)
    assert found.runs is not None
    assert abs(found.runs - oracle) <= 2
    assert found.runs_cautious is not None
    assert found.runs_cautious >= found.runs
    expected = TTestIndPower().solve_power(None, nobs1=10, alpha=0.05, power=0.8)
    assert found.detectable == pytest.approx(expected, rel=0.01)
    again = plan(_pilot(2), _design(2, 1.0), 10, np.random.default_rng(0), simulations=4_000)
    assert found == again


def test_the_power_of_equivalence_is_the_analytic_one() -> None:
    """Equal normal methods: 2 Φ_t(margin/SE − t_0.95) − 1, to what a normal approximation is."""
    runs, margin = 40, 0.8
    error = np.sqrt(2 / runs)
    oracle = 2 * stats.norm.cdf(margin / error - stats.t.ppf(0.95, 2 * runs - 2)) - 1
    found = simulate_equivalence(
        _pilot(2), _design(2, margin), runs, np.random.default_rng(0), simulations=6_000
    )
    assert found == pytest.approx(oracle, abs=0.02)
    # A margin of nothing is never shown to hold, and a family needs more.
    rng = np.random.default_rng(0)
    assert simulate_equivalence(_pilot(2), _design(2, 1e-6), runs, rng) == 0
    assert simulate_equivalence(_pilot(6), _design(6, margin), runs, rng) < found


def test_plan_says_what_it_takes_to_show_equivalence() -> None:
    made = plan(_pilot(2), _design(2, 0.8), 40, np.random.default_rng(0))
    assert made.runs_equivalence is not None
    assert 25 <= made.runs_equivalence <= 31  # (1.28 + 1.67)² · 2 / 0.8² ≈ 27
    assert made.equivalence_planned > 0.8
    assert any("found equivalent within that difference" in line for line in made.sentences())


def test_plan_is_cautious_about_a_small_pilot_and_says_so() -> None:
    found = plan(_pilot(2, runs=4), _design(2, 1.5), 6, np.random.default_rng(0), simulations=500)
    assert found.runs is not None
    assert found.runs_cautious is not None
    assert found.runs_cautious > found.runs
    text = " ".join(found.sentences())
    assert "minimum detectable effect" in text
    assert "4 pilot runs" in text


def test_plan_says_when_no_affordable_number_is_enough() -> None:
    found = plan(
        _pilot(2), _design(2, 0.01), 20, np.random.default_rng(0), simulations=200, limit=40
    )
    assert found.runs is None
    assert "more than 40 runs" in found.sentences()[0]


def test_plan_uses_tasks_as_strata() -> None:
    one = plan(_pilot(2), _design(2, 0.6), 20, np.random.default_rng(0), simulations=1_000)
    four = plan(
        _pilot(2, tasks=4), _design(2, 0.6), 20, np.random.default_rng(0), simulations=1_000
    )
    assert one.runs is not None
    assert four.runs is not None
    assert four.runs <= one.runs / 3


def _alike(correlation: float, runs: int = 400) -> dict[str, Scores]:
    """Two methods of unit spread whose runs go together by seed."""
    a, b = (item.matrix for item in _pilot(2, runs).values())
    b = b - a * (a * b).sum() / (a * a).sum()
    b = correlation * a + np.sqrt(1 - correlation**2) * b / b.std(ddof=1)
    seeds = tuple(range(runs))
    return {"m0": Scores("m0", ("t0",), seeds, a), "m1": Scores("m1", ("t0",), seeds, b)}


@pytest.mark.parametrize("correlation", [0.0, 0.8, -0.5])
def test_declared_pairs_are_simulated_as_alike_as_the_pilots(correlation: float) -> None:
    # The spread of a difference of two unit spreads with this correlation.
    spread = np.sqrt(2 - 2 * correlation)
    oracle = TTestPower().power(0.6 / spread, nobs=15, alpha=0.05)
    design = Design(_family(2), 0.6, paired=True)
    rng = np.random.default_rng(0)
    found = simulate_power(_alike(correlation), design, 15, rng, simulations=6_000)
    assert found == pytest.approx(oracle, abs=0.025)


def test_a_plan_of_pairs_is_that_of_their_differences() -> None:
    pilot = _alike(0.9)
    # Another order of the same seeds is the same pilot.
    b = pilot["m1"]
    shuffled = Scores(b.method, b.tasks, b.seeds[::-1], b.matrix[::-1])
    design = Design(_family(2), 0.4, paired=True)
    made = plan(pilot | {"m1": shuffled}, design, 20, np.random.default_rng(0))
    oracle = TTestPower().solve_power(0.4 / np.sqrt(0.2), alpha=0.05, power=0.8)
    assert made.runs == pytest.approx(oracle, abs=1.5)
    detectable = TTestPower().solve_power(None, nobs=20, alpha=0.05, power=0.8)
    assert made.detectable == pytest.approx(detectable * np.sqrt(0.2), rel=0.01)
    unpaired = plan(pilot, Design(_family(2), 0.4), 20, np.random.default_rng(0))
    assert unpaired.runs is not None
    assert made.runs is not None
    assert unpaired.runs > 5 * made.runs


def test_pairs_need_seeds_in_common() -> None:
    pilot = _alike(0.5, runs=10)
    b = pilot["m1"]
    apart = Scores(b.method, b.tasks, tuple(seed + 10 for seed in b.seeds), b.matrix)
    design = Design(_family(2), 0.5, paired=True)
    with pytest.raises(UserError, match="share no seed"):
        plan(pilot | {"m1": apart}, design, 20, np.random.default_rng(0))


def test_declared_looks_are_simulated_at_their_levels() -> None:
    """Against a loop over normal data and scipy's test, with and without a true difference."""
    rng = np.random.default_rng(4)
    looks = schedule(20, (5, 10, 15))
    sets = 4_000
    a, b = rng.normal(size=(2, sets, 20))

    def share(effect: float) -> float:
        rejected = np.zeros(sets, dtype=bool)
        for look, level in zip(looks.looks, looks.alphas, strict=True):
            p = stats.ttest_ind(a[:, :look] + effect, b[:, :look], axis=1, equal_var=False).pvalue
            rejected |= p <= level
        return float(rejected.mean())

    for effect in (0.9, 1e-9):
        design = Design(_family(2), effect, looks=(5, 10, 15))
        found = simulate_power(_pilot(2), design, 20, np.random.default_rng(0), simulations=sets)
        assert found == pytest.approx(share(effect), abs=0.03 if effect > 0.1 else 0.012)
    assert share(1e-9) < 0.065


def test_looks_cost_little_and_later_ones_do_not_count() -> None:
    rng = np.random.default_rng(0)
    plain = plan(_pilot(2), _design(2, 1.0), 20, rng)
    looks = plan(_pilot(2), Design(_family(2), 1.0, looks=(5, 10)), 20, np.random.default_rng(0))
    assert plain.runs is not None
    assert looks.runs is not None
    assert plain.runs - 1 <= looks.runs <= plain.runs + 3
    assert plain.detectable < looks.detectable < 1.05 * plain.detectable
    few = Design(_family(2), 1.0, looks=(30,)).schedule(20)
    assert few.looks == (20,)


def test_a_difference_that_is_surely_small_does_not_count_as_found() -> None:
    """With very many runs a true difference at the margin is called equivalent now and then."""
    design = _design(2, 0.3)
    found = simulate_power(_pilot(2), design, 900, np.random.default_rng(0), simulations=1_000)
    assert 0.92 <= found <= 0.98


def test_nonsense_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UserError, match="must hold 'x'"):
        plan(_pilot(2), Design([("m1", "x")], 1.0), 10, rng)
    with pytest.raises(UserError, match="positive effect"):
        plan(_pilot(2), _design(2, 0.0), 10, rng)
    with pytest.raises(UserError, match="one run"):
        plan(
            _pilot(2, runs=400) | {"m1": Scores.single_task("m1", [1.0], "t0")},
            _design(2, 1.0),
            9,
            rng,
        )
    with pytest.raises(UserError, match="spread"):
        minimum_detectable_effect(0.0, 5)


@given(st.integers(3, 40), st.floats(0.4, 3.0))
def test_runs_needed_is_statsmodels_whatever_was_seen(seen: int, effect: float) -> None:
    oracle = TTestIndPower().solve_power(effect, alpha=0.05, power=0.8)
    found = runs_needed(np.sqrt(2 / seen), 2 * seen - 2, seen, effect)
    assert found is not None
    assert oracle - 0.05 <= found <= max(oracle, 2) + 1.05


def test_runs_needed_gives_up_beyond_its_limit() -> None:
    assert runs_needed(1.0, 18, 10, 0.01, limit=50) is None
