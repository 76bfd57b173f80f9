"""What a verdict costs: runs per arm until it is reached, simulated as `pacebench plan` does.

Scores are those of results/point-mass: 85 ± 1.7 if the gate is found, otherwise 15 ± 2, in a range
of 88. Beside each figure stands the one that was specified, itself from 200 sequences; the band is
where such a figure lies 997 times in 1 000 by chance.

    python -m benchmarks.cost_of_verdicts [SEQUENCES]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.table import MISSED, row
from pacebench.harness.analysis import planning
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.statistics import welch
from pacebench.harness.statistics.scores import FloatArray

RANGE, SPECIFIED_FROM = 88.0, 200
ALPHAS = (0.05, 0.0125)
# Mixtures; the verdict with the smallest effect as a share of the range; seeds simulated; and for
# each α the share of sequences decided after so many seeds.
DECIDED = [
    ("1@85±1.7", "0.4@85±1.7|15±2", Verdict.BETTER, 0.0, 60, {0.5: (15, 18), 0.8: (17, 21)}),
    (
        "0.95@85±1.7|15±2",
        "0.4@85±1.7|15±2",
        Verdict.BETTER,
        0.0,
        90,
        {0.5: (17, 22), 0.8: (22, 27)},
    ),
    (
        "0.85@85±1.7|15±2",
        "0.6@85±1.7|15±2",
        Verdict.BETTER,
        0.0,
        250,
        {0.5: (49, 65), 0.8: (86, 105)},
    ),
    ("1@85±1.7", "0.8@85±1.7|15±2", Verdict.BETTER, 0.0, 160, {0.5: (43, 56), 0.8: (55, 68)}),
    ("1@85±1.7", "1@85±1.7", Verdict.EQUIVALENT, 0.1, 100, {0.5: (50, 65)}),
    ("1@85±1.7", "1@85±1.7", Verdict.EQUIVALENT, 0.05, 160, {0.5: (104, 135)}),
]
# Equal means, a tight arm against one that fails in 1 run of 10: false "better" within 400 runs.
EQUAL_MEANS = ("1@78±1.7", "0.9@85±1.7|15±2", 400, (0.01, 0.0))
# Runs with which a Welch test at the second α has a power of 80 %. The second figure does not come
# out: 44 runs have a power of 57 %, and 80 % takes 69 (at α = 0.05 it takes 48).
WELCH = [
    ("1@85±1.7", "0.4@85±1.7|15±2", 12, ""),
    ("0.85@85±1.7|15±2", "0.6@85±1.7|15±2", 44, "known: the specified figure is too low"),
]
# A Welch test's false positives with equal means.
WELCH_FALSE = (10, 0.35)


@dataclass(frozen=True)
class Line:
    """One figure of the table.

    Attributes:
        text: What it is.
        specified: The specified figure.
        found: The simulated one.
        low: Lower end of where the specified one lies by chance.
        high: Upper end.
        known: Why the specified figure is known not to come out, where it is.
    """

    text: str
    specified: float
    found: float
    low: float
    high: float
    known: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the specified figure is the simulated one up to chance."""
        return self.low <= self.specified <= self.high


def differences(a: str, b: str, sequences: int, seeds: int, seed: int = 0) -> FloatArray:
    """Returns differences of two mixtures, (sequences, seeds)."""
    rng = np.random.default_rng(seed)
    arms = planning.parse(f"a: {a}, b: {b}")
    x, y = (
        np.clip(planning.mixture(arms[label], 0.0)((sequences, seeds), rng), 0, RANGE)
        for label in ("a", "b")
    )
    return np.asarray(x - y)


def lines(sequences: int) -> Iterator[Line]:
    """Yields every figure of the table."""
    for a, b, verdict, effect, seeds, wanted in DECIDED:
        z = differences(a, b, sequences, seeds)
        for number, alpha in enumerate(ALPHAS):
            first, reached = planning.until_decided(z, RANGE, effect * RANGE, alpha)
            first = np.where(reached[verdict], first, np.inf)
            for share, specified in wanted.items():
                noise = _noise(share, sequences)
                low, found, high = (
                    float(np.quantile(first, q, method=method))
                    for q, method in (
                        (max(share - noise, 0), "lower"),
                        (share, "higher"),
                        (min(share + noise, 1), "higher"),
                    )
                )
                margin = f", δ = {effect:g} of the range" if effect else ""
                text = (
                    f"{a} against {b}: {verdict}{margin}, α = {alpha:g}, {share:.0%} of sequences"
                )
                # A figure is a whole number of seeds, and a quantile may be rounded either way.
                yield Line(text, specified[number], found, low - 1, high + 1)
    a, b, seeds, most = EQUAL_MEANS
    z = differences(a, b, sequences, seeds)
    for number, alpha in enumerate(ALPHAS):
        _, reached = planning.until_decided(z, RANGE, 0.0, alpha)
        rate = float(reached[Verdict.BETTER].mean())
        text = f"{a} against {b}: false better within {seeds} seeds, α = {alpha:g}, at most"
        noise = _noise(max(rate, most[number]), sequences)
        yield Line(text, most[number], rate, rate - noise, 1.0)
    runs, specified = WELCH_FALSE
    rate = _rejected(a, b, sequences, runs, ALPHAS[0])
    noise = _noise(rate, sequences)
    yield Line(f"Welch, n = {runs}: false difference", specified, rate, rate - noise, rate + noise)
    for a, b, runs, known in WELCH:
        alpha, several = ALPHAS[1], range(runs - 6, 2 * runs)
        power = {n: _rejected(a, b, sequences, n, alpha) for n in several}
        found = min((n for n, share in power.items() if share >= 0.8), default=math.inf)
        noise = _noise(0.8, sequences)
        near = [n for n, share in power.items() if abs(share - 0.8) <= noise] or [found]
        text = f"{a} against {b}: Welch's runs for a power of 80 % at α = {alpha:g}"
        yield Line(text, runs, found, min(near) - 1, max(near) + 1, known)


def _rejected(a: str, b: str, sequences: int, runs: int, alpha: float) -> float:
    """Returns how often Welch's test on so many runs of each arm finds a difference."""
    rng = np.random.default_rng(runs)
    arms = planning.parse(f"a: {a}, b: {b}")
    x, y = (planning.mixture(arms[k], 0.0)((sequences, runs), rng)[..., None] for k in ("a", "b"))
    return float((welch.p_value(welch.difference_moments(x, y)) <= alpha).mean())


def _noise(share: float, sequences: int) -> float:
    return 3 * math.sqrt(share * (1 - share) * (1 / SPECIFIED_FROM + 1 / sequences))


def main() -> None:
    """Prints the table; the exit code says whether every figure agrees that should."""
    sequences = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    agree, known, wrong = 0, 0, 0
    print(f"{sequences} sequences; specified, simulated, chance band")
    for line in lines(sequences):
        agree += line.agrees
        known += not line.agrees and bool(line.known)
        wrong += not (line.agrees or line.known)
        mark = "" if line.agrees else f"   DIFFERS {line.known}"
        band = f"{line.low:.4g} to {line.high:.4g}"
        print(f"{line.specified:8.4g} {line.found:8.4g}   {band:16} {line.text}{mark}")
    sides = f"of {agree + known + wrong}, {agree} agree and {known} is known to differ"
    met = row("figures of what verdicts cost that differ unexplained", sides, wrong, most=0)
    sys.exit(0 if met else MISSED)


if __name__ == "__main__":
    main()
