"""How times, ratios and shares are written."""

from __future__ import annotations

from pacebench.harness.overhead.findings import MeanInterval
from pacebench.harness.report.tables import MINUS, Show, count


def duration(seconds: float) -> str:
    """Returns a time with two or three significant digits and its unit."""
    unit, size = next((u for u in (("s", 1.0), ("ms", 1e-3)) if seconds >= u[1]), ("µs", 1e-6))
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.2g} {unit}"


def factor(value: float) -> str:
    """Returns a ratio: three digits near one, whole numbers where it is large."""
    if value >= 99.5:
        digits = 10 ** (len(str(int(value))) - 3)
        return count(round(value / digits) * digits)
    return f"{value:.3g}" if value >= 9.95 else f"{value:.2f}"


def percent(value: float) -> str:
    """Returns a share with two significant digits."""
    value *= 100
    return (f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %").replace("-", MINUS)


def with_interval(found: MeanInterval, show: Show = factor) -> str:
    """Returns an estimate with its interval in brackets."""
    return f"{show(found.estimate)} ({show(found.low)} to {show(found.high)})"
