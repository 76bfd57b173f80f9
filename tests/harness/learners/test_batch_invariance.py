"""What an agent computes does not depend on who trains beside it, to the last bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from pacebench.harness import learners
from pacebench.harness.learners.batched.heads import head_of
from pacebench.harness.learners.batched.network import Layout, StackedPolicy
from pacebench.harness.learners.batched.update import Rollout, Updater
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training import train
from pacebench.harness.verify.learners import fingerprint
from tests.harness.training.cells import make_cell


def fingerprints(cell: Any, indices: list[int]) -> dict[int, str]:
    results = train(cell, [RunSeed(root=5, index=i) for i in indices])
    assert [r.seed.index for r in results] == indices
    return {r.seed.index: fingerprint(r) for r in results}


BATCHES = [[0], [3], [1, 0], [0, 1, 2], [2, 4, 0, 3, 1], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]


@pytest.mark.parametrize(
    ("setup", "params"),
    [
        ("point-mass-2", {}),
        # Odd sizes everywhere: no product, sum or row starts on a round number.
        (
            "point-mass-1",
            {"n_envs": 7, "n_steps": 101, "batch_size": 37, "net_arch": [17, 5], "norm_obs": True},
        ),
        ("point-mass-2", {"norm_reward": True, "target_kl": 0.01, "n_epochs": 4}),
    ],
)
def test_records_are_the_same_in_any_batch(setup: str, params: dict[str, Any]) -> None:
    cell = make_cell(setup, budget=2000, steps=(2000,), params=params, threshold=0.5)
    seen: dict[int, str] = {}
    for batch in BATCHES:
        for index, found in fingerprints(cell, batch).items():
            assert seen.setdefault(index, found) == found, f"seed {index} in batch {batch}"
    assert len(set(seen.values())) == 10, "different seeds must differ"


@pytest.mark.parametrize("setup", ["lunar-lander", "ball-catching"])
def test_records_are_the_same_in_any_batch_with_recorded_settings(setup: str) -> None:
    """Box2D and MuJoCo, with the networks and normalisation that studies use."""
    recorded = learners.get("ppo").defaults(setup)
    copies, steps = recorded["n_envs"], recorded["n_steps"]
    params = {**recorded, "n_epochs": 2}
    budget = 2 * copies * steps
    cell = make_cell(setup, budget=budget, steps=(budget,), contexts=2, params=params)
    seen: dict[int, str] = {}
    for batch in ([0], [2, 0, 1], [1, 2]):
        for index, found in fingerprints(cell, batch).items():
            assert seen.setdefault(index, found) == found, f"seed {index} in batch {batch}"
    assert len(set(seen.values())) == 3


def test_records_are_the_same_in_a_fresh_process_with_other_threads() -> None:
    cell = make_cell(budget=2000, steps=(2000,))
    here = fingerprints(cell, [2, 0])
    script = (
        "import json, sys\n"
        "from pacebench.harness.study.specs import Cell\n"
        "from tests.harness.learners.test_batch_invariance import fingerprints\n"
        "cell = Cell.model_validate_json(sys.stdin.read())\n"
        "print(json.dumps(fingerprints(cell, [0, 1, 2])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=cell.model_dump_json(),
        env={**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")},
        capture_output=True,
        text=True,
        check=True,
    )
    there = {int(k): v for k, v in json.loads(done.stdout.splitlines()[-1]).items()}
    assert {k: there[k] for k in here} == here


def rows_that_depend_on_others(layout: Layout) -> list[int]:
    """Returns with how many observations an agent's actions are not those at each of them alone."""
    policy = StackedPolicy(layout, 2, "tanh")
    for k in range(2):
        policy.initialise(k, np.random.SeedSequence(k), True, 0.0)
    obs = np.random.default_rng(0).standard_normal((2, 41, layout.observation), dtype=np.float32)
    alone = np.concatenate([policy.actor_by_row(obs[:, [i]]) for i in range(obs.shape[1])], axis=1)
    return [
        n
        for n in range(2, obs.shape[1] + 1)
        for part in (slice(0, n), slice(obs.shape[1] - n, None))
        if not np.array_equal(policy.actor_by_row(obs[:, part]), alone[:, part])
    ]


LAYOUTS = [Layout(4, 2, (64, 64)), Layout(21, 5, (128, 128)), Layout(9, 1, (17, 33))]


def test_an_action_does_not_depend_on_the_observations_beside_it() -> None:
    assert [rows_that_depend_on_others(layout) for layout in LAYOUTS] == [[]] * 3


def test_nor_does_it_with_the_kernels_of_processors_without_avx_512() -> None:
    """Those round a row by its place among the rows and by their number."""
    script = (
        "import numpy as np\n"
        "from tests.harness.learners.test_batch_invariance import LAYOUTS\n"
        "from tests.harness.learners.test_batch_invariance import rows_that_depend_on_others\n"
        "print([rows_that_depend_on_others(layout) for layout in LAYOUTS])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OPENBLAS_CORETYPE": "Haswell"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[[], [], []]"


@given(
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(2, 70), st.integers(1, 70)),
    agents=st.integers(2, 12),
    activation=st.sampled_from(["tanh", "relu"]),
    seed=st.integers(0, 2**32),
)
def test_an_update_of_any_shape_is_the_same_alone(
    sizes: tuple[int, int, int, int], agents: int, activation: Any, seed: int
) -> None:
    observation, action, batch, hidden = sizes
    rng = np.random.default_rng(seed)
    layout = Layout(observation, action, (hidden, 64))
    packed = rng.standard_normal((agents, 2 * batch, observation + action + 4), dtype=np.float32)
    params = PPOParams(batch_size=batch, n_epochs=2, activation=activation)
    chosen = int(rng.integers(agents))
    after = []
    for members in (list(range(agents)), [chosen]):
        policy = StackedPolicy(layout, len(members), activation)
        for k, member in enumerate(members):
            policy.initialise(k, np.random.SeedSequence(member), True, 0.3)
        rollout = Rollout(packed[members], observation, action)
        orders = [np.random.default_rng(member) for member in members]
        Updater(
            policy, head_of(spaces.Box(-1.0, 1.0, (policy.layout.action,)), policy, 0.0), params
        ).update(rollout, orders, np.ones(len(members), dtype=np.bool_))
        after.append(policy.params[members.index(chosen)].numpy().tobytes())
    assert after[0] == after[1]
