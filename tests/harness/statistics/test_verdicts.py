"""Verdicts and their sentences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_ind

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import welch
from pacebench.harness.statistics.interval import Interval, level_words
from pacebench.harness.statistics.verdicts import Verdict, VerdictKind, decide, tost

UNIT = st.floats(0, 1)


@given(st.integers(0, 999))
def test_tost_is_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=12), rng.normal(0.2, 2, size=15)
    oracle = ttost_ind(a, b, -0.7, 0.7, usevar="unequal")[0]
    found = tost(welch.difference_moments(a[:, None], b[:, None]), 0.7)
    assert found == pytest.approx(oracle)


def test_the_smallest_effect_must_be_positive() -> None:
    moments = welch.difference_moments(np.ones((3, 1)), np.zeros((3, 1)))
    with pytest.raises(UserError, match="positive"):
        tost(moments, 0.0)


@given(st.floats(-5, 5), UNIT, st.none() | UNIT, st.booleans())
def test_decisions(difference: float, p: float, q: float | None, higher: bool) -> None:
    outcome = decide(difference, p, q, 0.05, higher_is_better=higher)
    mirrored = decide(-difference, p, q, 0.05, higher_is_better=higher)
    flipped = decide(difference, p, q, 0.05, higher_is_better=not higher)
    assert mirrored == flipped
    swap = {VerdictKind.BETTER: VerdictKind.WORSE, VerdictKind.WORSE: VerdictKind.BETTER}
    assert mirrored == swap.get(outcome, outcome)
    if q is not None and q <= 0.05:
        assert outcome is VerdictKind.EQUIVALENT
    elif p <= 0.05 and difference != 0:
        assert outcome in swap
        assert (outcome is VerdictKind.BETTER) == ((difference > 0) == higher)
    else:
        assert outcome is VerdictKind.INCONCLUSIVE


def _verdict(outcome: VerdictKind, **changes: object) -> Verdict:
    interval = Interval(0.5, -0.25, 1.25, 0.95, "welch-t", "difference", 20, 1)
    fields: dict[str, object] = {
        "outcome": outcome,
        "method": "spgl",
        "control": "default",
        "scope": "point-mass-2",
        "measure": "mean target return",
        "interval": interval,
        "p_value": 0.2,
        "equivalence_p": 0.01,
        "alpha": 0.05,
        "sesoi": 1.5,
        "mde": 1.1,
    }
    return Verdict(**{**fields, **changes})  # type: ignore[arg-type]


def test_sentences() -> None:
    assert _verdict(VerdictKind.BETTER, p_value=0.0004).sentence() == (
        "On point-mass-2, spgl is better than default in mean target return (difference 0.5, 95% "
        "interval −0.25 to 1.25, adjusted p < 0.001, 20 runs each)."
    )
    assert _verdict(VerdictKind.INCONCLUSIVE).sentence() == (
        "On point-mass-2, the runs cannot tell spgl and default apart in mean target return "
        "(difference 0.5, 95% interval −0.25 to 1.25, adjusted p = 0.200, 20 runs each); a true "
        "difference of 1.1 would have been found with 80% probability if runs vary as they did "
        "here, smaller ones less often."
    )
    assert "less than the declared smallest effect of interest (1.5)" in (
        _verdict(VerdictKind.EQUIVALENT).sentence()
    )
    assert "equivalence adjusted p = 0.010" in _verdict(VerdictKind.EQUIVALENT).sentence()
    assert (
        _verdict(VerdictKind.WORSE, confirmatory=False, scope="suite")
        .sentence()
        .startswith("Exploratory: over all setups, spgl is worse than default")
    )
    assert "unadjusted p" in _verdict(VerdictKind.WORSE, adjusted=False).sentence()
    blocked = _verdict(VerdictKind.INCONCLUSIVE, blocked="2 planned runs have no result")
    assert "no verdict on spgl and default" in blocked.sentence()


def _bounded(low: float, high: float) -> Interval:
    return Interval(0.5, low, high, 0.95, "mover-learned-miller-thomas", "difference", 20, 1)


def test_an_equivalence_says_what_it_trusts() -> None:
    wide = _verdict(VerdictKind.EQUIVALENT, bounded=_bounded(-27.0, 26.0))
    assert wide.hides_failures
    assert wide.sentence().endswith(
        "; this trusts that rare failures would have shown among the runs: assuming nothing but "
        "the range of scores, the difference lies between −27 and 26."
    )
    narrow = _verdict(VerdictKind.EQUIVALENT, bounded=_bounded(-1.4, 1.4))
    assert not narrow.hides_failures
    assert "trusts" not in narrow.sentence()
    assert "trusts" not in _verdict(VerdictKind.BETTER, bounded=_bounded(-27.0, 26.0)).sentence()
    assert _verdict(VerdictKind.EQUIVALENT).hides_failures, "without a range nothing is known of it"
    unbounded = _verdict(VerdictKind.EQUIVALENT).sentence()
    assert "; this trusts that rare failures would have shown among the runs, and no" in unbounded
    assert unbounded.endswith("no range of scores is declared that would bound their effect.")


@pytest.mark.parametrize(
    ("level", "text"), [(0.95, "95"), (0.951, "95.1"), (0.997, "99.7"), (0.999985, "99.999")]
)
def test_a_level_is_never_rounded_to_certainty(level: float, text: str) -> None:
    interval = Interval(0.5, -0.25, 1.25, level, "welch-t", "difference", 20, 1)
    assert level_words(level) == text
    assert f"{text}% interval" in _verdict(VerdictKind.BETTER, interval=interval).sentence()


@pytest.mark.parametrize("outcome", list(VerdictKind))
@pytest.mark.parametrize("interval", [True, False])
@pytest.mark.parametrize("blocked", ["", "a run is missing"])
def test_no_sentence_calls_methods_equal(
    outcome: VerdictKind, interval: bool, blocked: str
) -> None:
    changes: dict[str, object] = {} if interval else {"interval": None, "p_value": None}
    text = _verdict(outcome, blocked=blocked, **changes).sentence().lower()
    for word in ("equal", "same", "no difference", "identical", "not significant"):
        assert word not in text
    assert text.endswith(".")
    record = _verdict(outcome, **changes).to_dict()
    assert record["outcome"] == outcome.value
