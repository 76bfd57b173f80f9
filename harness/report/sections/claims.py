"""What the study claims: sentences from verdicts, the watermark, the verdict table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.rows import Row, row_figure
from pacebench.harness.report.tables import Column, Table, count, fitted, interval_cells, p_value
from pacebench.harness.statistics.contrasts import ContrastResult
from pacebench.harness.statistics.verdicts import VerdictKind

WORDS = {
    VerdictKind.BETTER: "▲ better",
    VerdictKind.WORSE: "▼ worse",
    VerdictKind.EQUIVALENT: "≈ equivalent",
    VerdictKind.INCONCLUSIVE: "? inconclusive",
}


def claims(data: ReportData) -> doc.Section:
    """Returns the claims, one sentence each, with scope and strength."""
    family = _family(data)
    blocks: list[doc.Block] = []
    if data.exploratory:
        # Above the claims: whoever reads one has read this.
        warning = "Exploratory: read what follows as hypotheses, not as findings."
        blocks.append(doc.Warned(warning, data.analysis.exploratory))
    blocks.append(
        doc.Claims([_claim(data, item) for item in family])
        if family
        else doc.Text("The study declares no comparison, so there is nothing to claim.")
    )
    blocks += [doc.Warned(note) for note in data.notes]
    return doc.Section("claims", "Claims", blocks)


def verdicts(data: ReportData) -> doc.Section:
    """Returns the table of verdicts and the plotted contrasts."""
    family = _family(data)
    said = data.study.statistics
    lead = (
        f"The declared family: {words.plural(len(family), 'comparison')} of {_measure(family)}. "
        f"Differences are tested by Welch's t, equivalence by two one-sided tests within "
        f"±{said.smallest_effect:g} of normalised score; both are adjusted by Holm at "
        f"α = {data.analysis.alpha:.3g}. Everything else in this report is exploratory"
        + (f"; declared as secondary: {', '.join(said.secondary)}." if said.secondary else ".")
    )
    blocks: list[doc.Block] = [doc.Text(lead), doc.TableBlock(_table(data, family))]
    figures = [figure for scope in data.scopes if (figure := _forest(data, family, scope))]
    if figures:
        blocks.append(doc.Figures(figures))
    return doc.Section("verdicts", "Verdicts", blocks)


def _family(data: ReportData) -> list[ContrastResult]:
    return data.contrasts(family=True)


def _measure(family: list[ContrastResult]) -> str:
    return family[0].verdict.measure if family else "nothing"


def _claim(data: ReportData, item: ContrastResult) -> doc.Claim:
    # The sentence quotes the interval of the table and the figure, which holds over the family.
    verdict = replace(item.verdict, interval=item.simultaneous or item.verdict.interval)
    strength = "confirmatory" if verdict.confirmatory else "exploratory"
    runs = (
        f"n = {verdict.interval.runs} {'searches or ' if data.by_search else ''}runs each"
        if verdict.interval is not None
        else "no interval"
    )
    conditional = (
        " Conditional on these configurations: another search might have found others."
        if not data.by_search and data.tuned & {item.comparison.method, item.comparison.control}
        else ""
    )
    scope = (
        f"the mean over {len(data.study.setups)} setups"
        if verdict.scope == "suite"
        else f"{verdict.scope} alone"
    )
    return doc.Claim(
        outcome=verdict.outcome.value,
        word=WORDS[verdict.outcome],
        sentence=verdict.sentence(),
        strength=f"Scope: {scope}, learner {' and '.join(data.learners)}, {data.study.budget:,} "
        f"steps. Strength: {strength}, {runs}.{conditional}",
    )


def verdict_rows(data: ReportData) -> list[dict[str, Any]]:
    """Returns the verdict table as plain rows, which the terminal prints too."""
    rows = []
    for item in _family(data):
        verdict, interval = item.verdict, item.simultaneous or item.interval
        rows.append(
            {
                "setup": words.scope(item.comparison.scope),
                "method": item.comparison.method,
                "control": item.comparison.control,
                "verdict": verdict.outcome.value,
                "difference": interval.estimate if interval else None,
                **interval_cells("interval", interval),
                "interval_kind": interval.kind if interval else None,
                **interval_cells("bounded", verdict.bounded),
                **interval_cells("percentile", item.percentile),
                "p": item.test.p_value if item.test else None,
                "adjusted_p": item.adjusted_p,
                "permutation_p": item.sensitivity.p_value if item.sensitivity else None,
                "equivalence_p": verdict.equivalence_p,
                "smallest_effect": verdict.sesoi,
                "mde": verdict.mde,
                "needed": verdict.needed,
                "runs": interval.runs if interval else None,
                "why": verdict.blocked,
            }
        )
    return rows


def verdict_columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Returns the columns of the verdict table, with decimals that fit its rows."""
    show = fitted([row[key] for row in rows for key in ("difference", "low", "high")])
    return [
        Column("method", "curriculum", kind="method"),
        Column("control", "compared with", kind="method"),
        Column("setup", "setup"),
        Column("verdict", "verdict", lambda value: WORDS[VerdictKind(value)], kind="verdict"),
        Column("difference", "difference", show, number=True),
        *Column.interval("interval", "simultaneous interval", show),
        Column("interval_kind", "kind", where="csv"),
        Column("p", "p (Welch)", p_value, number=True),
        Column("adjusted_p", "adjusted p", p_value, number=True),
        Column("permutation_p", "p (permutation)", p_value, number=True),
        Column("equivalence_p", "adjusted p (equivalence)", p_value, number=True),
        *Column.interval("bounded", "from the range alone", show),
        *Column.interval("percentile", "percentile (other papers)", show),
        Column("smallest_effect", "smallest effect", show, number=True),
        Column("mde", "detectable", show, number=True),
        Column("needed", "n needed", count, number=True),
        Column("runs", "n", number=True),
        Column("why", "withheld because"),
    ]


def _table(data: ReportData, family: list[ContrastResult]) -> Table:
    rows = verdict_rows(data)
    bounded = [item.verdict.bounded for item in family if item.verdict.bounded is not None]
    alone = sum(item.simultaneous is None and item.interval is not None for item in family)
    caption = (
        f"Differences of {_measure(family)}, curriculum minus what it is compared with; intervals "
        f"hold together over the family. “Detectable” is the true difference that this study would "
        f"have found with {data.analysis.spec.power:.0%} probability, where the verdict is "
        f"inconclusive; “n needed” is the number of runs per cell that would find the smallest "
        f"effect of interest with that probability, if runs go on varying as they did here. "
        f"{words.intervals(item.simultaneous or item.interval for item in family)}"
    )
    if alone:
        caption += (
            f" {alone} of the intervals hold by themselves only, because no run varies there."
        )
    if bounded:
        caption += (
            f"\n“From the range alone”: {words.intervals(bounded)} Each holds by itself and "
            "assumes nothing of the scores but their declared range, so it allows for failures too "
            "rare to have shown."
        )
    caption += words.percentiles(item.percentile for item in family)
    optional = ["bounded", "percentile", "why"]
    return Table("verdicts", "", caption, verdict_columns(rows), rows, optional=optional)


def _forest(data: ReportData, family: list[ContrastResult], scope: str) -> Figure | None:
    mine = [item for item in family if item.comparison.scope == scope]
    if not mine:
        return None
    controls = {item.comparison.control for item in mine}
    rows = []
    for item in mine:
        style, control = (data.styles[m] for m in (item.comparison.method, item.comparison.control))
        against = f" − {control.short}" if len(controls) > 1 else ""
        interval = item.simultaneous or item.interval
        text = f"{style.short}{against}"
        rows.append(Row(style, text, interval, note=item.verdict.outcome.value))
    effect = mine[0].verdict.sesoi
    to = f" to {data.styles[controls.pop()].short}" if len(controls) == 1 else ""
    return row_figure(
        data,
        f"contrasts-{data.scopes.index(scope)}",
        f"Differences, {words.scope(scope)}",
        rows,
        f"difference in {mine[0].verdict.measure}{to}",
        per_row=0.4,
        before="Declared contrasts with ",
        after=""
        if effect is None
        else f" Shaded: differences below the smallest effect of interest (±{effect:.3g}).",
        references=[(0.0, "no difference")],
        zone=None if effect is None else (-effect, effect),
        include=[0.0] if effect is None else [-effect, effect],
    )
