"""The table of runs as the analysis asks it: scores, bounds and random streams by name."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pacebench.harness.statistics.missing import Completion, Range
from pacebench.harness.statistics.scores import RunScore, Scores
from pacebench.harness.statistics.specification import SUITE, StatisticsSpec


@dataclass(frozen=True, eq=False)
class RunTable:
    """All planned runs, with streams and scores by name.

    Attributes:
        spec: The declared analysis.
        completion: The runs after the policy for missing ones.
        ranges: (worst, best) by column and setup.
        methods: Methods, sorted.
        setups: Setups, sorted.
        seed: Root of all streams.
    """

    spec: StatisticsSpec
    completion: Completion
    ranges: dict[str, dict[str, Range]]
    methods: tuple[str, ...]
    setups: tuple[str, ...]
    seed: np.random.SeedSequence
    _values: dict[tuple[str, str, str], list[RunScore]] = field(default_factory=dict)

    def rng(self, *names: str) -> np.random.Generator:
        """Returns a stream of its own for a purpose, whatever else is computed."""
        digest = hashlib.sha256("\0".join(names).encode()).digest()[:16]
        words = tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
        key = (*self.seed.spawn_key, *words)
        return np.random.default_rng(np.random.SeedSequence(self.seed.entropy, spawn_key=key))

    def scope_setups(self, scope: str) -> tuple[str, ...]:
        """Returns the setups of a scope."""
        return self.setups if scope == SUITE else (scope,)

    def scores(self, which: str, method: str, scope: str, column: str) -> Scores | None:
        """Returns the scores of a completion; seeds without a score on any setup are left out.

        Args:
            which: `observed`, `worst` or `best`.
            method: The method.
            scope: A setup, or `suite`.
            column: The run-level score.
        """
        if (which, method, column) not in self._values:
            frame: pd.DataFrame = getattr(self.completion, which)
            rows = frame[frame["method"] == method]
            self._values[which, method, column] = [
                RunScore(str(setup), int(seed), float(value))
                for setup, seed, value in zip(
                    rows["setup"], rows["seed"], rows[column], strict=True
                )
            ]
        setups = self.scope_setups(scope)
        runs = [run for run in self._values[which, method, column] if run.task in setups]
        lacking = {run.seed for run in runs if math.isnan(run.value)}
        kept = [run for run in runs if run.seed not in lacking]
        return Scores.from_runs(method, kept) if kept else None

    def unresolved(self, scope: str, *methods: str) -> int:
        """Returns how many planned runs of some methods have no score."""
        setups = self.scope_setups(scope)
        cells = self.completion.accounting
        return sum(c.unresolved for c in cells if c.method in methods and c.setup in setups)

    def bounds(self, scope: str, column: str) -> tuple[float, float] | None:
        """Returns the smallest and largest possible score, if declared for all setups."""
        ends: list[float] = []
        for setup in self.scope_setups(scope):
            for end in self.ranges[column][setup]:
                if end is None or not np.isfinite(end):
                    return None
                ends.append(end)
        return min(ends), max(ends)

    def scopes(self, column: str) -> tuple[str, ...]:
        """Returns the scopes on which a column is reported."""
        suite = column in self.spec.comparable and len(self.setups) > 1
        return (*self.setups, SUITE) if suite else self.setups
