"""What an interval shows, and the sentence that says so.

One object decides and is shown: the verdict is where the interval of the difference lies, so the
two cannot disagree. The report prints these sentences and no others; undecided is never called
equal.
"""

from __future__ import annotations

from enum import StrEnum

from pacebench.harness.statistics.interval import Interval, level_words


class Verdict(StrEnum):
    """What a comparison shows about the first label."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NOT_WORSE = "not worse"
    UNDECIDED = "undecided"


def judge(interval: Interval | None, effect: float) -> Verdict:
    """Returns where an interval of a difference lies.

    Args:
        interval: Of the first label's mean minus the second's; None where there is none.
        effect: The smallest effect of interest δ.
    """
    if interval is None:
        return Verdict.UNDECIDED
    if interval.low > 0:
        return Verdict.BETTER
    if interval.high < 0:
        return Verdict.WORSE
    if -effect < interval.low and interval.high < effect:
        return Verdict.EQUIVALENT
    return Verdict.NOT_WORSE if interval.low > -effect else Verdict.UNDECIDED


def claim(
    verdict: Verdict, a: str, b: str, where: str, measure: str, effect: float, *, small: bool
) -> str:
    """Returns the verdict as the beginning of a sentence.

    Args:
        verdict: What was shown.
        a: The first label.
        b: What it was compared with.
        where: The setup, or all of them, as it begins a sentence.
        measure: What was compared, in words.
        effect: The smallest effect of interest.
        small: Whether the whole interval lies inside ±`effect`.
    """
    margin = number(effect)
    little = f", by less than the smallest effect of interest ({margin})" if small else ""
    return {
        Verdict.BETTER: f"{where}, {a} is better than {b} in {measure}{little}",
        Verdict.WORSE: f"{where}, {a} is worse than {b} in {measure}{little}",
        Verdict.EQUIVALENT: f"{where}, {a} and {b} differ in {measure} by less than the smallest "
        f"effect of interest ({margin})",
        Verdict.NOT_WORSE: f"{where}, {a} is not worse than {b} in {measure} by the smallest "
        f"effect of interest ({margin}) or more",
        Verdict.UNDECIDED: f"{where}, the runs so far cannot tell {a} from {b} in {measure}",
    }[verdict]


def evidence(interval: Interval | None) -> str:
    """Returns an interval as it stands behind a claim."""
    if interval is None:
        return "no interval can be given"
    return (
        f"difference {number(interval.estimate)}, {level_words(interval.level)} % interval "
        f"{number(interval.low)} to {number(interval.high)}, {plural(interval.runs, 'seed')}"
    )


def plural(count: int, noun: str) -> str:
    """Returns a number of things: 1 run, 2 runs."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def number(value: float) -> str:
    """Returns a number with three significant digits."""
    return f"{value:.3g}".replace("-", "−")
