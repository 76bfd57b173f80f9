"""What the study claims: sentences from verdicts, the watermark, the verdict table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pacebench.harness.report.data import (
    ReportData,
    interval_cells,
    interval_words,
    percentile_words,
    scope_words,
)
from pacebench.harness.report.document import (
    Block,
    Claim,
    Claims,
    Figures,
    Section,
    TableBlock,
    Text,
    Warned,
)
from pacebench.harness.report.figures.rows import Reference, Row, draw_rows, height_of
from pacebench.harness.report.tables import Column, Table, count, fitted, p_value, span
from pacebench.harness.statistics.contrasts import ContrastResult
from pacebench.harness.statistics.verdicts import VerdictKind

WORDS = {
    VerdictKind.BETTER: "▲ better",
    VerdictKind.WORSE: "▼ worse",
    VerdictKind.EQUIVALENT: "≈ equivalent",
    VerdictKind.INCONCLUSIVE: "? inconclusive",
}


def claims(view: ReportData) -> Section:
    """Returns the claims, one sentence each, with scope and strength."""
    family = _family(view)
    blocks: list[Block] = [Claims([_claim(view, item) for item in family])]
    if not family:
        blocks = [Text("The study declares no comparison, so there is nothing to claim.")]
    if view.exploratory:
        # Above the claims: whoever reads one has read this.
        blocks.insert(
            0,
            Warned(
                "Exploratory: read what follows as hypotheses, not as findings.",
                view.analysis.exploratory,
            ),
        )
    blocks += [Warned(note) for note in view.notes]
    return Section("claims", "Claims", blocks)


def verdicts(view: ReportData) -> Section:
    """Returns the table of verdicts and the plotted contrasts."""
    family = _family(view)
    said = view.study.statistics
    lead = (
        f"The declared family: {len(family)} comparison{'s' if len(family) != 1 else ''} of "
        f"{_measure(family)}. Differences are tested by Welch's t, equivalence by two one-sided "
        f"tests within ±{said.smallest_effect:g} of normalised score; both are adjusted by Holm at "
        f"α = {view.analysis.alpha:.3g}. Everything else in this report is exploratory"
        + (f"; declared as secondary: {', '.join(said.secondary)}." if said.secondary else ".")
    )
    blocks: list[Block] = [Text(lead), TableBlock(_table(view, family))]
    figures = [figure for scope in view.scopes if (figure := _forest(view, family, scope))]
    if figures:
        blocks.append(Figures(figures))
    return Section("verdicts", "Verdicts", blocks)


def _family(view: ReportData) -> list[ContrastResult]:
    place = {label: i for i, label in enumerate(view.labels)}
    scopes = {scope: i for i, scope in enumerate(view.scopes)}
    family = [item for item in view.analysis.contrasts if item.family]
    return sorted(
        family,
        key=lambda item: (
            scopes[item.comparison.scope],
            place[item.comparison.method],
            place[item.comparison.control],
        ),
    )


def _measure(family: list[ContrastResult]) -> str:
    return family[0].verdict.measure if family else "nothing"


def _claim(view: ReportData, item: ContrastResult) -> Claim:
    # The sentence quotes the interval of the table and the figure, which holds over the family.
    verdict = replace(item.verdict, interval=item.simultaneous or item.verdict.interval)
    strength = "confirmatory" if verdict.confirmatory else "exploratory"
    runs = (
        f"n = {verdict.interval.runs} {'searches or ' if view.by_search else ''}runs each"
        if verdict.interval is not None
        else "no interval"
    )
    conditional = (
        " Conditional on these configurations: another search might have found others."
        if not view.by_search and view.tuned & {item.comparison.method, item.comparison.control}
        else ""
    )
    scope = (
        f"the mean over {len(view.study.setups)} setups"
        if verdict.scope == "suite"
        else f"{verdict.scope} alone"
    )
    learner = " and ".join(view.learners)
    return Claim(
        outcome=verdict.outcome.value,
        word=WORDS[verdict.outcome],
        sentence=verdict.sentence(),
        strength=f"Scope: {scope}, learner {learner}, {view.study.budget:,} steps. Strength: "
        f"{strength}, {runs}.{conditional}",
    )


def verdict_rows(view: ReportData) -> list[dict[str, Any]]:
    """Returns the verdict table as plain rows, which the terminal prints too."""
    rows = []
    for item in _family(view):
        verdict, interval = item.verdict, item.simultaneous or item.interval
        rows.append(
            {
                "setup": scope_words(item.comparison.scope),
                "method": item.comparison.method,
                "control": item.comparison.control,
                "verdict": verdict.outcome.value,
                "difference": interval.estimate if interval is not None else None,
                **interval_cells(interval, "interval"),
                "interval_kind": interval.kind if interval is not None else None,
                **interval_cells(verdict.bounded, "bounded", "bounded_"),
                **interval_cells(item.percentile, "percentile", "percentile_"),
                "p": item.test.p_value if item.test is not None else None,
                "adjusted_p": item.adjusted_p,
                "permutation_p": item.sensitivity.p_value if item.sensitivity else None,
                "equivalence_p": verdict.equivalence_p,
                "smallest_effect": verdict.sesoi,
                "mde": verdict.mde,
                "needed": verdict.needed,
                "runs": interval.runs if interval is not None else None,
                "why": verdict.blocked,
            }
        )
    return rows


def _word(value: str) -> str:
    return WORDS[VerdictKind(value)]


def verdict_columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Returns the columns of the verdict table, with decimals that fit its rows."""
    show = fitted([row[key] for row in rows for key in ("difference", "low", "high")])
    return [
        Column("method", "curriculum", kind="method"),
        Column("control", "compared with", kind="method"),
        Column("setup", "setup"),
        Column("verdict", "verdict", _word, kind="verdict"),
        Column("difference", "difference", show, number=True),
        Column("interval", "simultaneous interval", span(show), number=True, where="shown"),
        Column("low", "low", where="csv"),
        Column("high", "high", where="csv"),
        Column("interval_kind", "kind", where="csv"),
        Column("p", "p (Welch)", p_value, number=True),
        Column("adjusted_p", "adjusted p", p_value, number=True),
        Column("permutation_p", "p (permutation)", p_value, number=True),
        Column("equivalence_p", "adjusted p (equivalence)", p_value, number=True),
        Column("bounded", "from the range alone", span(show), number=True, where="shown"),
        Column("bounded_low", "", where="csv"),
        Column("bounded_high", "", where="csv"),
        Column("percentile", "percentile (other papers)", span(show), True, where="shown"),
        Column("percentile_low", "", where="csv"),
        Column("percentile_high", "", where="csv"),
        Column("smallest_effect", "smallest effect", show, number=True),
        Column("mde", "detectable", show, number=True),
        Column("needed", "n needed", count, number=True),
        Column("runs", "n", number=True),
    ]


def _table(view: ReportData, family: list[ContrastResult]) -> Table:
    rows = verdict_rows(view)
    columns = verdict_columns(rows)
    for kind in ("bounded", "percentile"):
        if not any(row[kind] for row in rows):
            columns = [column for column in columns if not column.key.startswith(kind)]
    if any(row["why"] for row in rows):
        columns.append(Column("why", "withheld because"))
    found = [item.simultaneous or item.interval for item in family]
    return Table(
        "verdicts",
        "",
        f"Differences of {_measure(family)}, curriculum minus what it is compared with; intervals "
        f"hold together over the family. “Detectable” is the true difference that this study would "
        f"have found with {view.analysis.spec.power:.0%} probability, where the verdict is "
        f"inconclusive; “n needed” is the number of runs per cell that would find the smallest "
        f"effect of interest with that probability, if runs go on varying as they did here. "
        f"{interval_words(found)}{_single_words(family)}{_bounded_words(family)}"
        f"{percentile_words(item.percentile for item in family)}",
        columns,
        rows,
    )


def _single_words(family: list[ContrastResult]) -> str:
    alone = sum(item.simultaneous is None and item.interval is not None for item in family)
    if not alone:
        return ""
    return f" {alone} of the intervals hold by themselves only, because no run varies there."


def _bounded_words(family: list[ContrastResult]) -> str:
    known = [item.verdict.bounded for item in family if item.verdict.bounded is not None]
    if not known:
        return ""
    return (
        f"\n“From the range alone”: {interval_words(known)} Each holds by itself and assumes "
        "nothing of the scores but their declared range, so it allows for failures too rare to "
        "have shown."
    )


def _forest(view: ReportData, family: list[ContrastResult], scope: str) -> Any:
    mine = [item for item in family if item.comparison.scope == scope]
    controls = {item.comparison.control for item in mine}
    rows = []
    for item in mine:
        interval = item.simultaneous or item.interval
        style = view.styles[item.comparison.method]
        against = f" − {view.styles[item.comparison.control].short}" if len(controls) > 1 else ""
        outcome = item.verdict.outcome.value
        rows.append(Row(style, f"{style.short}{against}", interval, note=outcome))
    if not any(row.interval is not None for row in rows):
        return None
    effect = mine[0].verdict.sesoi
    title = f"Differences, {scope_words(scope)}"
    name = f"contrasts-{view.scopes.index(scope)}"
    with view.canvas(name, title, height=height_of(len(rows), 0.4)) as canvas:
        draw_rows(
            canvas,
            rows,
            f"difference in {mine[0].verdict.measure}"
            + (f" to {view.styles[controls.pop()].short}" if len(controls) == 1 else ""),
            references=[Reference(0.0, "no difference")],
            zone=None if effect is None else (-effect, effect),
            include=[0.0] if effect is None else [-effect, effect],
        )
        shade = (
            ""
            if effect is None
            else f" Shaded: differences below the smallest effect of interest (±{effect:.3g})."
        )
        return canvas.finish(
            f"Declared contrasts with {interval_words(row.interval for row in rows)}{shade}"
        )
