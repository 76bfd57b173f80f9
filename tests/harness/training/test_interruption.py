"""A run that was interrupted ends as one that was not, to the last bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from pacebench.harness import learners
from pacebench.harness.records import Checkpoint
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import Cell
from pacebench.harness.training import train
from pacebench.harness.verify.learners import InterruptingHooks, fingerprint, run_in_pieces
from tests.harness.training.cells import make_cell

CELLS: dict[str, dict[str, Any]] = {
    "spgl": {"budget": 6000, "steps": (1000, 3000, 6000)},
    "rare updates": {"budget": 6000, "steps": (2000, 6000), "schedule": {"every": 4}},
    "cohorts over several rollouts": {
        "budget": 6000,
        "steps": (1000, 6000),
        "params": {"n_steps": 40},
    },
    # It reads more of an episode than its value.
    "levels in the middle of a cohort": {
        "curriculum": "plr",
        "budget": 3000,
        "steps": (1000, 3000),
        "params": {"n_steps": 40},
    },
    "normalised": {
        "budget": 4000,
        "steps": (2000, 4000),
        "params": {"norm_obs": True, "norm_reward": True},
    },
    "stable-baselines3": {
        "learner": "sb3-ppo",
        "budget": 1500,
        "steps": (500, 1500),
        "params": {"norm_obs": True, "norm_reward": True, "n_envs": 5, "n_epochs": 1},
    },
    "a learner without checkpoints": {
        "learner": "sb3-sac",
        "budget": 1200,
        "steps": (400, 1200),
        "params": {"look_every": 100, "batch_size": 32, "net_arch": [16]},
    },
    # Box2D cannot save its state.
    "lunar lander": {
        "setup": "lunar-lander",
        "budget": 2400,
        "steps": (800, 2400),
        "contexts": 2,
        "params": {"n_envs": 4, "n_steps": 100, "net_arch": [16]},
    },
}


@pytest.mark.parametrize("case", CELLS)
def test_an_interrupted_run_ends_the_same_and_does_nothing_twice(case: str) -> None:
    """Stopped after every iteration: in the middle of cohorts, before them and between them."""
    cell = make_cell(**CELLS[case])
    seeds = [RunSeed(root=2, index=i) for i in range(2)]
    hooks = InterruptingHooks()
    whole = {r.seed.index: fingerprint(r) for r in train(cell, seeds, hooks)}
    saves = learners.get(cell.learner.name).capabilities.checkpoints
    pieces = run_in_pieces(cell, seeds, [1] * 7 if saves else [2, 1])
    assert {r.seed.index: fingerprint(r) for r in pieces.results} == whole
    assert (pieces.steps == hooks.steps) == saves


def _a_shape(saved: Checkpoint) -> None:
    saved.arrays["adam_first"] = saved.arrays["adam_first"][:1]


def _a_missing_array(saved: Checkpoint) -> None:
    del saved.arrays["params"]


def _a_number(saved: Checkpoint) -> None:
    saved.arrays["params"][0] = np.nan


def _an_action(saved: Checkpoint) -> None:
    saved.arrays["log/actions"][0] += 1.0


def _the_log(saved: Checkpoint) -> None:
    saved.arrays["log/episodes"] = saved.arrays["log/episodes"][:-1]


def _a_generator(saved: Checkpoint) -> None:
    saved.state["scheduler"]["rng"] = "chance"


def _the_iteration(saved: Checkpoint) -> None:
    saved.state["iteration"] = 10**6


def _an_evaluation(saved: Checkpoint) -> None:
    saved.arrays["evaluations/return"] = saved.arrays["evaluations/return"][1:]


def _the_updates(saved: Checkpoint) -> None:
    saved.state["scheduler"]["rows"] = {"mean": [1], "std": []}


FORGERIES = (
    _a_shape,
    _a_missing_array,
    _a_number,
    _an_action,
    _the_log,
    _a_generator,
    _the_iteration,
    _an_evaluation,
    _the_updates,
)


@pytest.fixture(scope="module")
def midway() -> tuple[Cell, list[RunSeed], InterruptingHooks, dict[int, str]]:
    """Two seeds in the middle of a cohort, and how they end."""
    cell = make_cell(**CELLS["cohorts over several rollouts"])
    seeds = [RunSeed(root=2, index=i) for i in range(2)]
    hooks = InterruptingHooks()
    hooks.left = 4
    train(cell, seeds, hooks)
    whole = {r.seed.index: fingerprint(r) for r in train(cell, seeds)}
    return cell, seeds, hooks, whole


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_checkpoint_is_refused_and_its_run_starts_afresh(forge, midway) -> None:
    cell, seeds, hooks, whole = midway
    again = InterruptingHooks()
    again.kept = copy.deepcopy(hooks.kept)
    forge(again.kept[seeds[1]])
    results = train(cell, seeds, again)
    assert set(again.refused) >= {seeds[1]}, "the one that was forged"
    assert {r.seed.index: fingerprint(r) for r in results} == whole


def test_seeds_at_different_steps_are_brought_together() -> None:
    cell = make_cell(budget=5000, steps=(1000, 3000, 5000))
    seeds = [RunSeed(root=2, index=i) for i in range(3)]
    whole = {r.seed.index: fingerprint(r) for r in train(cell, seeds)}
    hooks = InterruptingHooks()
    for some, piece in (([seeds[1]], 3), ([seeds[0]], 1)):
        hooks.left = piece
        train(cell, some, hooks)
    assert len({c.step for c in hooks.kept.values()}) == 2
    hooks.left = 10**9
    results = train(cell, seeds, hooks)
    assert [r.seed for r in results] == seeds
    assert {r.seed.index: fingerprint(r) for r in results} == whole


def test_progress_adds_up_and_a_stop_is_prompt() -> None:
    cell = make_cell(budget=4000, steps=(4000,))
    hooks = InterruptingHooks()
    seeds = [RunSeed(root=2, index=i) for i in range(2)]
    train(cell, seeds, hooks)
    assert hooks.steps == 2 * 4000
    hooks = InterruptingHooks()
    hooks.left = 0
    assert train(cell, seeds, hooks) == []
    assert hooks.steps == 0


def test_the_evaluation_grid_leaves_no_trace_in_training() -> None:
    seeds = [RunSeed(root=2, index=0)]
    sparse = train(make_cell(budget=4000, steps=(4000,)), seeds)[0]
    dense = train(make_cell(budget=4000, steps=(500, 1000, 2500, 3000, 4000), contexts=3), seeds)[0]
    for name, array in sparse.policy.items():
        assert array.tobytes() == dense.policy[name].tobytes()
    assert sparse.updates["mean"] == dense.updates["mean"]
