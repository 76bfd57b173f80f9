"""A seed that breaks down ends with its reason, and the others never notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pacebench import curricula, envs
from pacebench.envs.point_mass.batch import PointMassBatch
from pacebench.harness import learners
from pacebench.harness.learners.batched.agents import BatchedPPO
from pacebench.harness.records import RunResult, Status
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training import train
from pacebench.harness.training.evaluation import EvaluationResult, Evaluator
from tests.harness.learners.test_batch_invariance import fingerprint
from tests.harness.training.cells import make_cell

SEEDS = [RunSeed(root=11, index=i) for i in range(6)]


class CursedPointMass(PointMassBatch):
    """Breaks in rare contexts; which seeds meet one is up to their streams."""

    limit: float = 5.2
    observation: float = 0.0
    reward: float = 0.0

    def _step_copies(self, actions: Any) -> None:
        super()._step_copies(actions)
        cursed = self.context[:, 0] > self.limit
        self._physics_obs[cursed, 0] += self.observation
        self._reward[cursed] += self.reward


@pytest.fixture
def cursed() -> Iterator[type[CursedPointMass]]:
    class Cursed(CursedPointMass):
        pass

    envs.register_environment("cursed", Cursed)
    envs.register(replace(envs.setup("point-mass-2"), name="cursed", environment="cursed"))
    yield Cursed
    envs.unregister("cursed")
    from pacebench.envs.registry import _environments

    _environments.unregister("cursed")


def outcomes(cell: Any) -> dict[int, RunResult]:
    return {r.seed.index: r for r in train(cell, SEEDS)}


@pytest.mark.parametrize(
    ("observation", "reward", "reason"),
    [
        (np.nan, 0.0, "non-finite observation"),
        (np.inf, 0.0, "non-finite observation"),
        (0.0, np.nan, "non-finite reward"),
        (0.0, 1e30, "not finite"),
        # Finite, and clipped to harmless steps: nothing but its size gives it away.
        (0.0, 1e12, "gradient of the loss grew beyond 1e+08"),
    ],
)
def test_one_seed_diverges_and_the_others_do_not_notice(
    cursed: type[CursedPointMass], observation: float, reward: float, reason: str
) -> None:
    cell = make_cell("cursed", "initial", budget=6000, steps=(3000, 6000), contexts=3)
    healthy = outcomes(cell)
    assert {r.status for r in healthy.values()} == {Status.OK}
    cursed.observation, cursed.reward = observation, reward
    broken = outcomes(cell)
    diverged = {k for k, r in broken.items() if r.status is Status.DIVERGED}
    assert 0 < len(diverged) < len(SEEDS), "the curse must hit some seeds and spare others"
    for k, result in broken.items():
        if k in diverged:
            assert reason in result.reason
            assert result.env_steps <= 6000
            assert result.policy == {}
        else:
            assert fingerprint(result) == fingerprint(healthy[k])


@pytest.mark.parametrize("poison", [np.nan, 1e30, 1e7])
def test_broken_parameters_end_their_seed_only(
    monkeypatch: pytest.MonkeyPatch, poison: float
) -> None:
    cell = make_cell(budget=4000, steps=(4000,))
    healthy = outcomes(cell)
    iterate = BatchedPPO.iterate

    def poisoned(self: BatchedPPO, *args: Any) -> None:
        iterate(self, *args)
        # After the second iteration, unless the seed is out already.
        if self.updater.steps[2] > 20 and 2 not in self.diverged:
            self._policy.log_std[2] = poison

    monkeypatch.setattr(BatchedPPO, "iterate", poisoned)
    results = outcomes(cell)
    assert results[2].status is Status.DIVERGED
    assert results[2].reason
    for k in (0, 1, 3, 4, 5):
        assert fingerprint(results[k]) == fingerprint(healthy[k])


def test_a_curriculum_that_fails_crashes_its_seed_only() -> None:
    @curricula.register("test-fragile")
    class Fragile(curricula.Control):
        """Fails when the values are low."""

        def _propose(self, contexts: Any, values: Any) -> Any:
            if self.updates == 1 and contexts[0, 0] > 0:
                raise ArithmeticError("no such root")
            return curricula.Proposal("schedule", "fixed", self.distribution)

    try:
        results = outcomes(make_cell(curriculum="test-fragile", budget=3000, steps=(3000,)))
    finally:
        curricula.unregister("test-fragile")
    statuses = {r.status for r in results.values()}
    assert statuses == {Status.OK, Status.CRASHED}
    for result in results.values():
        if result.status is Status.CRASHED:
            assert "no such root" in result.reason
            assert len(result.updates["iteration"]) == 1


@pytest.mark.parametrize("learner", learners.names())
@pytest.mark.parametrize(
    ("observation", "reward", "reason"),
    [
        (np.nan, 0.0, "non-finite observation"),
        (0.0, np.inf, "non-finite reward"),
        (0.0, 1e12, "loss grew beyond"),
    ],
)
def test_every_learner_diverges_with_a_reason(
    cursed: type[CursedPointMass], learner: str, observation: float, reward: float, reason: str
) -> None:
    cursed.observation, cursed.reward, cursed.limit = observation, reward, 1.0
    cell = make_cell("cursed", "initial", learner, budget=1000, steps=(1000,), contexts=2)
    (result,) = train(cell, SEEDS[:1])
    assert result.status is Status.DIVERGED
    assert reason in result.reason
    assert result.evaluations["return"] == []
    assert result.policy == {}


@pytest.mark.parametrize("learner", ["sb3-ppo", "sb3-sac"])
def test_stable_baselines3_with_broken_parameters_has_diverged(
    monkeypatch: pytest.MonkeyPatch, learner: str
) -> None:
    import torch

    from pacebench.harness.learners.sb3_agents import SB3Agent

    iterate = SB3Agent.iterate

    def poisoned(self: SB3Agent, *args: Any) -> None:
        with torch.no_grad():
            next(self.model.policy.parameters()).fill_(torch.nan)
        iterate(self, *args)

    monkeypatch.setattr(SB3Agent, "iterate", poisoned)
    (result,) = train(make_cell(learner=learner, budget=1000, steps=(1000,)), SEEDS[:1])
    assert result.status is Status.DIVERGED
    assert result.reason


def test_a_mistake_inside_stable_baselines3_is_not_the_methods_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from stable_baselines3 import PPO

    def mistaken(self: PPO, *args: Any, **options: Any) -> None:
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr(PPO, "learn", mistaken)
    with pytest.raises(ValueError, match="broadcast"):
        train(make_cell(learner="sb3-ppo", budget=1000, steps=(1000,)), SEEDS[:1])


@pytest.mark.parametrize(
    ("observation", "reward", "reason"),
    [(np.nan, 0.0, "non-finite observation"), (0.0, np.nan, "non-finite reward")],
)
def test_an_evaluation_that_breaks_ends_its_seed_only(
    cursed: type[CursedPointMass], observation: float, reward: float, reason: str
) -> None:
    # All seeds share the held-out contexts, which stay below the limit; only the contexts that
    # some seeds draw from their current distribution are beyond.
    cell = make_cell("cursed", "initial", budget=2000, steps=(2000,), contexts=20)
    healthy = outcomes(cell)
    assert {r.status for r in healthy.values()} == {Status.OK}

    class Watched(Evaluator):
        def evaluate(self, *args: Any, **options: Any) -> EvaluationResult:
            cursed.observation, cursed.reward = observation, reward
            try:
                return super().evaluate(*args, **options)
            finally:
                cursed.observation = cursed.reward = 0.0

    cursed.limit = 4.65
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pacebench.harness.training.loop.Evaluator", Watched)
        broken = outcomes(cell)
    diverged = {k for k, r in broken.items() if r.status is Status.DIVERGED}
    assert 0 < len(diverged) < len(SEEDS), "the curse must hit some seeds and spare others"
    for k, result in broken.items():
        if k in diverged:
            assert result.reason == f"An evaluation met a {reason}."
            assert result.evaluations["return"] == []
        else:
            assert fingerprint(result) == fingerprint(healthy[k])
