"""What a comparison shows (better, worse, equivalent, inconclusive) and the sentence saying so.

The report prints these sentences and no others. Not rejecting a difference is never called
equality.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import welch
from pacebench.harness.statistics.interval import Interval, level_words


class VerdictKind(StrEnum):
    """The four things a comparison can show."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one comparison, with all that its sentence needs.

    Attributes:
        outcome: What the comparison shows.
        method: The method.
        control: What it was compared with.
        scope: The setup, or `suite` for the mean over setups.
        measure: What was compared, in words.
        interval: Interval of the difference method − control; None where there is none.
        p_value: p-value of the difference that the verdict rests on.
        equivalence_p: p-value of equivalence; None without a declared effect.
        adjusted: Whether both are adjusted for a declared family.
        alpha: Level of the decision.
        sesoi: Smallest effect of interest, if declared.
        mde: Minimum detectable effect, where inconclusive and computable.
        needed: Runs per cell that would find the smallest effect of interest at the spread seen,
            where inconclusive and computable.
        power: Power that `mde` and `needed` refer to.
        confirmatory: Whether the comparison was declared and the study kept to its plan.
        blocked: Why a verdict was withheld; empty where it was not.
        bounded: Interval of the difference that assumes nothing but the range of the scores, where
            that is declared.
    """

    outcome: VerdictKind
    method: str
    control: str
    scope: str
    measure: str
    interval: Interval | None
    p_value: float | None
    equivalence_p: float | None
    alpha: float
    adjusted: bool = True
    sesoi: float | None = None
    mde: float | None = None
    needed: int | None = None
    power: float = 0.8
    confirmatory: bool = True
    blocked: str = ""
    bounded: Interval | None = None

    @property
    def hides_failures(self) -> bool:
        """Whether a failure too rare to show in so few runs could undo an equivalence.

        A t statistic of runs that all succeeded knows nothing of those that would not have. The
        interval from the range alone does; where it leaves the margin, equivalence rests on trust.
        """
        if self.bounded is None:
            return True
        margin = self.sesoi or 0.0
        return self.bounded.low < -margin or self.bounded.high > margin

    def sentence(self) -> str:
        """Returns the claim in plain English."""
        where = "Over all setups" if self.scope == "suite" else f"On {self.scope}"
        pair = f"{self.method} and {self.control}"
        claim = {
            VerdictKind.BETTER: f"{where}, {self.method} is better than {self.control} in "
            f"{self.measure}",
            VerdictKind.WORSE: f"{where}, {self.method} is worse than {self.control} in "
            f"{self.measure}",
            VerdictKind.EQUIVALENT: f"{where}, {pair} differ in {self.measure} by less than the "
            f"declared smallest effect of interest ({_number(self.sesoi)})",
            VerdictKind.INCONCLUSIVE: f"{where}, the runs cannot tell {pair} apart in "
            f"{self.measure}",
        }[self.outcome]
        text = f"{claim} ({self._evidence()})"
        if self.blocked:
            text = f"{where}, no verdict on {pair} in {self.measure}: {self.blocked}"
        elif self.outcome is VerdictKind.INCONCLUSIVE and self.mde is not None:
            text += (
                f"; a true difference of {_number(self.mde)} would have been found with "
                f"{self.power:.0%} probability if runs vary as they did here, smaller ones less "
                f"often"
            )
        elif self.outcome is VerdictKind.EQUIVALENT and self.hides_failures:
            text += "; this trusts that rare failures would have shown among the runs" + (
                f": assuming nothing but the range of scores, the difference lies between "
                f"{_number(self.bounded.low)} and {_number(self.bounded.high)}"
                if self.bounded
                else ", and no range of scores is declared that would bound their effect"
            )
        return f"{text}." if self.confirmatory else f"Exploratory: {text[0].lower()}{text[1:]}."

    def _evidence(self) -> str:
        parts = []
        if self.interval is not None:
            i = self.interval
            parts.append(
                f"difference {_number(i.estimate)}, {level_words(i.level)}% interval "
                f"{_number(i.low)} to "
                f"{_number(i.high)}"
            )
        if self.outcome is VerdictKind.EQUIVALENT and self.equivalence_p is not None:
            parts.append(f"equivalence {self._p(self.equivalence_p)}")
        elif self.p_value is not None:
            parts.append(self._p(self.p_value))
        if self.interval is not None:
            parts.append(f"{self.interval.runs} runs each")
        return ", ".join(parts) or "no run varies"

    def _p(self, value: float) -> str:
        name = "adjusted p" if self.adjusted else "unadjusted p"
        return f"{name} < 0.001" if value < 0.001 else f"{name} = {value:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, with the sentence."""
        record = asdict(self)
        record["outcome"] = self.outcome.value
        for name in ("interval", "bounded"):
            item = getattr(self, name)
            record[name] = item.to_dict() if item is not None else None
        record["sentence"] = self.sentence()
        return record


def tost(moments: welch.Moments, sesoi: float) -> float:
    """Returns the p-value of two one-sided tests that the difference lies within ± `sesoi`."""
    if sesoi <= 0:
        raise UserError(f"The smallest effect of interest must be positive, not {sesoi:g}.")
    return float(welch.equivalence(moments, sesoi))


def decide(
    difference: float,
    p_value: float | None,
    equivalence_p: float | None,
    alpha: float,
    *,
    higher_is_better: bool = True,
) -> VerdictKind:
    """Returns what the p-values allow to be said.

    Equivalence comes first: a difference that is surely smaller than the smallest effect of
    interest is not called better, however surely it is not zero.
    """
    if equivalence_p is not None and equivalence_p <= alpha:
        return VerdictKind.EQUIVALENT
    if p_value is not None and p_value <= alpha and difference != 0:
        improved = (difference > 0) == higher_is_better
        return VerdictKind.BETTER if improved else VerdictKind.WORSE
    return VerdictKind.INCONCLUSIVE


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("-", "−")
