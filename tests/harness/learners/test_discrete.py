"""Discrete actions in training, and what learners tell of their updates there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.harness.records import DIAGNOSTIC_COLUMNS
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training import train
from pacebench.harness.verify.learners import fingerprint, run_in_pieces
from tests.harness.learners.test_conformance import tiny_cell

SEEDS = [RunSeed(root=4, index=i) for i in range(2)]


@pytest.fixture(scope="module")
def cart() -> Iterator[str]:
    """A setup with discrete actions."""
    setup = envs.from_gymnasium(
        "CartPole-v1",
        name="cart",
        context={"length": (0.3, 1.0), "force_mag": (5.0, 15.0)},
        target={"mean": [0.5, 10.0], "variance": [0.0025, 0.25]},
        initial={"mean": [0.6, 9.0], "variance": [0.01, 1.0]},
        threshold=30.0,
        horizon=60,
        gamma=0.95,
    )
    envs.register(setup)
    yield setup.name
    envs.unregister(setup.name)


@pytest.mark.parametrize("learner", learners.names())
def test_discrete_actions_where_a_learner_takes_them(learner: str, cart: str) -> None:
    cell = tiny_cell(learner, setup=cart, budget=1500, steps=(500, 1500))
    if not learners.get(learner).capabilities.discrete:
        with pytest.raises(UserError, match="has discrete actions, which learner"):
            train(cell, SEEDS[:1])
        return
    whole = train(cell, SEEDS)
    pieces = run_in_pieces(cell, SEEDS, [1, 1])
    told = {r.seed: fingerprint(r) for r in whole}
    assert {r.seed: fingerprint(r) for r in pieces.results} == told
    found = whole[0].evaluations
    assert set(found["policy"]) == {"deterministic", "stochastic"}
    assert max(found["length"]) <= 60
    check_diagnostics(whole[0].diagnostics, whole[0].env_steps)
    # At most log 2, of two equally probable actions.
    assert 0 < max(whole[0].diagnostics["entropy"]) <= np.log(2) + 1e-6


def check_diagnostics(told: dict[str, list[float]], env_steps: int) -> None:
    """One row per policy update; those with a critic tell everything."""
    assert list(told) == list(DIAGNOSTIC_COLUMNS)
    assert told["iteration"] == list(range(1, len(told["iteration"]) + 1))
    assert told["env_steps"][-1] == env_steps
    assert np.isfinite([told["value_loss"], told["approx_kl"], told["entropy"]]).all()
    assert np.min(told["gradient_norm"]) > 0
    assert (np.array(told["explained_variance"]) <= 1).all()


def test_an_off_policy_learner_tells_what_it_can() -> None:
    (result,) = train(tiny_cell("sb3-sac"), SEEDS[:1])
    assert np.isfinite(result.diagnostics["value_loss"][-1])
    assert result.diagnostics["gradient_norm"][-1] > 0
    assert np.isnan(result.diagnostics["approx_kl"]).all()
