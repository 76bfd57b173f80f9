"""The evaluation: who is asked what, and that nobody's training notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacebench import envs
from pacebench.harness.records import EVALUATION_COLUMNS, RunResult
from pacebench.harness.runner.playing import Player
from pacebench.harness.seeding import RunSeed, StudyRole, study_sequence
from pacebench.harness.study.models import Evaluation
from pacebench.harness.study.specs import Cell, EvaluationCell
from pacebench.harness.training import train
from pacebench.harness.training.evaluation import (
    SIDE_CONTEXTS,
    Evaluator,
    evaluation_digest,
    held_out_contexts,
)
from tests.harness.training.cells import curriculum_of, make_cell

SETUP = envs.setup("point-mass-2")


def evaluation(contexts: int = 30, root: int = 3) -> EvaluationCell:
    return EvaluationCell(steps=(100,), contexts=contexts, root=root)


@pytest.fixture(scope="module")
def result() -> RunResult:
    cell = make_cell(budget=3000, steps=(1000, 3000), contexts=30)
    return train(cell, [RunSeed(root=1, index=0)])[0]


def test_contexts_depend_on_setup_root_and_number_alone() -> None:
    one = held_out_contexts(SETUP, evaluation())
    np.testing.assert_array_equal(one, held_out_contexts(SETUP, evaluation()))
    np.testing.assert_array_equal(one[:10], held_out_contexts(SETUP, evaluation(10)))
    assert not np.array_equal(one, held_out_contexts(SETUP, evaluation(root=4)))
    initial = held_out_contexts(SETUP, evaluation(), "initial")
    assert len(initial) == SIDE_CONTEXTS
    # Drawn from the distribution they are said to be from.
    many = held_out_contexts(SETUP, evaluation(4000))
    np.testing.assert_allclose(many.mean(axis=0), SETUP.target_mean, atol=0.08)
    np.testing.assert_allclose(many.var(axis=0), SETUP.target_variance, rtol=0.1)


def test_every_context_is_played_exactly_once(result: RunResult) -> None:
    found = result.evaluations
    assert list(found) == list(EVALUATION_COLUMNS)
    assert keys_of(found) == [
        *keys(1000, ("target", "deterministic", 30)),
        *keys(3000, *everything(30)),
    ]
    assert min(found["length"]) >= 1
    assert max(found["length"]) == SETUP.horizon


def keys_of(columns: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    names = ("step", "distribution", "policy", "context")
    return list(zip(*(columns[name] for name in names), strict=True))


def keys(step: int, *blocks: tuple[str, str, int]) -> list[tuple[Any, ...]]:
    return [(step, name, policy, i) for name, policy, n in blocks for i in range(n)]


def everything(n: int) -> tuple[tuple[str, str, int], ...]:
    return (
        ("target", "deterministic", n),
        ("target", "stochastic", n),
        ("initial", "deterministic", min(n, SIDE_CONTEXTS)),
        ("current", "deterministic", min(n, SIDE_CONTEXTS)),
    )


def test_a_study_may_have_everything_at_every_point_or_fewer_contexts_before_the_last(
    result: RunResult,
) -> None:
    cell = make_cell(budget=3000, steps=(1000, 3000), contexts=30)
    asked = {"detail": "full", "curve_contexts": 7}
    chosen = cell.evaluation.model_copy(update=asked)
    full = train(cell.model_copy(update={"evaluation": chosen}), [result.seed])[0].evaluations
    assert keys_of(full) == [
        *keys(1000, ("target", "deterministic", 7), ("target", "stochastic", 7)),
        *keys(1000, *everything(30)[2:]),
        *keys(3000, ("target", "deterministic", 30), ("target", "stochastic", 7)),
        *keys(3000, *everything(30)[2:]),
    ]
    # What both play comes out the same, to the bit.
    usual = dict(zip(keys_of(result.evaluations), result.evaluations["return"], strict=True))
    both = dict(zip(keys_of(full), full["return"], strict=True))
    shared = usual.keys() & both.keys()
    assert len(shared) == 7 + 30 + 7 + 40
    assert all(usual[key] == both[key] for key in shared)


def test_the_usual_evaluation_leaves_digests_as_they_were() -> None:
    """Studies and cells from before there was a choice keep their ids, and may be read."""
    cell = make_cell()
    old = {"steps": [2000, 4000], "contexts": 12, "root": 3}
    assert cell.evaluation.model_dump(mode="json") == old
    assert EvaluationCell.model_validate(old) == cell.evaluation
    for change in ({"detail": "full"}, {"curve_contexts": 5}):
        changed = Cell.model_validate(
            {**cell.model_dump(), "evaluation": {**cell.evaluation.model_dump(), **change}}
        )
        assert changed.digest != cell.digest
    with pytest.raises(ValueError, match="curve_contexts must not exceed contexts; lower it"):
        Evaluation(contexts=10, curve_contexts=11)


@pytest.mark.parametrize("index", [0, 7, 29])
def test_a_recorded_episode_can_be_replayed_from_the_final_policy(
    result: RunResult, index: int
) -> None:
    """The record, the stored policy and the single environment tell the same story."""
    cell = make_cell(budget=3000, steps=(1000, 3000), contexts=30)
    player = Player(cell, result.seed, result.policy)
    env = envs.make("point-mass-2")
    context = held_out_contexts(SETUP, cell.evaluation)[index]
    seed = study_sequence(cell.evaluation.root, StudyRole.EPISODES, 2, index)
    obs, _ = env.reset(seed=seed, options={"context": context})
    total, length, over = 0.0, 0, False
    while not over:
        obs, reward, terminated, truncated, info = env.step(player(obs[None])[0])
        total, length, over = total + reward, length + 1, terminated or truncated
    found = result.evaluations
    kinds = list(zip(found["step"], found["distribution"], found["policy"], strict=True))
    row = kinds.index((3000, "target", "deterministic")) + index
    assert found["length"][row] == length
    assert found["success"][row] == info["success"]
    # Single and stacked products round differently.
    assert found["return"][row] == pytest.approx(total, rel=1e-3)


def test_all_methods_and_seeds_face_the_same_episode_seed() -> None:
    """A policy that ignores everything returns the same for every seed and curriculum."""

    class Fixed:
        count = 2

        def act(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
            return np.broadcast_to([0.0, -3.0], (*obs.shape[:2], 2)) + 0.0

    columns = []
    for name, roots in (("initial", (1, 2)), ("default", (8, 9))):
        seeds = [RunSeed(root=r, index=0) for r in roots]
        evaluator = Evaluator(SETUP, evaluation(), seeds)
        current = [curriculum_of(name, SETUP) for _ in seeds]
        found = evaluator.evaluate(Fixed(), current, 0, 100, [0, 1])  # type: ignore[arg-type]
        columns += [found.columns[0], found.columns[1]]
    stop = next(i for i, d in enumerate(columns[0]["distribution"]) if d == "current")
    for column in columns[1:]:
        assert column["return"][:stop] == columns[0]["return"][:stop]
    # The current distribution is each curriculum's own.
    assert columns[0]["return"][stop:] != columns[2]["return"][stop:]


def test_deterministic_episodes_do_not_depend_on_the_point_of_the_grid(result: RunResult) -> None:
    """Stochastic noise is drawn anew for each point; contexts and episode seeds are not."""
    seeds = [result.seed]
    cell = make_cell(budget=3000, steps=(1000, 3000), contexts=30)
    batch = envs.make_batch(SETUP, 1, 0)
    from pacebench.harness import learners

    agents = learners.get("ppo").build(
        cell.learner.params, batch.observation_space, batch.action_space, seeds
    )
    agents.load_policy(0, result.policy)
    evaluator = Evaluator(SETUP, cell.evaluation, seeds)
    current = [curriculum_of("initial", SETUP)]
    one, other = (
        evaluator.evaluate(agents, current, p, 0, [0]).columns[0]["return"] for p in (0, 1)
    )
    assert one[:30] == other[:30]
    assert one[30:60] != other[30:60]
    assert one[60:80] == other[60:80]


class Wandering:
    """Two agents that act on noise and observation, so that episodes end at different times."""

    count = 2

    def act(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        width = noise.shape[-1]
        drift = np.array([1.0, 0.3])[:, None, None] * obs[..., :width]
        return np.clip(5.0 * (noise + drift), -10.0, 10.0)


@pytest.mark.parametrize("name", ["point-mass-2", "ball-catching", "lunar-lander"])
def test_leaving_the_batch_and_the_size_of_slices_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = envs.setup(name)
    seeds = [RunSeed(root=0, index=i) for i in range(2)]
    evaluator = Evaluator(setup, evaluation(9), seeds)
    current = [curriculum_of("initial", setup) for _ in seeds]
    found, sizes, copies = [], [], []
    step, make = envs.BatchEnv.step, envs.make_batch

    def counted_step(self: envs.BatchEnv, actions: np.ndarray) -> Any:
        sizes[-1].append(self.num_envs)
        return step(self, actions)

    def counted_make(setup: envs.Setup, n: int, seeds: Any) -> envs.BatchEnv:
        copies[-1].append(n)
        return make(setup, n, seeds)

    monkeypatch.setattr(envs.BatchEnv, "step", counted_step)
    monkeypatch.setattr(envs, "make_batch", counted_make)
    for bound, leaving in ((1024, True), (1024, False), (6, True), (1, True)):
        sizes.append([])
        copies.append([])
        with monkeypatch.context() as patch:
            patch.setattr("pacebench.harness.training.evaluation.MAX_COPIES", bound)
            if not leaving:
                patch.setattr(envs.environment(name), "_keep_copies", lambda self, indices: False)
            found.append(evaluator.evaluate(Wandering(), current, 0, 0, [0, 1]))  # type: ignore[arg-type]
    assert all(other == found[0] for other in found[1:])
    lengths = found[0].columns[0]["length"]
    assert len(set(lengths)) > 3, "episodes must end at different times"
    # Those that are done do leave; and no more copies exist at once than the bound, or one a seed.
    assert min(sizes[0]) <= 0.75 * sizes[0][0]
    assert set(sizes[1]) == {72}
    assert copies == [[72], [72], [6] * 12, [2] * 36]


@pytest.mark.parametrize("changed", ["setup", "contexts", "root"])
def test_the_digest_covers_contexts_and_episode_seed(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = evaluation()
    before = evaluation_digest(SETUP, cell)
    assert evaluation_digest(SETUP, cell.model_copy(update={"steps": (1,)})) == before
    if changed == "setup":
        # The initial distribution is the same: the digest sees the target alone change.
        assert evaluation_digest(envs.setup("point-mass-1"), cell) != before
    else:
        other = cell.model_copy(update={changed: getattr(cell, changed) + 1})
        assert evaluation_digest(SETUP, other) != before
    monkeypatch.setattr("pacebench.harness.training.evaluation._EPISODES", 7)
    assert evaluation_digest(SETUP, cell) != before
