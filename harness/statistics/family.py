"""The declared family of comparisons and the exploratory rest: measured, adjusted, decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import contrasts, intervals, multiplicity
from pacebench.harness.statistics.contrasts import Comparison, ContrastResult, Evidence, Measured
from pacebench.harness.statistics.interval import Interval
from pacebench.harness.statistics.scores import Scores, on_common_seeds
from pacebench.harness.statistics.specification import (
    NORMALISED,
    RAW,
    SUITE,
    StatisticsSpec,
    higher_is_better,
    measure,
)
from pacebench.harness.statistics.table import RunTable
from pacebench.harness.statistics.verdicts import Verdict, VerdictKind, decide


def compare(
    table: RunTable, alpha: float, level: float, confirmatory: bool
) -> tuple[ContrastResult, ...]:
    """Returns every comparison, those of the declared family first.

    Args:
        table: The runs.
        alpha: Level of the decisions.
        level: Level of the intervals.
        confirmatory: Whether the study kept to its plan, so that the family's claims count.
    """
    everything = _comparisons(table)
    family = [item for item in everything if item.family]
    others = [item for item in everything if not item.family]
    results = _decide_family(table, family, alpha, level, confirmatory)
    for item in others:
        results += _decide_family(table, [item], alpha, level, confirmatory=False)
    return tuple(results)


def _comparisons(table: RunTable) -> list[Comparison]:
    spec = table.spec
    found = []
    for column in spec.estimands:
        for scope in table.scopes(column):
            for method, control in spec.pairs(table.methods):
                declared = (
                    column == spec.primary and "setups" in spec.scopes and scope != SUITE
                ) or (column == NORMALISED and SUITE in spec.scopes and scope == SUITE)
                a = table.scores("observed", method, scope, column)
                b = table.scores("observed", control, scope, column)
                if spec.paired and a is not None and b is not None:
                    a, b = on_common_seeds([a, b])
                found.append(
                    Comparison(
                        method=method,
                        control=control,
                        scope=scope,
                        column=column,
                        a=a,
                        b=b,
                        extremes=_extremes(table, method, control, scope, column),
                        bounds=table.bounds(scope, column),
                        family=declared,
                    )
                )
    return found


def _extremes(
    table: RunTable, method: str, control: str, scope: str, column: str
) -> tuple[tuple[Scores, Scores], ...] | None:
    if table.unresolved(scope, method, control) == 0:
        return ()
    if table.bounds(scope, column) is None:
        return None
    pairs = []
    for first, second in (("worst", "best"), ("best", "worst")):
        a = table.scores(first, method, scope, column)
        b = table.scores(second, control, scope, column)
        if a is None or b is None:
            return None
        pairs.append((a, b))
    return tuple(pairs)


def _decide_family(
    table: RunTable,
    family: list[Comparison],
    alpha: float,
    level: float,
    confirmatory: bool,
) -> list[ContrastResult]:
    """Measures, adjusts and decides a family; a comparison outside is a family of one."""
    spec = table.spec
    evidence = [_weigh(table, item, item.a, item.b) for item in family]
    p, q = _adjust(evidence)
    declared = bool(family) and family[0].family
    single = _simultaneous_level(table, family, level) if declared else None
    results = []
    for index, item in enumerate(family):
        rng = table.rng("compare", item.method, item.control, item.scope, item.column)
        measured = contrasts.measure(item, spec, level, rng)
        observed = _outcome(item, evidence[index], p[index], q[index], alpha)
        at_extremes = None
        if item.extremes is not None:
            at_extremes = [
                _outcome_replaced(table, family, evidence, index, pair, alpha)
                for pair in item.extremes
            ]
        unresolved = table.unresolved(item.scope, item.method, item.control)
        blocked = contrasts.withhold(observed, at_extremes, unresolved)
        outcome = VerdictKind.INCONCLUSIVE if blocked else observed
        verdict = Verdict(
            outcome=outcome,
            method=item.method,
            control=item.control,
            scope=item.scope,
            measure=measure(item.column),
            interval=measured.interval,
            p_value=p[index],
            equivalence_p=q[index],
            alpha=alpha,
            adjusted=item.family,
            sesoi=spec.smallest_effect(item.column, item.scope),
            mde=contrasts.detectable(item, spec, alpha / len(family))
            if outcome is VerdictKind.INCONCLUSIVE
            else None,
            needed=contrasts.needed(item, spec, alpha / len(family))
            if outcome is VerdictKind.INCONCLUSIVE and item.family
            else None,
            power=spec.power,
            confirmatory=confirmatory and item.family,
            blocked=blocked,
            bounded=_bounded(table, item, level) if item.family else None,
        )
        papers = _percentile(table, item, level)
        results.append(_result(item, measured, verdict, p[index], spec, level, single, papers))
    return results


def _bounded(table: RunTable, item: Comparison, level: float) -> Interval | None:
    rng = table.rng("bounded", item.method, item.control, item.scope, item.column)
    try:
        return contrasts.bounded_difference(item, level, rng)
    except UserError:
        return None


def _percentile(table: RunTable, item: Comparison, level: float) -> Mapping[str, Interval]:
    """Returns what other papers print of a comparison that the report prints."""
    printed = item.family or item.column in RAW or item.scope == SUITE
    if not printed or item.a is None or item.b is None:
        return {}
    rng = table.rng("percentile", item.method, item.control, item.scope, item.column)
    try:
        return intervals.percentile_pair(item.a, item.b, rng, level)
    except UserError:
        return {}


def _result(
    item: Comparison,
    measured: Measured,
    verdict: Verdict,
    adjusted: float | None,
    spec: StatisticsSpec,
    level: float,
    single: float | None,
    papers: Mapping[str, Interval],
) -> ContrastResult:
    joint = None
    if single is not None and item.a is not None and item.b is not None:
        try:
            joint = intervals.difference_t(
                item.a, item.b, level, paired=spec.paired, single_level=single
            )
        except UserError:
            joint = None
    return ContrastResult(
        comparison=item,
        interval=measured.interval,
        simultaneous=joint,
        test=measured.test,
        sensitivity=measured.sensitivity,
        adjusted_p=adjusted if item.family else None,
        improvement=measured.improvement,
        percentile=papers.get("difference"),
        percentile_improvement=papers.get("improvement"),
        verdict=verdict,
        refusals=measured.refusals,
    )


def _weigh(
    table: RunTable, item: Comparison, a: Scores | None, b: Scores | None
) -> Evidence | None:
    if a is None or b is None:
        return None
    sesoi = table.spec.smallest_effect(item.column, item.scope)
    rng = table.rng("weigh", item.method, item.control, item.scope, item.column)
    return contrasts.weigh(a, b, table.spec, sesoi, rng)


def _adjust(
    evidence: Sequence[Evidence | None],
) -> tuple[list[float | None], list[float | None]]:
    """Holm on differences and Holm on equivalences; an untestable member counts as p = 1."""
    p = multiplicity.holm([1.0 if item is None else item.p_value for item in evidence])
    raw = [None if item is None else item.equivalence_p for item in evidence]
    q = multiplicity.holm([1.0 if value is None else value for value in raw])
    return (
        [None if item is None else float(v) for item, v in zip(evidence, p, strict=True)],
        [None if value is None else float(v) for value, v in zip(raw, q, strict=True)],
    )


def _outcome(
    item: Comparison, evidence: Evidence | None, p: float | None, q: float | None, alpha: float
) -> VerdictKind:
    if evidence is None:
        return VerdictKind.INCONCLUSIVE
    return decide(evidence.difference, p, q, alpha, higher_is_better=higher_is_better(item.column))


def _outcome_replaced(
    table: RunTable,
    family: Sequence[Comparison],
    evidence: Sequence[Evidence | None],
    index: int,
    pair: tuple[Scores, Scores],
    alpha: float,
) -> VerdictKind:
    """Returns one comparison's outcome with its scores replaced and the others' as they are."""
    replaced = list(evidence)
    replaced[index] = _weigh(table, family[index], *pair)
    p, q = _adjust(replaced)
    return _outcome(family[index], replaced[index], p[index], q[index], alpha)


def _simultaneous_level(
    table: RunTable, family: Sequence[Comparison], level: float
) -> float | None:
    strata: dict[Any, multiplicity.Stratum] = {}
    weights = []
    for item in family:
        if item.a is None or item.b is None or min(item.a.runs, item.b.runs) < 2:
            continue
        row: dict[Any, float] = {}
        for scores, sign in ((item.a, 1.0), (item.b, -1.0)):
            for task, column in zip(scores.tasks, scores.matrix.T, strict=True):
                # Normalised and raw scores of the same runs count as separate strata, which makes
                # the family look less correlated than it is and the intervals wider.
                key = (item.column, scores.method, task)
                strata[key] = multiplicity.Stratum(
                    float(column.var(ddof=1)) / column.size, column.size - 1.0
                )
                row[key] = sign / len(scores.tasks)
        weights.append(row)
    if not weights:
        return None
    if table.spec.paired:
        # Pairs are correlated within a contrast, which the strata do not know: Bonferroni.
        return 1 - (1 - level) / len(weights)
    rng = table.rng("simultaneous")
    return multiplicity.simultaneous_level(strata, weights, level, rng)
