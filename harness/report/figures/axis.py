"""Axes: where a value lies, and which numbers stand beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pacebench.harness.report import words

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """One axis."""

    low: float  # value at its beginning
    high: float  # value at its end
    label: str  # what it measures
    ticks: tuple[float, ...]  # values that have a number
    # Whether equal distances are equal ratios; what lies below `low` is drawn there.
    log: bool = False
    names: tuple[str, ...] = ()  # what stands at the ticks instead of their numbers

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        label: str = "",
        *,
        limits: tuple[float, float] | None = None,
        log: bool = False,
        count: int = 4,
        most: float = 1e3,
    ) -> Axis:
        """Returns an axis that holds some values with a little room.

        Args:
            values: Everything that is drawn; what is not finite is left out.
            label: What it measures.
            limits: Its ends, if they are not to follow from the values.
            log: Whether it is logarithmic.
            count: About how many ticks it has.
            most: Largest ratio of the ends of a logarithmic axis.
        """
        found = [float(v) for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = limits or (min(found, default=0.0), max(found, default=1.0))
        if log:
            high = max(high, 1e-12)
            low = max(low, high / most)
            low, high = (low / 1.3, high * 1.3) if limits is None else (low, high)
            return cls(low, high, label, _decades(low, high), log=True)
        if limits is None:
            room = 0.04 * (high - low) or 0.5
            low, high = low - room, high + room
        return cls(low, high, label, nice(low, high, count))

    def place(self, value: float) -> float:
        """Returns where a value lies, 0 at the beginning and 1 at the end, and not far outside."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return min(1.02, max(-0.02, (value - low) / (high - low)))

    def marks(self) -> list[tuple[float, str]]:
        """Returns the place and the number of every tick."""
        shown = self.names or tuple(map(self._number, self.ticks))
        return [(self.place(tick), text) for tick, text in zip(self.ticks, shown, strict=True)]

    def _number(self, tick: float) -> str:
        if self.log and not 1e-4 <= tick < 1e9:
            return f"10{str(round(math.log10(tick))).translate(_SUPERSCRIPT)}"
        return words.short_count(tick)


def nice(low: float, high: float, count: int) -> tuple[float, ...]:
    """Returns about so many round numbers between two."""
    raw = (high - low) / max(count, 1)
    if not raw > 0:
        return (low,)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(float(f"{k * step:.10g}") for k in range(first, last + 1))


def _decades(low: float, high: float) -> tuple[float, ...]:
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, math.ceil((last - first) / 4))
    return tuple(10.0**k for k in range(first, last + 1, step)) or (high,)


def spread(values: Sequence[float]) -> list[float]:
    """Returns a height for each dot of a row: neighbours in value get different ones."""
    ladder = (0.0, 0.6, -0.6, 0.3, -0.3, 0.9, -0.9)
    ranks = np.argsort(np.argsort(values, kind="stable"))
    return [ladder[rank % len(ladder)] for rank in ranks]
