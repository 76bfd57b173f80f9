"""How many runs are needed, and what a study as specified can detect.

With a pilot the wanted number is found by simulating the analysis that will be made (`rehearsal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import welch
from pacebench.harness.statistics.rehearsal import Design, simulate_equivalence, simulate_power
from pacebench.harness.statistics.scores import Scores, on_common_seeds, require_replication

RECOMMENDED = 20


def minimum_detectable_effect(
    error: float, df: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Returns the difference that a t test with this standard error detects with that power."""
    if error <= 0:
        raise UserError("Without spread between runs no minimum detectable effect can be given.")
    critical = stats.t.isf(alpha / 2, df)
    # The noncentral t as a mean over the estimated spread: scipy's own returns NaN in places.
    middles = (np.arange(4_000) + 0.5) / 4_000
    thresholds = critical * np.sqrt(stats.chi2.ppf(middles, df) / df)

    def shortfall(ratio: float) -> float:
        reach = stats.norm.sf(thresholds - ratio) + stats.norm.cdf(-thresholds - ratio)
        return float(np.mean(reach)) - power

    high = critical + stats.t.ppf(power, df) + 1.0
    while shortfall(high) < 0:
        high *= 1.5
    return float(error * optimize.brentq(shortfall, 0.0, high, xtol=1e-6))


def runs_needed(
    error: float,
    df: float,
    runs: int,
    effect: float,
    alpha: float = 0.05,
    power: float = 0.8,
    limit: int = 10_000,
) -> int | None:
    """Returns the runs per cell that would detect an effect at the spread seen; None beyond limit.

    Args:
        error: Standard error of the difference with `runs` runs per cell.
        df: Its degrees of freedom.
        runs: Runs per cell that were seen, at least 2.
        effect: The difference to detect.
        alpha: Two-sided level.
        power: Wanted power.
        limit: The largest answer.
    """

    def enough(count: int) -> bool:
        there = error * math.sqrt(runs / count)
        return (
            minimum_detectable_effect(there, df * (count - 1) / (runs - 1), alpha, power) <= effect
        )

    if not enough(limit):
        return None
    low, high = 1, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class SampleSizePlan:
    """What the pilot says about the study.

    Attributes:
        effect: The difference to be found.
        power: Wanted power.
        comparisons: Size of the family.
        runs: Runs per cell that reach the power at the pilot's spread; None if beyond `limit`.
        runs_cautious: The same if the true spread is at the pilot's upper 80 % limit.
        planned: Runs per cell as the study stands.
        power_planned: Power with `planned` runs.
        runs_equivalence: Runs per cell that show equal methods to be equivalent within the effect
            with the wanted power; None if beyond `limit`.
        equivalence_planned: With what probability `planned` runs do.
        detectable: Minimum detectable effect with `planned` runs.
        limit: The largest number of runs that was tried.
        pilot_runs: Runs per cell in the pilot.
    """

    effect: float
    power: float
    comparisons: int
    runs: int | None
    runs_cautious: int | None
    planned: int
    power_planned: float
    runs_equivalence: int | None
    equivalence_planned: float
    detectable: float
    limit: int
    pilot_runs: int

    def sentences(self) -> tuple[str, ...]:
        """Returns what `plan` prints."""

        def needed(runs: int | None) -> str:
            return f"{runs} runs" if runs is not None else f"more than {self.limit} runs"

        return (
            f"To find a difference of {self.effect:g} with {self.power:.0%} power in a family of "
            f"{self.comparisons} comparison{'s' if self.comparisons > 1 else ''}: "
            f"{needed(self.runs)} per cell at the pilot's spread, {needed(self.runs_cautious)} if "
            f"the spread is as large as {self.pilot_runs} pilot runs still allow (80 % limit).",
            f"With the {self.planned} runs planned the power is {self.power_planned:.0%} and the "
            f"minimum detectable effect {self.detectable:g}.",
            f"If the methods are in truth equal, they are found equivalent within that difference "
            f"with a probability of {self.equivalence_planned:.0%}; {self.power:.0%} take "
            f"{needed(self.runs_equivalence)}.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def plan(
    pilot: Mapping[str, Scores],
    design: Design,
    planned: int,
    rng: np.random.Generator,
    *,
    power: float = 0.8,
    simulations: int = 2_000,
    limit: int = 200,
) -> SampleSizePlan:
    """Finds the runs per cell that a study needs, and what it can detect as it stands.

    Raises:
        UserError: If the pilot lacks a compared method, has one run per task or no seeds in common
            where pairs are declared, or the effect is not positive.
    """
    family, effect = design.family, design.effect
    lacking = [name for pair in family for name in pair if name not in pilot]
    if lacking or not family:
        wanted = f"'{lacking[0]}'" if lacking else "two methods that are compared"
        raise UserError(
            f"The pilot must hold {wanted}; it holds {', '.join(sorted(pilot)) or 'nothing'}."
        )
    if effect <= 0 or planned < 2:
        raise UserError(
            f"Planning needs a positive effect and at least 2 runs; got {effect:g} and {planned}."
        )
    pilot = {name: pilot[name] for name in dict.fromkeys(name for pair in family for name in pair)}
    if design.paired:
        pilot = dict(zip(pilot, on_common_seeds(list(pilot.values())), strict=True))
    require_replication(*pilot.values())
    pilot_runs = min(item.runs for item in pilot.values())
    seed = rng.integers(2**63)

    def reach(runs: int, inflate: float) -> float:
        # The same stream for every n makes power nearly monotone in n.
        stream = np.random.default_rng([int(seed), runs])
        return simulate_power(pilot, design, runs, stream, inflate=inflate, simulations=simulations)

    def agree(runs: int) -> float:
        stream = np.random.default_rng([int(seed), runs, 1])
        return simulate_equivalence(pilot, design, runs, stream, simulations=simulations)

    def smallest(chance: Callable[[int], float]) -> int | None:
        low, high = 1, 2
        while chance(high) < power:
            low, high = high, min(2 * high, limit)
            if low == limit:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if chance(middle) >= power else (middle, high)
        return high

    # Upper 80 % limit of a standard deviation from the pilot's degrees of freedom, tasks pooled.
    df = (pilot_runs - 1) * len(next(iter(pilot.values())).tasks) * len(pilot)
    caution = math.sqrt(df / stats.chi2.ppf(0.2, df))
    detectable = max(_detectable(pilot[a], pilot[b], design, planned, power) for a, b in family)
    return SampleSizePlan(
        effect=effect,
        power=power,
        comparisons=len(family),
        runs=smallest(lambda runs: reach(runs, 1.0)),
        runs_cautious=smallest(lambda runs: reach(runs, caution)),
        planned=planned,
        power_planned=reach(planned, 1.0),
        runs_equivalence=smallest(agree),
        equivalence_planned=agree(planned),
        detectable=detectable,
        limit=limit,
        pilot_runs=pilot_runs,
    )


def _detectable(a: Scores, b: Scores, design: Design, runs: int, power: float) -> float:
    """Returns the minimum detectable effect at the last look, before Holm's later steps."""
    tasks = len(a.tasks)
    if design.paired:
        variances = (a.matrix - b.matrix).var(axis=0, ddof=1)
    else:
        variances = np.concatenate([a.matrix.var(axis=0, ddof=1), b.matrix.var(axis=0, ddof=1)])
    moments = welch.pool(
        np.zeros(()), variances / runs / tasks**2, np.full(variances.size, runs - 1.0)
    )
    alpha = design.schedule(runs).alphas[-1] / len(design.family)
    return minimum_detectable_effect(float(moments.error), float(moments.df), alpha, power)
