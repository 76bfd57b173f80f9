"""What `ppo` leaves out of its update might as well not have happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from pacebench.harness.learners.batched.agents import BatchedPPO
from pacebench.harness.learners.batched.update import Rollout
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.seeding import RunSeed
from tests.harness.learners.test_equal_to_sb3 import VARIANTS

COPIES, STEPS = 4, 60
OBS = spaces.Box(-5.0, 5.0, (3,))
ACTIONS = {"normal": spaces.Box(-1.0, 1.0, (2,)), "discrete": spaces.Discrete(3)}


class _Order:
    """A generator that gives out one prepared permutation, again and again."""

    def __init__(self, order: NDArray[np.int64]) -> None:
        self.order = order

    def permutation(self, n: int) -> NDArray[np.int64]:
        assert n == len(self.order)
        return self.order


def _agents(space: spaces.Space[Any], params: PPOParams, *indices: int) -> BatchedPPO:
    return BatchedPPO(params, OBS, space, [RunSeed(root=1, index=i) for i in indices])  # type: ignore[arg-type]


def _update(
    agents: BatchedPPO,
    packed: NDArray[np.float32],
    orders: list[NDArray[np.int64]],
    learned: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.float32], ...]:
    """Returns parameters and Adam's moments after an update."""
    rollout = Rollout(packed.copy(), agents._rollout.observation, agents._rollout.action, learned)
    alive = np.ones(agents.count, dtype=np.bool_)
    agents.updater.update(rollout, [_Order(o) for o in orders], alive)  # type: ignore[misc]
    moments = [moment.numpy() for moment in agents.updater.moments]
    return (agents._policy.params.numpy(), *moments, agents.updater.steps)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("variant", ["all options", "early stopping", "unnormalised advantages"])
def test_an_update_equals_one_on_the_transitions_that_are_learned_from(
    kind: str, variant: str
) -> None:
    params = PPOParams(
        **{"batch_size": 50, "n_epochs": 3, **VARIANTS[variant], "n_envs": COPIES, "n_steps": STEPS}
    )
    rng = np.random.default_rng(3)
    n, a = COPIES * STEPS, 2 if kind == "normal" else 1
    packed = rng.standard_normal((3, n, 3 + a + 4)).astype(np.float32)
    if kind == "discrete":
        packed[:, :, 3] = rng.integers(3, size=(3, n))
    packed[:, :, 3 + a] = -2.0 + 0.1 * packed[:, :, 3 + a]
    # The first learns from some, the second from none, the third from all.
    learned = np.array([rng.random(n) < 0.6, np.zeros(n), np.ones(n)], dtype=np.bool_)
    orders = [rng.permutation(n) for _ in range(3)]
    before = _agents(ACTIONS[kind], params, 1)._policy.params.numpy().copy()
    found = _update(_agents(ACTIONS[kind], params, 0, 1, 2), packed, orders, learned)

    kept = learned[0]
    shorter = (np.cumsum(kept) - 1)[orders[0][kept[orders[0]]]]
    some = _update(_agents(ACTIONS[kind], params, 0), packed[:1, kept], [shorter])
    # Sums over batches of another size are rounded otherwise, and Adam divides by small roots.
    for ours, alone in zip(found, some, strict=True):
        np.testing.assert_allclose(ours[0], alone[0], rtol=1e-4, atol=2e-5)
    whole = _update(_agents(ACTIONS[kind], params, 2), packed[2:], orders[2:])
    for ours, alone in zip(found, whole, strict=True):
        np.testing.assert_array_equal(ours[2], alone[0])
    np.testing.assert_array_equal(found[0][1], before[0])
    assert not any(np.any(part[1]) for part in found[1:])
    if variant == "unnormalised advantages":
        # Fewer transitions make fewer minibatches.
        np.testing.assert_array_equal(found[3], [3 * -(-kept.sum() // 50), 0, 3 * 5])
