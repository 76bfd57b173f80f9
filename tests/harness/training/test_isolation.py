"""What a method does to its process reaches no other run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from pacebench import curricula
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training import train
from tests.harness.learners.test_batch_invariance import fingerprint
from tests.harness.training.cells import make_cell

SEEDS = [RunSeed(root=2, index=i) for i in range(2)]


@pytest.fixture
def reseeder() -> Iterator[str]:
    """A curriculum that reseeds the generators of the whole process whenever it is asked."""

    @curricula.register("reseeder")
    class Reseeder(curricula.get("default")):
        def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
            np.random.seed(0)  # noqa: NPY002 - the very thing
            torch.manual_seed(0)
            return super().sample(n, rng)

    yield "reseeder"
    curricula.unregister("reseeder")


@pytest.mark.parametrize("learner", ["ppo", "sb3-ppo"])
def test_global_generators_are_nobodys(reseeder: str, learner: str) -> None:
    size = {"n_envs": 5, "n_epochs": 1}
    plain = make_cell(
        curriculum="default", learner=learner, budget=1000, steps=(1000,), params=size
    )
    odd = make_cell(curriculum=reseeder, learner=learner, budget=1000, steps=(1000,), params=size)
    before = [fingerprint(result) for result in train(plain, SEEDS)]
    together = [fingerprint(result) for result in train(odd, SEEDS)]
    after = [fingerprint(result) for result in train(plain, SEEDS)]
    assert after == before, "runs of others in the same process"
    alone = [fingerprint(train(odd, [seed])[0]) for seed in reversed(SEEDS)]
    assert together == alone[::-1], "and its own runs do not depend on each other"
