"""From scored runs to everything the report prints: estimates, comparisons, verdicts.

The same rows and study give the same bytes, whatever the order of rows; every random stream is
named by what it is for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pacebench.harness.analysis import estimates
from pacebench.harness.analysis.comparisons import ComparisonResult, Question, compare, questions
from pacebench.harness.analysis.deviations import Standing
from pacebench.harness.analysis.estimates import Estimate
from pacebench.harness.analysis.paper import PaperRow, paper_rows
from pacebench.harness.analysis.solved import SolvedRow, solved_rows
from pacebench.harness.analysis.table import SUITE, Accounting, ScoreTable
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import estimands
from pacebench.harness.statistics.scores import Scores


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that was estimated and decided.

    Attributes:
        runs: Runs per cell that are known everywhere.
        level: Level of the estimates' intervals.
        standing: How far the frozen plan protects the claims.
        accounting: What became of every planned run, per cell.
        estimates: Every estimate.
        comparisons: Every comparison; the weighted ones first.
        paper: The table in the papers' layout.
        solved: How many runs of each cell are solved, and what those return.
        scores: The known scores by (label, scope, estimand).
    """

    runs: int
    level: float
    standing: Standing
    accounting: tuple[Accounting, ...]
    estimates: tuple[Estimate, ...]
    comparisons: tuple[ComparisonResult, ...]
    paper: tuple[PaperRow, ...]
    solved: tuple[SolvedRow, ...]
    scores: dict[tuple[str, str, str], Scores]

    def __repr__(self) -> str:
        """Says what is there, not all of it."""
        verdicts = [item for item in self.comparisons if item.question.weighted]
        return f"<Analysis: {len(self.estimates)} estimates, {len(verdicts)} verdicts>"

    @property
    def exploratory(self) -> tuple[str, ...]:
        """Why no verdict is a claim; empty where the plan protects them."""
        return self.standing.doubts

    @property
    def claims(self) -> tuple[str, ...]:
        """The sentences of the weighted comparisons, in their order."""
        return tuple(item.sentence() for item in self.comparisons if item.question.weighted)

    def verdicts(self) -> list[dict[str, Any]]:
        """Returns the weighted comparisons as plain values."""
        return [item.to_dict() for item in self.comparisons if item.question.weighted]

    def solved_record(self) -> dict[str, Any]:
        """Returns P(solved) of every cell and its differences as plain values."""
        by_solved = [item for item in self.comparisons if item.question.estimand == "solved"]
        return {
            "cells": [row.to_dict() for row in self.solved],
            "differences": [item.to_dict() for item in by_solved],
        }


def analyse(table: ScoreTable, standing: Standing | None = None) -> Analysis:
    """Analyses a study.

    Args:
        table: Its scored runs.
        standing: How far its plan protects the claims; wholly unless given.

    Raises:
        UserError: The rows contradict the study.
    """
    if SUITE in table.study.setups:
        raise UserError(f"a setup must not be called '{SUITE}': the name is taken.")
    if "auc" in table.study.statistics.primary and not table.has_area:
        raise UserError(
            f"study '{table.study.name}': statistics.primary: 'auc' needs two evaluations or more; "
            "raise evaluation.points."
        )
    standing = standing or Standing()

    def protected(q: Question) -> bool:
        rests_on_model = not table.has_range(q.scope, q.estimand)
        return not (standing.doubts or (rests_on_model and standing.model_doubts))

    found, scores = _estimates(table)
    known = min((cell.planned - cell.unresolved for cell in table.accounting), default=0)
    asked = questions(table.study, tuple(e for e in table.estimands if e in _COMPARED))
    return Analysis(
        runs=known,
        level=1 - table.study.statistics.alpha,
        standing=standing,
        accounting=table.accounting,
        estimates=found,
        comparisons=tuple(compare(table, q, confirmatory=protected(q)) for q in asked),
        paper=paper_rows(table),
        solved=solved_rows(table),
        scores=scores,
    )


# Steps to threshold are estimated, not compared: where nobody arrives there is nothing to compare.
_COMPARED = ("return", "success", "solved", "normalised", "auc", "cvar")


def _estimates(
    table: ScoreTable,
) -> tuple[tuple[Estimate, ...], dict[tuple[str, str, str], Scores]]:
    found: list[Estimate] = []
    known: dict[tuple[str, str, str], Scores] = {}
    level = 1 - table.study.statistics.alpha
    for estimand in table.estimands:
        for scope in table.scopes(estimand):
            for label in table.study.labels:
                scores = table.scores(label, scope, estimand)
                if scores is None:
                    continue
                known[label, scope, estimand] = scores
                batch = estimates.estimate(
                    scores,
                    scope,
                    estimand,
                    table.scope_bounds(scope, estimand),
                    table.rng("estimate", label, scope, estimand),
                    level,
                )
                found += [_with_unknown(table, item) for item in batch]
    return tuple(found), known


def _with_unknown(table: ScoreTable, item: Estimate) -> Estimate:
    """Adds what an estimate would be with every unknown run at either end of its range."""
    cells = [
        cell
        for cell in table.accounting
        if cell.label == item.label and cell.setup in table.setups(item.scope)
    ]
    unresolved = sum(cell.unresolved for cell in cells)
    if unresolved == 0:
        return item
    ends: list[float | None] = []
    for which in ("worst", "best"):
        scores = table.scores(item.label, item.scope, item.estimand, which)
        whole = scores is not None and scores.matrix.size == sum(cell.planned for cell in cells)
        function = estimands.FUNCTIONALS[item.functional]
        ends.append(float(function(scores.matrix)) if scores is not None and whole else None)
    return replace(item, worst=ends[0], best=ends[1], unresolved=unresolved)
