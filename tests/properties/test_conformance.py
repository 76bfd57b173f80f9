"""Every registered curriculum is held to every property it claims."""

from __future__ import annotations

import pytest
from hypothesis import settings

from pacebench import curricula
from pacebench.harness.verify import PROPERTIES, Subject, attempt, claimed

# A curriculum that solves numerically gets fewer examples, `spdl` the fewest: its solver takes
# seconds where the closed form takes microseconds.
DEAR = {"spgl-exact-kl": 2, "spgl-exact": 4, "spgl-joint": 4, "spdl-sqp": 6, "spdl": 10}
DEAR |= {"acl": 3, "plr": 3, "currot": 8, "alp-gmm": 8, "procurl": 4, "goal-gan": 30}
SLOW = {("spdl", "convergence"), ("spdl", "degenerate-batches"), ("spdl", "no-divergence")}


def _pairs() -> list[object]:
    return [
        pytest.param(
            name,
            prop,
            id=f"{name}:{prop.name}",
            marks=[pytest.mark.slow] * ((name, prop.name) in SLOW),
        )
        for name in curricula.names()
        for prop in claimed(Subject(curricula.get(name)), PROPERTIES)
    ]


@pytest.mark.parametrize(("name", "prop"), _pairs())
def test_property(name, prop):
    examples = settings.default.max_examples // DEAR.get(name, 1)
    outcome = attempt(prop, Subject(curricula.get(name)), examples)
    assert outcome.held, f"{outcome.message}\n{outcome.counterexample}"
    assert outcome.examples >= min(3, examples // prop.cost)


def test_every_promise_is_claimed_by_someone():
    for prop in PROPERTIES:
        assert any(prop.claimed(curricula.get(n).capabilities) for n in curricula.names()), (
            prop.name
        )


def test_what_the_registry_promises():
    claims = {name: curricula.get(name).capabilities for name in curricula.names()}
    regions = {name: c.trust_region for name, c in claims.items() if c.has_budget}
    assert regions == {
        "spdl": "reverse",
        "spdl-sqp": "reverse",
        "spgl": "block",
        "spgl-shared": "joint",
        "spgl-exact-kl": "block-exact",
        "spgl-exact": "block-exact",
        "spgl-joint": "joint",
        "spgl-mixture": "block",
    }
    assert all(
        c.value_constraint and c.converges_within is not None
        for c in claims.values()
        if c.has_budget
    )
    # Whoever has no budget ε makes no promise about one.
    assert not any(c.trust_region for c in claims.values() if not c.has_budget)
    boxed = {name for name, c in claims.items() if c.inside_bounds}
    assert boxed == {"acl", "plr", "currot", "alp-gmm", "procurl", "goal-gan"}
    assert claims["currot"].reaches_target is not None
    assert claims["acl"].uniform_without_progress
    assert claims["alp-gmm"].uniform_without_progress
    assert claims["spgl"].converges_within == claims["spgl-shared"].converges_within == 0.0
