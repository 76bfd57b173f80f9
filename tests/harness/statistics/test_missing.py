"""Failed and missing runs: nothing is dropped, failure never pays, the unknown blocks verdicts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.missing import complete

RANGES = {"score": {"x": (-10.0, 10.0)}}
MANIFEST = [("m", "x", seed) for seed in range(5)]


def _runs(**changes: list[object]) -> pd.DataFrame:
    table: dict[str, list[object]] = {
        "method": ["m"] * 5,
        "setup": ["x"] * 5,
        "seed": [0, 1, 2, 3, 4],
        "status": ["ok", "diverged", "timeout", "crashed-method", "crashed-infrastructure"],
        "score": [1.0, np.nan, 3.0, np.nan, np.nan],
    }
    return pd.DataFrame({**table, **changes})


def test_failures_score_the_floor_and_the_unknown_is_unknown() -> None:
    found = complete(_runs(), MANIFEST, ["score"], RANGES)
    # A timeout that left a score gets the floor all the same.
    np.testing.assert_array_equal(found.observed["score"], [1, -10, -10, -10, np.nan])
    np.testing.assert_array_equal(found.worst["score"], [1, -10, -10, -10, -10])
    np.testing.assert_array_equal(found.best["score"], [1, -10, -10, -10, 10])
    (cell,) = found.accounting
    assert (cell.planned, cell.ok, cell.floored, cell.unresolved) == (5, 1, 3, 1)
    assert found.unresolved == 1


def test_the_manifest_is_the_denominator() -> None:
    found = complete(_runs().iloc[:2], MANIFEST, ["score"], RANGES)
    (cell,) = found.accounting
    assert (cell.planned, cell.ok, cell.diverged, cell.missing) == (5, 1, 1, 3)
    assert len(found.observed) == 5


def test_the_order_of_rows_does_not_matter() -> None:
    plain = complete(_runs(), MANIFEST, ["score"], RANGES)
    mixed = complete(_runs().iloc[::-1], MANIFEST[::-1], ["score"], RANGES)
    pd.testing.assert_frame_equal(plain.observed, mixed.observed)


def test_no_floor_no_score() -> None:
    with pytest.raises(UserError, match="seed 1 ended as 'diverged', and no floor of 'score'"):
        complete(_runs(), MANIFEST, ["score"], {})


def test_unknown_runs_without_a_range_stay_unknown() -> None:
    runs = _runs(status=["ok", "ok", "ok", "ok", "crashed-infrastructure"], score=[1.0] * 5)
    found = complete(runs, MANIFEST, ["score"], {})
    assert np.isnan(found.best["score"].iloc[4])
    assert np.isnan(found.worst["score"].iloc[4])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": [0, 0, 2, 3, 4]}, "occurs twice"),
        ({"seed": [0, 1, 2, 3, 9]}, "not in the manifest"),
        ({"status": ["ok", "ok", "fine", "ok", "ok"]}, "Unknown status 'fine'"),
        ({"status": ["ok"] * 5}, "seed 1 is ok but its 'score' is nan"),
    ],
)
def test_contradictions_are_refused(change: dict[str, list[object]], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        complete(_runs(**change), MANIFEST, ["score"], RANGES)


def test_lacking_columns_are_named() -> None:
    with pytest.raises(UserError, match="columns score, auc"):
        complete(_runs().drop(columns="score"), MANIFEST, ["score", "auc"], RANGES)
    with pytest.raises(UserError, match="manifest is empty"):
        complete(_runs(), [], ["score"], RANGES)
