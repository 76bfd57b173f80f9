"""Declared looks: boundaries against published ones, and the bookkeeping of undeclared looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.sequential import schedule, spent


def test_boundaries_are_lan_demets() -> None:
    """Four equal looks at two-sided 5 %, as gsDesign and rpact print them."""
    found = schedule(20, (5, 10, 15))
    z = stats.norm.isf(np.array(found.alphas) / 2)
    np.testing.assert_allclose(z, [4.3326, 2.9631, 2.3590, 2.0141], atol=2e-4)
    two = schedule(20, (10,))
    np.testing.assert_allclose(
        stats.norm.isf(np.array(two.alphas) / 2), [2.9626, 1.9686], atol=2e-4
    )


def test_no_look_spends_nothing() -> None:
    assert schedule(20).alphas == (0.05,)
    assert spent(0.0, 0.05) == 0
    assert spent(1.0, 0.05) == pytest.approx(0.05)


@given(st.sets(st.integers(2, 29), max_size=4), st.floats(0.01, 0.2))
def test_levels_add_up_to_alpha(looks: set[int], alpha: float) -> None:
    found = schedule(30, sorted(looks), alpha)
    assert found.alphas[0] == pytest.approx(spent(found.looks[0] / 30, alpha), rel=1e-6)
    # Rejections overlap between looks: together they spend at most the sum, at least the largest.
    assert max(found.alphas) <= alpha + 1e-9
    assert sum(found.alphas) >= alpha - 1e-9


def test_undeclared_looks_are_known() -> None:
    found = schedule(20, (10,))
    assert found.nominal(20) == found.alphas[-1]
    assert found.nominal(12) is None
    assert found.undeclared([10, 12, 12, 20]) == (12,)


@pytest.mark.parametrize("looks", [(20,), (1,), (25,)])
def test_nonsense_is_refused(looks: tuple[int, ...]) -> None:
    if looks == (20,):
        assert schedule(20, looks).looks == (20,)
        return
    with pytest.raises(UserError, match="Looks"):
        schedule(20, looks)
