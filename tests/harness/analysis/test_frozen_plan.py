"""The frozen plan: its hash, and how the present one differs from it."""

from __future__ import annotations

import pytest

from pacebench.harness.analysis.frozen_plan import (
    FrozenPlan,
    differences,
    freeze,
    plan_digest,
)
from pacebench.harness.errors import UserError

PLAN = {
    "rule": "some rule, version 1",
    "questions": [["spgl", "default", "point-mass-2", "return", 0.05]],
    "alpha": 0.05,
    "smallest_effect": {"return": 4.0, "solved": None},
    "ranges": {"point-mass-2": [0.0, 100.0]},
    "seeds": 20,
    "anchors": {"point-mass-2": [0.0, 5.0]},
}


def test_the_hash_does_not_depend_on_the_order_of_keys_but_on_every_value() -> None:
    assert plan_digest(PLAN) == plan_digest(dict(reversed(PLAN.items())))
    assert plan_digest(PLAN) != plan_digest({**PLAN, "seeds": 21})
    assert len(freeze(PLAN).digest) == 64


def test_a_plan_survives_disk_and_not_an_edit() -> None:
    frozen = freeze(PLAN)
    assert FrozenPlan.from_dict(frozen.to_dict()) == frozen
    edited = {**frozen.to_dict(), "plan": {**PLAN, "seeds": 40}}
    with pytest.raises(UserError, match="edited by hand"):
        FrozenPlan.from_dict(edited)


def test_changes_are_listed() -> None:
    frozen = freeze(PLAN).plan
    assert differences(frozen, PLAN) == ()
    changed = {**PLAN, "seeds": 12, "alpha": 0.1, "smallest_effect": {"return": 4.0}, "extra": 1}
    found = [item.sentence() for item in differences(frozen, changed)]
    assert found == [
        "alpha was frozen as 0.05 and is now 0.1.",
        "extra was frozen as absent and is now 1.",
        "seeds was frozen as 20 and is now 12.",
        "smallest_effect.solved was frozen as null and is now absent.",
    ]


def test_an_open_plan_cannot_be_frozen() -> None:
    with pytest.raises(UserError, match="without ranges"):
        freeze({key: value for key, value in PLAN.items() if key != "ranges"})
    with pytest.raises(UserError, match="JSON"):
        freeze({**PLAN, "seeds": float("nan")})
