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
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ConfigDict

from pacebench import curricula
from pacebench.harness.overhead.findings import QualityFinding, StoredRecord
from pacebench.harness.overhead.instances import Instance

# A solver's own tolerances are no violation: a thousandth of the budget, or of the values' spread.
TOLERANCE = 1e-3

# Each problem's objective and budget, as `Answer` calls them.
PROBLEMS = {"forward": ("kl_forward", "kl_new_old"), "reverse": ("kl_reverse", "kl_old_new")}
# The label of the answer that changes nothing.
STAYING = "staying"


class Answer(StoredRecord):
    """What one method made of one instance."""

    # An answer may be infinitely far off.
    model_config = ConfigDict(ser_json_inf_nan="constants")

    accepted: bool = True  # False where the method rejected its own solution and stayed
    iterations: int = 0  # of its numerical solver
    kl_forward: float  # KL(ψ‖p')
    kl_reverse: float  # KL(p'‖ψ)
    kl_new_old: float  # KL(p'‖p) / ε, SPGL's trust region
    kl_old_new: float  # KL(p‖p') / ε, SPDL's trust region
    value: float  # the importance-weighted value minus V₋, in standard deviations of the values


def problem_of(name: str) -> str | None:
    """Returns which problem a curriculum sets out to solve, None for one without a budget ε."""
    capabilities = curricula.get(name).capabilities
    if not capabilities.has_budget:
        return None
    return "reverse" if capabilities.trust_region == "reverse" else "forward"


def judge(instance: Instance, record: curricula.UpdateRecord | None, new: Any) -> Answer:
    """Measures an answer by exact formulas, none of which is the method's own."""
    old, target = instance.current, instance.target
    if isinstance(new, curricula.Mixture):
        # The target has one component, and so has every answer.
        (new,) = new.components
    said = {} if record is None else {"accepted": record.accepted, "iterations": record.iterations}
    return Answer(
        **said,
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
    given = np.asarray(instance.values)
    with np.errstate(over="ignore"):
        weighted = float(np.mean(np.exp(logs) * given))
    return (weighted - instance.threshold) / (float(given.std()) or 1.0)


def judge_answers(answers: Mapping[str, Answer], problem: str) -> pd.DataFrame:
    """Judges the answers to one instance, that of staying among them, in one problem.

    Returns:
        One row per answer: `converging` where V₋ is reached at the start, the `budget` as a share
        of ε, `over` and `short` where a constraint is broken beyond tolerance, and the optimality
        `gap`: 0 is the best feasible answer, 1 is staying. An infeasible answer may have a negative
        gap, which is what breaking a constraint buys; one above 1 is worse than doing nothing.
        Where not even the best gets anywhere, there is no scale and gaps are NaN.
    """
    objective, budget = PROBLEMS[problem]
    table = pd.DataFrame([dict(answer) for answer in answers.values()], index=list(answers))
    converging = answers[STAYING].value >= 0.0
    score = table[objective] if converging else -table["value"]
    judged = table.assign(
        problem=problem,
        converging=converging,
        budget=table[budget],
        over=~(table[budget] <= 1.0 + TOLERANCE),
        short=converging & ~(table["value"] >= -TOLERANCE),
    )
    start = score[STAYING]
    # Staying is feasible itself, so there is always a best answer.
    best = min(score[~(judged["over"] | judged["short"])], default=start)
    room = start - best
    scale = room if room > 1e-9 * max(1.0, abs(start)) else math.nan
    return judged.assign(gap=(score - best) / scale)


def judge_all(cells: Mapping[str, Mapping[str, Sequence[Answer]]]) -> pd.DataFrame:
    """Returns every answer of every self-paced method, judged in its own problem.

    They come by cell and method, one per instance; the rows are those of `judge_answers` with the
    columns `cell` and `method`.
    """
    rows = [
        judge_answers(dict(zip(answers, found, strict=True)), problem).assign(cell=cell)
        for cell, answers in cells.items()
        for found in zip(*answers.values(), strict=True)
        for problem in PROBLEMS
    ]
    table = pd.concat(rows).rename_axis("method").reset_index()
    own = table["method"].map(lambda name: None if name == STAYING else problem_of(name))
    return table[table["problem"] == own]


def pool_quality(judged: pd.DataFrame) -> QualityFinding | None:
    """Returns the quality of one method over several instances; None where there are none."""
    if judged.empty:
        return None
    converging = judged[judged["converging"]]
    return QualityFinding(
        problem=judged["problem"].iloc[0],
        updates=len(judged),
        gap_median=judged["gap"].median(),
        gap_worst=judged["gap"].max(),
        budget_median=judged["budget"].median(),
        budget_worst=judged["budget"].max(),
        over_budget=judged["over"].sum(),
        short=judged["short"].sum(),
        infeasible=(judged["over"] | judged["short"]).sum(),
        converging=len(converging),
        value_worst=converging["value"].min(),
        rejected=(~judged["accepted"]).sum(),
        iterations=judged["iterations"].mean(),
    )
