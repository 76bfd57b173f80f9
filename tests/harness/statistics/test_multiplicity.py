"""Holm against statsmodels; intervals that hold together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import multiplicity
from pacebench.harness.statistics.multiplicity import Stratum, holm, simultaneous_level


@pytest.mark.parametrize("size", [1, 4, 9])
def test_holm_is_statsmodels(size: int) -> None:
    p = np.round(np.random.default_rng(size).random(size) ** 3, 2)
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], atol=1e-12)


def test_columns_are_families_of_their_own() -> None:
    p = np.round(np.random.default_rng(0).random((4, 50)) ** 3, 2)
    np.testing.assert_array_equal(holm(p), np.array([holm(column) for column in p.T]).T)


def test_holm_of_nothing_and_of_nonsense() -> None:
    assert holm([]).size == 0
    for bad in ([1.2], [np.nan], [-0.1]):
        with pytest.raises(UserError, match=r"\[0, 1\]"):
            holm(bad)


def _family(methods: int, df: float = 1e6) -> tuple[dict[int, Stratum], list[dict[int, float]]]:
    strata = {m: Stratum(1.0, df) for m in range(methods)}
    return strata, [{m: 1.0, 0: -1.0} for m in range(1, methods)]


def test_simultaneous_level_is_dunnetts() -> None:
    """Known variance, equal runs: Dunnett's two-sided point for three methods is 2.349."""
    strata, contrasts = _family(4)
    level = simultaneous_level(strata, contrasts, 0.95, np.random.default_rng(0), 200_000)
    assert stats.norm.ppf(0.5 + level / 2) == pytest.approx(2.349, abs=0.012)


def test_simultaneous_level_is_sidaks_without_correlation() -> None:
    strata = {m: Stratum(1.0, 1e6) for m in range(6)}
    contrasts = [{2 * k: 1.0, 2 * k + 1: -1.0} for k in range(3)]
    level = simultaneous_level(strata, contrasts, 0.95, np.random.default_rng(0), 200_000)
    assert level == pytest.approx(0.95 ** (1 / 3), abs=6e-4)


def test_simultaneous_level_keeps_to_its_limits() -> None:
    strata, contrasts = _family(2)
    assert simultaneous_level(strata, contrasts, 0.95, np.random.default_rng(0)) == 0.95
    # Ten times the same contrast is one contrast.
    level = simultaneous_level(strata, contrasts * 10, 0.95, np.random.default_rng(0))
    assert level == pytest.approx(0.95, abs=0.004)
    strata, contrasts = _family(5, df=2.0)
    level = simultaneous_level(strata, contrasts, 0.95, np.random.default_rng(0))
    assert 0.95 < level <= 1 - 0.05 / 4


def test_simultaneous_level_ignores_contrasts_without_spread() -> None:
    strata = {"a": Stratum(1.0, 9.0), "b": Stratum(1.0, 9.0), "c": Stratum(0.0, 9.0)}
    contrasts = [{"a": 1.0, "b": -1.0}, {"c": 1.0}]
    assert simultaneous_level(strata, contrasts, 0.9, np.random.default_rng(0)) == 0.9


def test_strata_are_read_off_scores() -> None:
    values = np.random.default_rng(0).normal(size=(7, 2))
    found = multiplicity.strata({"m": values})
    assert found["m", 1].df == 6
    assert found["m", 1].variance_of_mean == pytest.approx(stats.sem(values[:, 1]) ** 2)
