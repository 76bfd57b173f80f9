"""From the table of runs and the declared analysis to everything the report prints.

One function, one plain record. Same table, specification and seed give the same bytes, whatever the
order of rows; every random stream is named by what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import estimands, estimates
from pacebench.harness.statistics.contrasts import ContrastResult
from pacebench.harness.statistics.estimates import Estimate
from pacebench.harness.statistics.family import compare
from pacebench.harness.statistics.missing import STEPS, Accounting, complete
from pacebench.harness.statistics.paper import PaperRow, paper_rows
from pacebench.harness.statistics.power import RECOMMENDED
from pacebench.harness.statistics.scores import Scores
from pacebench.harness.statistics.sequential import schedule
from pacebench.harness.statistics.specification import SUITE, StatisticsSpec
from pacebench.harness.statistics.survival import restrict
from pacebench.harness.statistics.table import RunTable


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that was estimated, tested and decided.

    Attributes:
        methods: Methods, sorted.
        setups: Setups, sorted.
        spec: The declared analysis.
        runs: Runs per cell that are known everywhere: the look this analysis is.
        alpha: Level of the decisions at this look.
        level: Level of the intervals.
        exploratory: Why the claims are exploratory; empty where they are confirmatory.
        accounting: What became of every planned run, per cell.
        estimates: Every estimate.
        contrasts: Every comparison; those of the declared family first.
        paper: The table in the papers' layout.
        scores: The known scores by (method, scope, column).
    """

    methods: tuple[str, ...]
    setups: tuple[str, ...]
    spec: StatisticsSpec
    runs: int
    alpha: float
    level: float
    exploratory: tuple[str, ...]
    accounting: tuple[Accounting, ...]
    estimates: tuple[Estimate, ...]
    contrasts: tuple[ContrastResult, ...]
    paper: tuple[PaperRow, ...]
    scores: dict[tuple[str, str, str], Scores]

    @property
    def claims(self) -> tuple[str, ...]:
        """The sentences of the declared family, in its order."""
        return tuple(item.verdict.sentence() for item in self.contrasts if item.family)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold."""
        return {
            "methods": list(self.methods),
            "setups": list(self.setups),
            "spec": self.spec.to_dict(),
            "runs": self.runs,
            "alpha": self.alpha,
            "level": self.level,
            "exploratory": list(self.exploratory),
            "accounting": [item.to_dict() for item in self.accounting],
            "estimates": [item.to_dict() for item in self.estimates],
            "contrasts": [item.to_dict() for item in self.contrasts],
            "paper": [vars(row) for row in self.paper],
            "claims": list(self.claims),
        }


def analyse(
    runs: pd.DataFrame,
    spec: StatisticsSpec,
    seed: int | np.random.SeedSequence,
    *,
    manifest: Iterable[tuple[str, str, int]] | None = None,
    looks_taken: Sequence[int] = (),
    deviations: Sequence[str] = (),
) -> Analysis:
    """Analyses a study.

    Args:
        runs: One row per run: method, setup, seed, status, and a column per estimand of the
            specification; `steps_to_threshold` is NaN where the threshold was not reached.
        spec: The declared analysis.
        seed: Source of all resamples and permutations.
        manifest: Every planned run (method, setup, seed); the rows of `runs` unless given.
        looks_taken: Runs per cell at every earlier look at the data.
        deviations: Sentences about departures from the frozen plan.

    Raises:
        UserError: If the table contradicts the manifest or the specification.
    """
    frame = _with_restricted_steps(runs, spec)
    if manifest is None:
        manifest = list(frame[["method", "setup", "seed"]].itertuples(index=False, name=None))
    planned = sorted((str(m), str(s), int(n)) for m, s, n in manifest)
    methods = tuple(sorted({method for method, _, _ in planned}))
    setups = tuple(sorted({setup for _, setup, _ in planned}))
    if SUITE in setups:
        raise UserError(f"A setup must not be called '{SUITE}': the name is taken.")
    ranges = spec.full_ranges(setups)
    completion = complete(frame, planned, spec.estimands, ranges)
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    table = RunTable(spec, completion, ranges, methods, setups, root)
    known = min((c.planned - c.unresolved for c in completion.accounting), default=0)
    alpha, reasons = _look(spec, known, looks_taken, deviations)
    level = 1 - alpha
    found, scores = _estimates(table, level)
    return Analysis(
        methods=methods,
        setups=setups,
        spec=spec,
        runs=known,
        alpha=alpha,
        level=level,
        exploratory=reasons,
        accounting=completion.accounting,
        estimates=found,
        contrasts=compare(table, alpha, level, not reasons),
        paper=paper_rows(table),
        scores=scores,
    )


def _with_restricted_steps(runs: pd.DataFrame, spec: StatisticsSpec) -> pd.DataFrame:
    if STEPS not in spec.estimands or STEPS not in runs.columns:
        return runs
    lacking = sorted(set(runs["setup"].astype(str)) - set(spec.horizons))
    if lacking:
        raise UserError(
            f"Steps to threshold need the training steps of '{lacking[0]}', where runs that did "
            f"not reach it are censored; declare them as its horizon."
        )
    table = runs.copy()
    horizons = table["setup"].map(lambda setup: spec.horizons[str(setup)]).astype(float)
    values = table[STEPS].astype(float).to_numpy()
    table[STEPS] = [
        float(restrict(np.array([value]), horizon)[0])
        for value, horizon in zip(values, horizons, strict=True)
    ]
    return table


def _look(
    spec: StatisticsSpec, known: int, taken: Sequence[int], deviations: Sequence[str]
) -> tuple[float, tuple[str, ...]]:
    """Returns the level of this look's decisions and why its claims are exploratory, if so."""
    plan = schedule(spec.runs, spec.looks, spec.alpha)
    reasons = list(deviations)
    if not spec.frozen:
        reasons.append("The plan was not frozen before the runs started.")
    if known < spec.least_runs:
        reasons.append(
            f"{known} runs per cell are fewer than {spec.least_runs}; "
            f"{RECOMMENDED} are recommended."
        )
    nominal = plan.nominal(known)
    if nominal is None:
        reasons.append(
            f"{known} runs per cell are known, which is neither the planned {spec.runs} nor a "
            f"declared look."
        )
    undeclared = plan.undeclared([look for look in taken if look != known])
    if undeclared:
        shown = ", ".join(str(look) for look in undeclared)
        reasons.append(f"The data were looked at before, at undeclared numbers of runs: {shown}.")
    return (nominal if nominal is not None else spec.alpha), tuple(reasons)


def _estimates(
    table: RunTable, level: float
) -> tuple[tuple[Estimate, ...], dict[tuple[str, str, str], Scores]]:
    found: list[Estimate] = []
    known: dict[tuple[str, str, str], Scores] = {}
    for column in table.spec.estimands:
        for scope in table.scopes(column):
            for method in table.methods:
                scores = table.scores("observed", method, scope, column)
                if scores is None:
                    continue
                known[method, scope, column] = scores
                batch = estimates.estimate(
                    scores,
                    scope,
                    column,
                    table.bounds(scope, column),
                    table.rng("estimate", method, scope, column),
                    level,
                    table.spec.resamples,
                )
                found += [_with_unknown(table, item) for item in batch]
    return tuple(found), known


def _with_unknown(table: RunTable, item: Estimate) -> Estimate:
    unresolved = table.unresolved(item.scope, item.method)
    if unresolved == 0:
        return item
    ends: list[float | None] = []
    planned = table.scope_setups(item.scope)
    size = sum(
        c.planned
        for c in table.completion.accounting
        if c.method == item.method and c.setup in planned
    )
    for which in ("worst", "best"):
        scores = table.scores(which, item.method, item.scope, item.column)
        whole = scores is not None and scores.matrix.size == size
        function = estimands.FUNCTIONALS[item.functional]
        ends.append(float(function(scores.matrix)) if scores is not None and whole else None)
    return replace(item, worst=ends[0], best=ends[1], unresolved=unresolved)
