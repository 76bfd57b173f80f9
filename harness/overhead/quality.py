"""How good an update is: exact divergences, value and constraint violations, and gaps.

Two problems are posed on every instance, and every method's answer is a candidate for both:

    reverse  (SPDL)   min KL(p'‖ψ)   s.t. KL(p‖p') ≤ ε and the importance-weighted value ≥ V₋
    forward  (SPGL)   min KL(ψ‖p')   s.t. KL(p'‖p) ≤ ε and the importance-weighted value ≥ V₋

Below the threshold both maximise the importance-weighted value under their budget. A method is
judged in the problem it sets out to solve, against the best feasible answer of any method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pacebench import curricula
from pacebench.harness.overhead.instances import Instance

# A solver's own tolerances are no violation: a thousandth of the budget, or of the values' spread.
TOLERANCE = 1e-3

Problem = str
FORWARD: Problem = "forward"
REVERSE: Problem = "reverse"


@dataclass(frozen=True)
class Answer:
    """What one method made of one instance.

    Attributes:
        step: The kind of step it says it took.
        case: The case of that step.
        accepted: False where the method rejected its own solution and stayed.
        iterations: Of its numerical solver.
        kl_forward: KL(ψ‖p').
        kl_reverse: KL(p'‖ψ).
        kl_new_old: KL(p'‖p) / ε, SPGL's trust region.
        kl_old_new: KL(p‖p') / ε, SPDL's trust region.
        value: The importance-weighted value minus V₋, in standard deviations of the values.
    """

    step: str
    case: str
    accepted: bool
    iterations: int
    kl_forward: float
    kl_reverse: float
    kl_new_old: float
    kl_old_new: float
    value: float

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def problem_of(name: str) -> Problem | None:
    """Returns which problem a curriculum sets out to solve, None for the controls."""
    capabilities = curricula.get(name).capabilities
    if not capabilities.self_paced:
        return None
    return REVERSE if capabilities.trust_region == "reverse" else FORWARD


def judge(instance: Instance, record: curricula.UpdateRecord, new: Any) -> Answer:
    """Measures an answer by exact formulas, none of which is the method's own."""
    old, target = instance.current, instance.target
    return Answer(
        step=record.step,
        case=record.case,
        accepted=record.accepted,
        iterations=record.iterations,
        kl_forward=target.kl(new),
        kl_reverse=new.kl(target),
        kl_new_old=new.kl(old) / instance.epsilon,
        kl_old_new=old.kl(new) / instance.epsilon,
        value=weighted_margin(instance, new),
    )


def staying(instance: Instance) -> Answer:
    """Returns the answer that changes nothing, against which progress is counted."""
    old, target = instance.current, instance.target
    margin = instance.slack / _spread(instance)
    forward, reverse = target.kl(old), old.kl(target)
    return Answer("hold", "staying", True, 0, forward, reverse, 0.0, 0.0, margin)


def weighted_margin(instance: Instance, new: Any) -> float:
    """Returns (mean of w V) − V₋ in standard deviations of V, with w = p'(c)/p(c)."""
    logs = new.log_prob(instance.contexts) - instance.current.log_prob(instance.contexts)
    with np.errstate(over="ignore"):
        weighted = float(np.mean(np.exp(logs) * instance.values))
    return (weighted - instance.threshold) / _spread(instance)


def objective(answer: Answer, problem: Problem, *, converging: bool) -> float:
    """Returns what the problem minimises."""
    if not converging:
        return -answer.value
    return answer.kl_forward if problem == FORWARD else answer.kl_reverse


def budget(answer: Answer, problem: Problem) -> float:
    """Returns the share of ε that the answer used; above 1 it broke the trust region."""
    return answer.kl_new_old if problem == FORWARD else answer.kl_old_new


def over_budget(answer: Answer, problem: Problem) -> bool:
    """Says whether the trust region is broken beyond tolerance."""
    return not budget(answer, problem) <= 1.0 + TOLERANCE


def short_of_value(answer: Answer, *, converging: bool) -> bool:
    """Says whether a convergence step loses more value than allowed, beyond tolerance."""
    return converging and not answer.value >= -TOLERANCE


def feasible(answer: Answer, problem: Problem, *, converging: bool) -> bool:
    """Says whether the answer satisfies the problem's constraints."""
    return not (over_budget(answer, problem) or short_of_value(answer, converging=converging))


def gaps(
    answers: Mapping[str, Answer], stay: Answer, problem: Problem, *, converging: bool
) -> dict[str, float]:
    """Returns each answer's optimality gap: 0 is the best feasible one found, 1 is staying.

    An infeasible answer may have a negative gap, which is what breaking a constraint buys; one
    above 1 is worse than doing nothing. Where not even the best gets anywhere, there is no scale
    and the gaps are NaN.
    """
    scores = {
        label: objective(answer, problem, converging=converging)
        for label, answer in answers.items()
    }
    start = objective(stay, problem, converging=converging)
    reached = [
        scores[label]
        for label, answer in answers.items()
        if feasible(answer, problem, converging=converging)
    ]
    best = min(reached, default=start)
    room = start - best
    if not room > 1e-9 * max(1.0, abs(start)):
        return dict.fromkeys(answers, math.nan)
    return {label: (score - best) / room for label, score in scores.items()}


def _spread(instance: Instance) -> float:
    return float(instance.values.std()) or 1.0
