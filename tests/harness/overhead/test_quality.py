"""A fast wrong answer is shown as wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pacebench import curricula
from pacebench.harness.overhead.cells import Instance, synthetic
from pacebench.harness.overhead.quality import PROBLEMS, judge, judge_all, pool_quality, problem_of

FORWARD, REVERSE = PROBLEMS


def solved(instance, name):
    curriculum = instance.make(name)
    record = curriculum.update(instance.contexts, instance.values)
    return judge(instance, curriculum.distribution, record)


def staying(instance):
    return judge(instance, instance.current)


def judge_answers(answers, problem):
    """The judgements of the answers to one instance in one problem, by method."""
    judged = judge_all({"cell": {name: (answer,) for name, answer in answers.items()}})
    return judged[judged["problem"] == problem].set_index("method")


def test_problems_are_told_from_capabilities():
    assert problem_of("spdl") == problem_of("spdl-sqp") == REVERSE
    assert problem_of("spgl") == problem_of("spgl-joint") == FORWARD
    assert problem_of("default") is None


def test_budget_breach_of_two_blocks_is_found():
    # In one dimension far from the target both blocks use their budgets in full, shrinking.
    target, current = curricula.Gaussian([10.0], [1.0]), curricula.Gaussian([0.0], [400.0])
    contexts = current.sample(200, np.random.default_rng(0))
    instance = Instance(target, current, contexts, np.full(200, 10.0), 1.0, 0.05)
    names = ("spgl", "spgl-shared")
    answers = {"staying": staying(instance)} | {name: solved(instance, name) for name in names}
    judged = judge_answers(answers, FORWARD)
    assert judged["over"].to_dict() == {"staying": False, "spgl": True, "spgl-shared": False}
    assert judged.loc["spgl", "budget"] > 1.4
    pooled = judge_all({"cell": {name: (a,) for name, a in answers.items()}})
    assert pool_quality(pooled, "spgl").over_budget == 1
    assert pool_quality(pooled, "spdl") is pool_quality(pooled, "default") is None


@pytest.mark.parametrize("index", [1, 2, 4])
def test_gaps_put_the_best_feasible_answer_at_zero_and_staying_at_one(index):
    instance = synthetic(2, 256, index, seed=11, epsilon=0.05)
    answers = {n: solved(instance, n) for n in ("spgl", "spgl-shared", "spgl-joint", "spdl-sqp")}
    answers["staying"] = staying(instance)
    for problem in PROBLEMS:
        judged = judge_answers(answers, problem)
        assert judged["gap"][~(judged["over"] | judged["short"])].min() == 0.0
        assert judged.loc["staying", "gap"] == 1.0
    # The exact joint solution cannot be beaten by a feasible answer of the same family.
    forward = judge_answers(answers, FORWARD).T
    if not (forward["spgl-shared"]["over"] or forward["spgl-shared"]["short"]):
        assert forward["spgl-joint"]["gap"] <= forward["spgl-shared"]["gap"] + 1e-3


def test_gaps_are_nan_where_nothing_can_be_gained():
    stay = staying(synthetic(2, 64, 1, seed=11, epsilon=0.05))
    assert judge_answers({"staying": stay, "b": stay}, FORWARD)["gap"].isna().all()


@pytest.mark.parametrize(
    ("margin", "start", "short"), [(-0.01, 0, 1), (-1e-4, 0, 0), (-0.01, -1, 0)]
)
def test_a_value_below_the_threshold_is_a_violation_of_convergence_steps_only(margin, start, short):
    stay = staying(synthetic(2, 64, 1, seed=11, epsilon=0.05))
    answers = {
        "staying": stay.model_copy(update={"value": start}),
        "spgl": stay.model_copy(update={"value": margin}),
    }
    judged = judge_answers(answers, FORWARD)
    assert judged.loc["spgl", "converging"] == (start == 0)
    assert judged.loc["spgl", "short"] == short


def test_weighted_value_agrees_with_densities_of_scipy():
    instance = synthetic(3, 64, 1, seed=11, epsilon=0.05)
    new = curricula.Gaussian(instance.current.mean + 0.1, instance.current.variance * 0.9)
    densities = [
        stats.multivariate_normal(p.mean, np.diag(p.variance)).pdf(instance.contexts)
        for p in (new, instance.current)
    ]
    expected = np.mean(densities[0] / densities[1] * instance.values) - instance.threshold
    assert judge(instance, new).value == pytest.approx(expected / instance.values.std())


def test_staying_keeps_all_constraints():
    instance = synthetic(2, 64, 1, seed=11, epsilon=0.05)
    judged = judge_answers({"staying": staying(instance)}, FORWARD)
    assert not judged["over"].any()
    assert not judged["short"].any()
    assert staying(instance).value == pytest.approx(
        (instance.values.mean() - instance.threshold) / instance.values.std()
    )
