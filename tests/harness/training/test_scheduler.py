"""The curriculum's schedule, and the episodes it learns from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacebench import envs
from pacebench.harness.learners.batched.agents import BatchedPPO
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import ScheduleCell
from pacebench.harness.training import train
from pacebench.harness.training.scheduler import Cohort, CurriculumScheduler
from pacebench.harness.training.training_envs import TrainingEnvs
from tests.harness.training.cells import curriculum_of, make_cell

SETUP = envs.setup("point-mass-2")


def make_scheduler(
    copies: int = 4, curriculum: str = "initial", **schedule: Any
) -> CurriculumScheduler:
    rng = np.random.default_rng(0)
    checked = ScheduleCell(**{"min_episodes": 1, **schedule})
    return CurriculumScheduler(curriculum_of(curriculum, SETUP), rng, checked, copies)


def no_critic(obs: Any) -> Any:
    raise AssertionError("the critic was asked")


@pytest.mark.parametrize(
    ("warm_up", "every", "expected"),
    [(0, 1, [1, 2, 3, 4, 5, 6]), (0, 3, [3, 6]), (2, 1, [3, 4, 5, 6]), (3, 2, [5])],
)
def test_updates_follow_the_schedule(warm_up: int, every: int, expected: list[int]) -> None:
    scheduler = make_scheduler(warm_up=warm_up, every=every)
    happened = []
    for done in range(6):
        if scheduler.wants_restart(done):
            scheduler.open_cohort()
            for context in scheduler.draw(4):
                scheduler.cohort.end(scheduler.begin(np.zeros(2)), context, 1.0)
        if scheduler.complete:
            scheduler.update(done + 1, 100 * (done + 1), no_critic)
            happened.append(done + 1)
    assert happened == expected
    assert scheduler.rows["iteration"] == expected
    assert scheduler.rows["env_steps"] == [100 * i for i in expected]


def test_a_cohort_waits_for_its_slowest_episode() -> None:
    scheduler = make_scheduler(copies=2, min_episodes=3)
    assert scheduler.wants_restart(0)
    scheduler.open_cohort()
    context, obs, end = np.zeros(3), np.zeros(2), scheduler.cohort.end
    first, second = scheduler.begin(obs), scheduler.begin(obs)
    end(second, context, 0.0)
    third = scheduler.begin(obs)
    end(third, context, 0.0)
    # The cohort is full: what starts now is not among the first three.
    fourth = scheduler.begin(obs)
    end(fourth, context, 0.0)
    assert fourth == -1
    assert not scheduler.complete
    assert not scheduler.wants_restart(1), "a cohort is under way"
    end(first, context, 9.0)
    assert scheduler.complete
    scheduler.update(2, 200, no_critic)
    assert scheduler.rows["mean_value"] == [3.0]
    assert scheduler.rows["episodes"] == [3]
    assert scheduler.rows["discarded"] == [1]


def test_the_mean_value_is_not_biased_towards_short_episodes() -> None:
    """Failures end after 1 step, successes after 10; half of all episodes are successes."""
    rng = np.random.default_rng(1)
    copies, cohort_means, finished_means = 4, [], []
    for _ in range(1000):
        cohort = Cohort(6, 3)
        cohort.open()
        slots = np.full(copies, -1)
        left = np.zeros(copies, dtype=int)
        value = np.zeros(copies)
        finished: list[float] = []
        while not cohort.complete:
            for i in range(copies):
                if left[i] == 0:
                    slots[i] = cohort.begin()
                    value[i] = rng.random() < 0.5
                    left[i] = 10 if value[i] else 1
                left[i] -= 1
                if left[i] == 0:
                    cohort.end(int(slots[i]), np.zeros(3), value[i])
                    finished.append(value[i])
        cohort_means.append(cohort.columns["discounted_returns"].mean())
        finished_means.append(np.mean(finished[:6]))
    standard_error = np.std(cohort_means) / np.sqrt(len(cohort_means))
    assert abs(np.mean(cohort_means) - 0.5) < 4 * standard_error
    assert np.mean(finished_means) < 0.4, "the naive rule must show the bias that ours avoids"


def test_contexts_of_an_update_come_from_the_current_distribution() -> None:
    """Every context in a cohort was drawn after the last change of the distribution."""
    scheduler = make_scheduler(copies=5, curriculum="linear")
    seed = RunSeed(root=0, index=0)
    training_envs = TrainingEnvs(SETUP, [seed], [scheduler], 5)
    drawn: list[tuple[int, tuple[float, ...]]] = []
    original = scheduler.draw

    def draw(n: int) -> Any:
        contexts = original(n)
        drawn.extend((scheduler.curriculum.updates, tuple(c)) for c in contexts)
        return contexts

    scheduler.draw = draw  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    for iteration in range(3):
        assert scheduler.wants_restart(iteration)
        scheduler.open_cohort()
        training_envs.restart([0])
        while not scheduler.complete:
            training_envs.step(rng.uniform(-10, 10, (1, 5, 2)))
        current = {c for version, c in drawn if version == scheduler.curriculum.updates}
        assert {tuple(c) for c in scheduler.cohort.contexts} <= current
        scheduler.update(iteration + 1, 0, no_critic)
    assert scheduler.curriculum.updates == 3


def test_values_are_returns_discounted_with_the_setups_gamma() -> None:
    scheduler = make_scheduler(copies=3, min_episodes=3)
    training_envs = TrainingEnvs(SETUP, [RunSeed(root=0, index=1)], [scheduler], 3)
    scheduler.open_cohort()
    training_envs.restart([0])
    expected, discount = np.zeros(3), np.ones(3)
    open_ = np.ones(3, dtype=bool)
    rng = np.random.default_rng(2)
    while open_.any():
        step = training_envs.step(rng.uniform(-10, 10, (1, 3, 2)))
        expected += open_ * discount * step.reward[0]
        discount *= SETUP.gamma
        open_ &= ~(step.terminated[0] | step.truncated[0])
    np.testing.assert_allclose(scheduler.cohort.columns["discounted_returns"], expected, rtol=1e-12)


def test_the_critic_is_asked_at_the_first_observations() -> None:
    scheduler = make_scheduler(copies=2, min_episodes=2, value_signal="critic")
    scheduler.open_cohort()
    for i in range(2):
        scheduler.cohort.end(scheduler.begin(np.full(2, float(i + 1))), np.zeros(3), 0.0)
    scheduler.update(1, 1, lambda obs: 10.0 * obs[:, 0])
    assert scheduler.rows["mean_value"] == [15.0]


def test_critic_values_reach_the_curriculum_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    values = BatchedPPO.values

    def watched(self: BatchedPPO, agent: int, obs: Any) -> Any:
        asked.append((agent, obs.copy(), values(self, agent, obs)))
        return asked[-1][2]

    monkeypatch.setattr(BatchedPPO, "values", watched)
    cell = make_cell(schedule={"value_signal": "critic"}, budget=2000, steps=(2000,))
    results = train(cell, [RunSeed(root=0, index=i) for i in range(2)])
    for agent, result in enumerate(results):
        mine = [(obs, found) for who, obs, found in asked if who == agent]
        assert result.updates["mean_value"] == [found.mean() for _, found in mine]
        for obs, _ in mine:
            # All start at (0, 0, 3, 0); only the visible context tells them apart.
            np.testing.assert_array_equal(obs[:, :4], [[0.0, 0.0, 3.0, 0.0]] * len(obs))
            assert len(np.unique(obs[:, 4:], axis=0)) == len(obs)


def test_every_curriculum_restarts_alike() -> None:
    """The learner's data must differ through the contexts only, not through the restarts."""
    seeds = [RunSeed(root=0, index=0)]
    records = [
        train(make_cell(curriculum=name, budget=4000, steps=(4000,)), seeds)[0].updates
        for name in ("default", "initial", "linear", "spgl")
    ]
    for record in records:
        assert record["iteration"] == [1, 2, 3, 4]
