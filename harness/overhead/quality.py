"""How good an update is: exact divergences, value and constraint violations, and gaps.

Two problems are posed on every instance, and every method's answer is a candidate for both:

    reverse  (SPDL)   min KL(p'‖ψ)   s.t. KL(p‖p') ≤ ε and the importance-weighted value ≥ V₋
    forward  (SPGL)   min KL(ψ‖p')   s.t. KL(p'‖p) ≤ ε and the importance-weighted value ≥ V₋

Below the threshold both maximise the importance-weighted value under their budget. A method is
judged in the problem it sets out to solve, against the best feasible answer of any method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacebench import curricula
from pacebench.harness.overhead.findings import QualityFinding, StoredRecord
from pacebench.harness.overhead.instances import Instance

# A solver's own tolerances are no violation: a thousandth of the budget, or of the values' spread.
TOLERANCE = 1e-3

FORWARD, REVERSE = "forward", "reverse"
# The label of the answer that changes nothing.
STAYING = "staying"


class Answer(StoredRecord):
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

    step: str = "hold"
    case: str = STAYING
    accepted: bool = True
    iterations: int = 0
    kl_forward: float
    kl_reverse: float
    kl_new_old: float
    kl_old_new: float
    value: float


def problem_of(name: str) -> str | None:
    """Returns which problem a curriculum sets out to solve, None for the controls."""
    capabilities = curricula.get(name).capabilities
    if not capabilities.self_paced:
        return None
    return REVERSE if capabilities.trust_region == "reverse" else FORWARD


def judge(instance: Instance, record: curricula.UpdateRecord | None, new: Any) -> Answer:
    """Measures an answer by exact formulas, none of which is the method's own."""
    old, target = instance.current, instance.target
    said = ("step", "case", "accepted", "iterations") if record is not None else ()
    return Answer(
        **{name: getattr(record, name) for name in said},
        kl_forward=target.kl(new),
        kl_reverse=new.kl(target),
        kl_new_old=new.kl(old) / instance.epsilon,
        kl_old_new=old.kl(new) / instance.epsilon,
        value=weighted_margin(instance, new),
    )


def staying(instance: Instance) -> Answer:
    """Returns the answer that changes nothing, against which progress is counted."""
    return judge(instance, None, instance.current)


def weighted_margin(instance: Instance, new: Any) -> float:
    """Returns (mean of w V) − V₋ in standard deviations of V, with w = p'(c)/p(c)."""
    logs = new.log_prob(instance.contexts) - instance.current.log_prob(instance.contexts)
    with np.errstate(over="ignore"):
        weighted = float(np.mean(np.exp(logs) * instance.values))
    return (weighted - instance.threshold) / (float(instance.values.std()) or 1.0)


def objective(answer: Answer, problem: str, *, converging: bool) -> float:
    """Returns what the problem minimises."""
    if not converging:
        return -answer.value
    return answer.kl_forward if problem == FORWARD else answer.kl_reverse


def budget(answer: Answer, problem: str) -> float:
    """Returns the share of ε that the answer used; above 1 it broke the trust region."""
    return answer.kl_new_old if problem == FORWARD else answer.kl_old_new


def over_budget(answer: Answer, problem: str) -> bool:
    """Says whether the trust region is broken beyond tolerance."""
    return not budget(answer, problem) <= 1.0 + TOLERANCE


def short_of_value(answer: Answer, *, converging: bool) -> bool:
    """Says whether a convergence step loses more value than allowed, beyond tolerance."""
    return converging and not answer.value >= -TOLERANCE


def feasible(answer: Answer, problem: str, *, converging: bool) -> bool:
    """Says whether the answer satisfies the problem's constraints."""
    return not (over_budget(answer, problem) or short_of_value(answer, converging=converging))


def gaps(
    answers: Mapping[str, Answer], stay: Answer, problem: str, *, converging: bool
) -> dict[str, float]:
    """Returns each answer's optimality gap: 0 is the best feasible one found, 1 is staying.

    An infeasible answer may have a negative gap, which is what breaking a constraint buys; one
    above 1 is worse than doing nothing. Where not even the best gets anywhere, there is no scale
    and the gaps are NaN.
    """
    scores = {n: objective(a, problem, converging=converging) for n, a in answers.items()}
    start = objective(stay, problem, converging=converging)
    reached = [scores[n] for n, a in answers.items() if feasible(a, problem, converging=converging)]
    best = min(reached, default=start)
    room = start - best
    if not room > 1e-9 * max(1.0, abs(start)):
        return dict.fromkeys(answers, math.nan)
    return {label: (score - best) / room for label, score in scores.items()}


@dataclass(frozen=True)
class JudgedAnswer:
    """One method's answer to one instance, judged in the problem that it sets out to solve."""

    method: str
    answer: Answer
    problem: str
    converging: bool
    gap: float


def judge_answers(answers: Mapping[str, Answer]) -> list[JudgedAnswer]:
    """Compares the answers to one instance, that of staying among them."""
    stay = answers[STAYING]
    converging = stay.value >= 0.0
    methods = {name: answer for name, answer in answers.items() if name != STAYING}
    scores = {p: gaps(methods, stay, p, converging=converging) for p in (FORWARD, REVERSE)}
    return [
        JudgedAnswer(name, answer, problem, converging, scores[problem][name])
        for name, answer in methods.items()
        if (problem := problem_of(name)) is not None
    ]


def pool_quality(judged: Sequence[JudgedAnswer]) -> QualityFinding:
    """Returns the quality of one method over several instances."""
    scored = [j.gap for j in judged if math.isfinite(j.gap)]
    budgets = [budget(j.answer, j.problem) for j in judged]
    over = [over_budget(j.answer, j.problem) for j in judged]
    short = [short_of_value(j.answer, converging=j.converging) for j in judged]
    return QualityFinding(
        problem=judged[0].problem,
        updates=len(judged),
        scored=len(scored),
        gap_median=float(np.median(scored)) if scored else math.nan,
        gap_worst=max(scored, default=math.nan),
        budget_median=float(np.median(budgets)),
        budget_worst=max(budgets),
        over_budget=sum(over),
        short=sum(short),
        infeasible=sum(a or b for a, b in zip(over, short, strict=True)),
        converging=sum(j.converging for j in judged),
        value_worst=min((j.answer.value for j in judged if j.converging), default=math.nan),
        rejected=sum(not j.answer.accepted for j in judged),
        iterations=float(np.mean([j.answer.iterations for j in judged])),
    )
