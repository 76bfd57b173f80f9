"""A fast wrong answer is shown as wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pacebench import curricula
from pacebench.harness.overhead.instances import Instance, synthetic
from pacebench.harness.overhead.quality import (
    FORWARD,
    REVERSE,
    feasible,
    gaps,
    judge,
    over_budget,
    problem_of,
    short_of_value,
    staying,
    weighted_margin,
)


def solved(instance, name):
    curriculum = instance.make(name)
    record = curriculum.update(instance.contexts, instance.values)
    return judge(instance, record, curriculum.distribution)


def test_problems_are_told_from_capabilities():
    assert problem_of("spdl") == problem_of("spdl-sqp") == REVERSE
    assert problem_of("spgl") == problem_of("spgl-joint") == FORWARD
    assert problem_of("default") is None


def test_budget_breach_of_two_blocks_is_found():
    # In one dimension far from the target both blocks use their budgets in full, shrinking.
    target, current = curricula.Gaussian([10.0], [1.0]), curricula.Gaussian([0.0], [400.0])
    contexts = current.sample(200, np.random.default_rng(0))
    instance = Instance(target, current, contexts, np.full(200, 10.0), 1.0, 0.05)
    per_block, shared = solved(instance, "spgl"), solved(instance, "spgl-shared")
    assert over_budget(per_block, FORWARD)
    assert per_block.kl_new_old > 1.4
    assert not over_budget(shared, FORWARD)


@pytest.mark.parametrize("index", [1, 2, 4])
def test_gaps_put_the_best_feasible_answer_at_zero_and_staying_at_one(index):
    instance = synthetic(2, 256, index, seed=11, epsilon=0.05)
    answers = {n: solved(instance, n) for n in ("spgl", "spgl-shared", "spgl-joint", "spdl-sqp")}
    stay = staying(instance)
    answers["lazy"] = stay
    converging = stay.value >= 0
    for problem in (FORWARD, REVERSE):
        found = gaps(answers, stay, problem, converging=converging)
        allowed = [
            found[n] for n, a in answers.items() if feasible(a, problem, converging=converging)
        ]
        assert min(allowed) == 0.0
        assert found["lazy"] == 1.0
    # The exact joint solution cannot be beaten by a feasible answer of the same family.
    best = gaps(answers, stay, FORWARD, converging=converging)
    if feasible(answers["spgl-shared"], FORWARD, converging=converging):
        assert best["spgl-joint"] <= best["spgl-shared"] + 1e-3


def test_gaps_are_nan_where_nothing_can_be_gained():
    instance = synthetic(2, 64, 1, seed=11, epsilon=0.05)
    stay = staying(instance)
    found = gaps({"a": stay, "b": stay}, stay, FORWARD, converging=True)
    assert all(math.isnan(gap) for gap in found.values())


def test_a_value_below_the_threshold_is_a_violation_of_convergence_steps_only():
    instance = synthetic(2, 64, 1, seed=11, epsilon=0.05)
    answer = staying(instance).model_copy(update={"value": -0.01})
    assert short_of_value(answer, converging=True)
    assert not short_of_value(answer, converging=False)
    assert not short_of_value(answer.model_copy(update={"value": -1e-4}), converging=True)


def test_weighted_value_agrees_with_densities_of_scipy():
    instance = synthetic(3, 64, 1, seed=11, epsilon=0.05)
    new = curricula.Gaussian(instance.current.mean + 0.1, instance.current.variance * 0.9)
    densities = [
        stats.multivariate_normal(p.mean, np.diag(p.variance)).pdf(instance.contexts)
        for p in (new, instance.current)
    ]
    expected = np.mean(densities[0] / densities[1] * instance.values) - instance.threshold
    assert weighted_margin(instance, new) == pytest.approx(expected / instance.values.std())


def test_staying_keeps_all_constraints():
    instance = synthetic(2, 64, 1, seed=11, epsilon=0.05)
    assert feasible(staying(instance), FORWARD, converging=True)
    assert staying(instance).value == pytest.approx(
        (instance.values.mean() - instance.threshold) / instance.values.std()
    )
