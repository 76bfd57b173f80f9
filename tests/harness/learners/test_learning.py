"""`ppo` learns: the recorded settings, on the initial distributions they were chosen on."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.learners.base import recorded_settings
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training.evaluation import distributions
from pacebench.harness.tuning.learner_settings import score, train_on_initial

SEEDS = [RunSeed(root=100, index=i) for i in range(10)]


def straight_ahead() -> float:
    """The share of initial gates of Point Mass that stand across the straight way to the goal.

    Where the context is hidden no policy can do better: it must choose where to cross the wall
    without knowing the gate, and the middle is the likeliest place.
    """
    setup = envs.setup("point-mass-1")
    drawn = distributions(setup)[1].sample(200_000, np.random.default_rng(0))
    centre, width, _ = np.clip(drawn, setup.lower, setup.upper).T
    shares = [np.mean(np.abs(centre - x) < width / 2) for x in np.linspace(-1, 1, 21)]
    assert np.argmax(shares) in (9, 10, 11)
    return float(max(shares))


@pytest.mark.validation
@pytest.mark.parametrize(
    ("setup", "budget"),
    [
        ("point-mass-1", 200_000),
        ("point-mass-2", 200_000),
        ("lunar-lander", 300_000),
        ("ball-catching", 300_000),
    ],
)
def test_ppo_learns_the_initial_distribution(setup: str, budget: int) -> None:
    params = learners.get("ppo").defaults(setup)
    found = score(train_on_initial(setup, params, budget, SEEDS, contexts=500))
    print(setup, found)
    if setup == "point-mass-1":
        assert found["mean_success"] >= 0.9 * straight_ahead()
    elif setup == "point-mass-2":
        assert found["mean_success"] >= 0.7
    elif setup == "lunar-lander":
        assert found["mean_return"] > 0
    else:
        assert found["mean_success"] >= 0.9


def test_a_hidden_gate_bounds_what_can_be_learned() -> None:
    assert straight_ahead() == pytest.approx(0.64, abs=0.01)


@pytest.mark.parametrize("setup", list(recorded_settings()))
def test_recorded_settings_are_the_best_of_what_was_tried(setup: str) -> None:
    record = recorded_settings()[setup]["ppo"]
    assert record["chosen_on"] == "the initial distribution"
    assert setup in record["command"]
    best = max(record["tried"], key=lambda tried: tried["mean_return"])
    assert best["varied"].items() <= record["params"].items()
    learners.PPOParams.model_validate(record["params"])
    # It has worse neighbours on both sides in everything that was searched.
    assert record["at_end_of_grid"] == []
    tried = [candidate["varied"] for candidate in record["tried"]]
    for name, places in record["grid"].items():
        at = places.index(best["varied"][name])
        for neighbour in (places[at - 1], places[at + 1]):
            assert {**best["varied"], name: neighbour} in tried


@pytest.mark.slow
def test_a_little_training_helps() -> None:
    """A quick look that learning works at all; the full-size check is `make validate`."""
    params = learners.get("ppo").defaults("point-mass-2")
    before, after = (
        score(train_on_initial("point-mass-2", params, budget, SEEDS[:2]))["mean_return"]
        for budget in (2_000, 40_000)
    )
    assert after > 2 * before
