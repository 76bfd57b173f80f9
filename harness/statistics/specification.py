"""What a study declares about its statistics, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, Literal

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.missing import STEPS, Range

SUITE = "suite"
NORMALISED = "normalised"
SUCCESS = "success"
MEASURES = {
    "return": "mean target return",
    "score": "mean target return",
    SUCCESS: "success rate",
    NORMALISED: "normalised score",
    "auc": "area under the learning curve",
    "cvar": "return on the worst 20 % of contexts",
    STEPS: "steps to threshold (restricted mean)",
}
EXPLORATORY_BELOW = 10  # runs per cell
RAW = ("return", "score")  # two names of the mean target return of the final policy

Comparisons = Literal["all-vs-control", "all-pairs"] | tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StatisticsSpec:
    """The declared analysis.

    Attributes:
        control: The method that the others are compared with.
        runs: Planned runs per cell.
        comparisons: `all-vs-control`, `all-pairs`, or pairs (method, control).
        estimands: Columns of the table of runs that are analysed.
        primary: The column whose comparisons per setup form the family.
        scopes: What the family spans: each of the `setups`, the `suite`, or both.
        sesoi: Smallest effect of interest by column, or by column and setup.
        alpha: Family-wise two-sided level.
        power: Power to which minimum detectable effects refer.
        looks: Runs per cell at which the data are looked at before `runs`.
        ranges: By column and setup the (worst, best) possible score, None where not known. The
            worst is the floor of failed runs. `success` needs none; `auc` and `cvar` inherit those
            of the score whose scale they are on.
        comparable: Columns on one scale in all setups, which may be averaged over the suite; list
            `auc` and `cvar` here if they were computed on normalised scores.
        horizons: Training steps by setup, where steps to threshold are censored.
        paired: Whether runs with equal seeds are declared pairs.
        frozen: Whether the plan was frozen before the runs started.
        least_runs: Observations per cell below which claims are exploratory.
        resamples: Bootstrap resamples.
        permutations: Permutations of the sensitivity test.
    """

    control: str
    runs: int
    comparisons: Comparisons = "all-vs-control"
    estimands: tuple[str, ...] = ("score", SUCCESS, NORMALISED, "auc", "cvar", STEPS)
    primary: str = "score"
    scopes: tuple[str, ...] = ("setups", SUITE)
    sesoi: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    alpha: float = 0.05
    power: float = 0.8
    looks: tuple[int, ...] = ()
    ranges: Mapping[str, Mapping[str, Range]] = field(default_factory=dict)
    comparable: tuple[str, ...] = (NORMALISED, SUCCESS)
    horizons: Mapping[str, float] = field(default_factory=dict)
    paired: bool = False
    frozen: bool = False
    least_runs: int = EXPLORATORY_BELOW
    resamples: int = 50_000
    permutations: int = 9_999

    def __post_init__(self) -> None:
        problems = []
        unknown = [name for name in self.estimands if name not in MEASURES]
        if unknown:
            problems.append(f"Unknown estimand '{unknown[0]}'; known are {', '.join(MEASURES)}.")
        if self.primary not in self.estimands:
            problems.append(f"The primary estimand '{self.primary}' is not among the estimands.")
        if not self.scopes or set(self.scopes) - {"setups", SUITE}:
            problems.append("The family's scopes are 'setups', 'suite' or both.")
        if not 0 < self.alpha < 0.5 or not 0 < self.power < 1:
            problems.append("alpha must lie in (0, 0.5) and power in (0, 1).")
        if self.runs < 2 or any(not 2 <= look < self.runs for look in self.looks):
            problems.append(
                f"Looks {list(self.looks)} must lie between 2 and the {self.runs} planned runs."
            )
        if problems:
            raise UserError(*problems)

    def pairs(self, methods: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Returns the comparisons (method, control) among the methods, in a fixed order.

        Raises:
            UserError: If a method that is named was not run.
        """
        names = sorted(methods)
        if self.comparisons == "all-pairs":
            return tuple((b, a) for a, b in combinations(names, 2))
        if self.comparisons == "all-vs-control":
            chosen = tuple((name, self.control) for name in names if name != self.control)
        else:
            chosen = tuple((str(a), str(b)) for a, b in self.comparisons)
        for name in {self.control, *(name for pair in chosen for name in pair)}:
            if name not in names:
                raise UserError(f"The comparisons name '{name}', which is not in the manifest.")
        if len({frozenset(pair) for pair in chosen}) != len(chosen):
            raise UserError("The comparisons name a pair twice.")
        return chosen

    @property
    def raw(self) -> str | None:
        """The column of raw target returns, if it is analysed."""
        return next((name for name in RAW if name in self.estimands), None)

    def smallest_effect(self, column: str, scope: str) -> float | None:
        """Returns the smallest effect of interest of a column on a setup or the suite."""
        declared = self.sesoi.get(column)
        return declared.get(scope) if isinstance(declared, Mapping) else declared

    def full_ranges(self, setups: Sequence[str]) -> dict[str, dict[str, Range]]:
        """Returns the range of every column on every setup, inherited ones filled in."""
        found: dict[str, dict[str, Range]] = {}
        for column in self.estimands:
            own = dict(self.ranges.get(column, {}))
            if column in ("auc", "cvar"):
                parent = NORMALISED if column in self.comparable else self.raw
                own = {**self.ranges.get(parent or "", {}), **own}
            for setup in setups:
                if column == SUCCESS:
                    own[setup] = (0.0, 1.0)
                elif column == STEPS:
                    own[setup] = (self.horizons.get(setup), 0.0)
            found[column] = {setup: own.get(setup, (None, None)) for setup in setups}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def measure(column: str) -> str:
    """Returns a column's name in words."""
    return MEASURES[column]


def higher_is_better(column: str) -> bool:
    """Whether more of it is better."""
    return column != STEPS
