"""How good an update is: exact divergences, value and constraint violations, and gaps.

Two problems are posed on every instance, and every method's answer is a candidate for both:

    reverse  (SPDL)   min KL(p'‖ψ)   s.t. KL(p‖p') ≤ ε and the importance-weighted value ≥ V₋
    forward  (SPGL)   min KL(ψ‖p')   s.t. KL(p'‖p) ≤ ε and the importance-weighted value ≥ V₋

Below the threshold both maximise the importance-weighted value under their budget. A method is
judged in the problem it sets out to solve, against the best feasible answer of any method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pacebench import curricula
from pacebench.harness.overhead.cells import Answer, Instance
from pacebench.harness.overhead.findings import QualityFinding

if TYPE_CHECKING:
    import pandas as pd

# A solver's own tolerances are no violation: a thousandth of the budget, or of the values' spread.
TOLERANCE = 1e-3

# Each problem's objective and budget, as `Answer` calls them.
PROBLEMS = {"forward": ("kl_forward", "kl_new_old"), "reverse": ("kl_reverse", "kl_old_new")}
# The label of the answer that changes nothing.
STAYING = "staying"


def problem_of(name: str) -> str | None:
    """Returns which problem a curriculum sets out to solve, None for one without a budget ε."""
    capabilities = curricula.get(name).capabilities
    if not capabilities.has_budget:
        return None
    return "reverse" if capabilities.trust_region == "reverse" else "forward"


def judge(instance: Instance, new: Any, record: curricula.UpdateRecord | None = None) -> Answer:
    """Measures an answer by exact formulas, none of which is the method's own."""
    old, target = instance.current, instance.target
    if isinstance(new, curricula.Mixture):
        # The target has one component, and so has every answer.
        (new,) = new.components
    given = np.asarray(instance.values)
    with np.errstate(over="ignore"):
        weights = np.exp(new.log_prob(instance.contexts) - old.log_prob(instance.contexts))
        margin = np.mean(weights * given) - instance.threshold
    said = {} if record is None else {"accepted": record.accepted, "iterations": record.iterations}
    return Answer(
        **said,
        kl_forward=target.kl(new),
        kl_reverse=new.kl(target),
        kl_new_old=new.kl(old) / instance.epsilon,
        kl_old_new=old.kl(new) / instance.epsilon,
        value=margin / (given.std() or 1.0),
    )


def judge_all(cells: Mapping[str, Mapping[str, Sequence[Answer]]]) -> pd.DataFrame:
    """Judges the answers by cell and method, one per instance and staying among them.

    Returns:
        One row per answer and problem: `converging` where V₋ is reached at the start, the `budget`
        as a share of ε, `over` and `short` where a constraint is broken beyond tolerance, and the
        optimality `gap`: 0 is the best feasible answer, 1 is staying, negative what breaking a
        constraint buys. Where not even the best gets anywhere, there is no scale and gaps are NaN.
    """
    # Not above: the processes that measure have no use for it, and there is one for each block.
    import pandas as pd

    answers = pd.DataFrame(
        {"cell": cell, "instance": i, "method": method, **dict(answer)}
        for cell, methods in cells.items()
        for method, found in methods.items()
        for i, answer in enumerate(found)
    )
    table = pd.concat(
        answers.assign(problem=problem, objective=answers[objective], budget=answers[budget])
        for problem, (objective, budget) in PROBLEMS.items()
    )
    where = ["cell", "instance", "problem"]
    stay = table[table["method"] == STAYING].set_index(where)[["objective", "value"]]
    table = table.join(stay, on=where, rsuffix="_staying").reset_index(drop=True)
    converging = table["value_staying"] >= 0.0
    score = table["objective"].where(converging, -table["value"])
    start = table["objective_staying"].where(converging, -table["value_staying"])
    over = ~(table["budget"] <= 1.0 + TOLERANCE)
    short = converging & ~(table["value"] >= -TOLERANCE)
    # Staying is feasible itself, so there is always a best answer.
    best = table.assign(score=score.mask(over | short)).groupby(where)["score"].transform("min")
    room = (start - best).where(lambda room: room > 1e-9 * start.abs().clip(lower=1.0))
    return table.assign(converging=converging, over=over, short=short, gap=(score - best) / room)


def pool_quality(judged: pd.DataFrame, method: str) -> QualityFinding | None:
    """Returns the quality of a method's answers in its own problem; None where there are none."""
    problem = problem_of(method)
    mine = judged[(judged["method"] == method) & (judged["problem"] == problem)]
    if problem is None or mine.empty:
        return None
    converging = mine[mine["converging"]]
    return QualityFinding(
        problem=problem,
        updates=len(mine),
        gap_median=mine["gap"].median(),
        gap_worst=mine["gap"].max(),
        budget_median=mine["budget"].median(),
        budget_worst=mine["budget"].max(),
        over_budget=mine["over"].sum(),
        short=mine["short"].sum(),
        infeasible=(mine["over"] | mine["short"]).sum(),
        converging=len(converging),
        value_worst=converging["value"].min(),
        rejected=(~mine["accepted"]).sum(),
        iterations=mine["iterations"].mean(),
    )
