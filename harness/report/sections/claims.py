"""What the study claims: sentences from verdicts, the watermark, the verdict table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pacebench.harness.analysis.comparisons import ComparisonResult, model_coverage
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.rows import Row, row_figure
from pacebench.harness.report.tables import Column, Table, fitted, interval_cells, number, p_value

WORDS = {
    Verdict.BETTER: "▲ better",
    Verdict.WORSE: "▼ worse",
    Verdict.EQUIVALENT: "≈ equivalent",
    Verdict.NOT_WORSE: "△ not worse",
    Verdict.UNDECIDED: "? undecided",
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
    """Returns the table of verdicts and the plotted comparisons."""
    family = _family(data)
    said = data.study.statistics
    one = len(family) == 1
    lead = (
        f"{words.plural(len(family), 'question')} of {_measures(family)}, α = {said.alpha:.3g}"
        f"{'' if one else ' among them'}: {'the verdict' if one else 'all verdicts'}, at every "
        f"look at the data, {'is right' if one else 'are right together'} with probability "
        f"{1 - said.alpha:.3g} at least, whatever the shape of the scores. A "
        f"verdict is where the interval lies: above or below 0, or inside ± the smallest effect of "
        f"interest ({said.smallest_effect:g} of normalised score). Everything else in this report "
        "is exploratory."
    )
    blocks: list[doc.Block] = [doc.Text(lead), doc.TableBlock(_table(data, family))]
    figures = [
        figure
        for estimand in said.primary
        for scope in data.scopes
        if (figure := _forest(data, scope, estimand))
    ]
    if figures:
        blocks.append(doc.Figures(figures))
    return doc.Section("verdicts", "Verdicts", blocks)


def _family(data: ReportData) -> list[ComparisonResult]:
    return data.comparisons(weighted=True)


def _measures(family: list[ComparisonResult]) -> str:
    return " and ".join(dict.fromkeys(item.measure for item in family)) or "nothing"


def _claim(data: ReportData, item: ComparisonResult) -> doc.Claim:
    asked = item.question
    conditional = (
        " Conditional on these configurations: another search might have found others."
        if not data.by_search and data.tuned & {asked.a, asked.b}
        else ""
    )
    scope = (
        f"the mean over {len(data.study.setups)} setups"
        if asked.scope == SUITE
        else f"{asked.scope} alone"
    )
    hidden = "".join(
        f" {words.capital(label)} never failed, which leaves a failure rate up to {rate:.0%}."
        for label, rate in item.hidden.items()
    )
    lost = (
        f" {words.plural(item.lost, 'run')} lost to the machine, counted as best and as worst."
        if item.lost
        else ""
    )
    clipped = (
        f" {words.plural(item.clipped, 'score')} outside the range, clipped to it."
        if item.clipped
        else ""
    )
    strength = "confirmatory" if item.confirmatory else "exploratory"
    units = "searches or seeds" if data.by_search else "seeds"
    return doc.Claim(
        outcome=item.verdict.value.replace(" ", "-"),
        word=WORDS[item.verdict],
        sentence=item.sentence(),
        strength=f"Scope: {scope}, learner {' and '.join(data.learners)}, {data.study.budget:,} "
        f"steps. Strength: {strength}, n = {item.seeds} {units}, α = {asked.alpha:.2g}."
        f"{hidden}{lost}{clipped}{conditional}",
    )


def verdict_rows(data: ReportData) -> list[dict[str, Any]]:
    """Returns the verdict table as plain rows, which the terminal prints too."""
    rows = []
    for item in _family(data):
        asked, shown = item.question, item.shown
        rows.append(
            {
                "setup": words.scope(asked.scope),
                "method": asked.a,
                "control": asked.b,
                "estimand": asked.estimand,
                "verdict": item.verdict.value,
                "difference": shown.estimate if shown else None,
                **interval_cells("interval", shown),
                "interval_kind": shown.kind if shown else None,
                **interval_cells("model", item.model),
                "model_verdict": item.model_verdict.value,
                "permutation_p": item.permutation_p,
                **interval_cells("percentile", item.percentile),
                "smallest_effect": item.effect,
                "alpha": asked.alpha,
                "runs": item.seeds,
            }
        )
    return rows


def verdict_columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Returns the columns of the verdict table, with decimals that fit its rows."""
    show = fitted([row[key] for row in rows for key in ("difference", "low", "high")])
    several = len({row["estimand"] for row in rows}) > 1
    return [
        Column("method", "curriculum", kind="method"),
        Column("control", "compared with", kind="method"),
        Column("setup", "setup"),
        Column("estimand", "by", where="shown" if several else "csv"),
        Column("verdict", "verdict", lambda value: WORDS[Verdict(value)], kind="verdict"),
        Column("difference", "difference", show, number=True),
        *Column.interval("interval", "interval", show),
        Column("interval_kind", "kind", where="csv"),
        *Column.interval("model", "if scores were near normal (Welch)", show),
        Column("model_verdict", "a t-test says"),
        Column("permutation_p", "p (permutation)", p_value, number=True),
        *Column.interval("percentile", "percentile (other papers)", show),
        Column("smallest_effect", "smallest effect", show, number=True),
        Column("alpha", "α", number(2), number=True),
        Column("runs", "n", number=True),
    ]


def _table(data: ReportData, family: list[ComparisonResult]) -> Table:
    rows = verdict_rows(data)
    caption = (
        f"Differences of {_measures(family)}, curriculum minus what it is compared with. "
        f"{words.intervals(item.interval for item in family)}\n"
        f"Beside it, at the same level, Welch's interval, as if scores were near normal. "
        f"{model_coverage(family)}."
        f"{words.percentiles(item.percentile for item in family)}"
    )
    return Table(
        "verdicts", "", caption, verdict_columns(rows), rows, optional=["model", "percentile"]
    )


def _forest(data: ReportData, scope: str, estimand: str) -> Figure | None:
    mine = data.comparisons(weighted=True, scope=scope, estimand=estimand)
    if not mine:
        return None
    controls = {item.question.b for item in mine}
    rows = []
    for item in mine:
        style, control = (data.styles[m] for m in (item.question.a, item.question.b))
        against = f" − {control.short}" if len(controls) > 1 else ""
        text = f"{style.short}{against}"
        rows.append(Row(style, text, item.shown, note=item.verdict.value))
    effect = mine[0].effect
    to = f" to {data.styles[controls.pop()].short}" if len(controls) == 1 else ""
    place = data.study.statistics.primary.index(estimand) * len(data.scopes)
    return row_figure(
        data,
        f"contrasts-{place + data.scopes.index(scope)}",
        f"Differences, {words.scope(scope)}",
        rows,
        f"difference in {mine[0].measure}{to}",
        per_row=0.4,
        before="Declared comparisons with ",
        after=f" Shaded: differences below the smallest effect of interest (±{effect:.3g}).",
        references=[(0.0, "no difference")],
        zone=(-effect, effect),
        include=[-effect, effect],
    )
