"""The frozen plan: its hash, its deviations, and seeds that serve two masters."""

from __future__ import annotations

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.freeze import (
    FrozenPlan,
    deviations,
    freeze,
    plan_digest,
)

PLAN = {
    "estimands": ["score", "success"],
    "family": {"comparisons": [["spgl", "default"]], "alpha": 0.05},
    "sesoi": {"score": None},
    "runs": 20,
    "looks": [10],
    "anchors": {"point-mass-2": [0.0, 5.0]},
}


def test_the_hash_does_not_depend_on_the_order_of_keys_but_on_every_value() -> None:
    assert plan_digest(PLAN) == plan_digest(dict(reversed(PLAN.items())))
    assert plan_digest(PLAN) != plan_digest({**PLAN, "runs": 21})
    assert len(freeze(PLAN).digest) == 64


def test_a_plan_survives_disk_and_not_an_edit() -> None:
    frozen = freeze(PLAN)
    assert FrozenPlan.from_dict(frozen.to_dict()) == frozen
    edited = {**frozen.to_dict(), "plan": {**PLAN, "runs": 40}}
    with pytest.raises(UserError, match="edited by hand"):
        FrozenPlan.from_dict(edited)


def test_changes_are_listed() -> None:
    frozen = freeze(PLAN)
    assert deviations(frozen, PLAN) == ()
    changed = {
        **PLAN,
        "runs": 12,
        "family": {"comparisons": [["spgl", "default"]], "alpha": 0.1},
        "sesoi": {},
        "extra": 1,
    }
    found = [item.sentence() for item in deviations(frozen, changed)]
    assert found == [
        "extra was frozen as absent and is now 1.",
        "family.alpha was frozen as 0.05 and is now 0.1.",
        "runs was frozen as 20 and is now 12.",
        "sesoi.score was frozen as null and is now absent.",
    ]


def test_an_open_plan_cannot_be_frozen() -> None:
    with pytest.raises(UserError, match="without sesoi"):
        freeze({key: value for key, value in PLAN.items() if key != "sesoi"})
    with pytest.raises(UserError, match="JSON"):
        freeze({**PLAN, "runs": float("nan")})
