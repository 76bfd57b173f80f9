"""What the study claims: a line per verdict, the contrasts, and the wealth behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pacebench.harness.analysis.comparisons import ComparisonResult, model_coverage
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.analysis.verdicts import number as digits
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.answer import MOST_COLUMNS, SIGNS, places
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.figures.rows import Row, RowPlot
from pacebench.harness.report.palette import Style
from pacebench.harness.report.sections.pairs import PAIR, VERDICT, pair_cells
from pacebench.harness.report.tables import Column, Table, fitted, interval_cells, number, p_value

_LEAST_WEALTH = 1e-3  # that is drawn: who has lost that much has lost


def claims(data: ReportData) -> doc.Section:
    """Returns the claims, one line each, with sentence, scope and strength folded."""
    family, said = data.family, data.study.statistics
    blocks: list[doc.Block] = []
    if data.exploratory:
        # Above the claims: whoever reads one has read this.
        warning = "Exploratory: read what follows as hypotheses, not as findings."
        blocks.append(doc.Warned(warning, data.analysis.exploratory))
    if not family:
        blocks.append(doc.Text("The study declares no comparison, so there is nothing to claim."))
    else:
        table = _table(data, family)
        blocks += [
            doc.Text(_rule(data.family, said.alpha)),
            doc.Claims([_claim(data, item) for item in family]),
            doc.Fold("All verdicts as a table, with Welch's, permutation and percentile", [table]),
        ]
    blocks += [doc.Warned(note) for note in data.notes]
    return doc.Section("claims", "Claims", blocks)


def _rule(family: Sequence[ComparisonResult], alpha: float) -> str:
    """Returns what the verdicts promise together."""
    many = "Both" if len(family) == 2 else f"All {len(family)}"
    who = "The verdict has" if len(family) == 1 else f"{many} verdicts share"
    right = "it is right" if len(family) == 1 else "they are right together"
    promise = f"{right} with probability {1 - alpha:.3g} at least"
    model = [item for item in family if item.interval is None and item.model is not None]
    normal = "only if scores are near normal and were looked at once"
    if len(model) == len(family):
        promise = f"no range of scores is known, so that {promise} {normal}"
    else:
        promise = f"at every look at the data {promise}, whatever the shape of the scores"
    if 0 < len(model) < len(family):
        titles = places(family)
        named = dict.fromkeys(titles[i.question.scope, i.question.estimand] for i in model)
        promise += f"; those on {' and on '.join(named)}, of no known range, {normal}"
    return (
        f"{who} α = {alpha:.3g}: {promise}. A verdict is where its interval lies; open a line for "
        "what it rests on."
    )


def contrasts(data: ReportData) -> list[RowPlot]:
    """Returns the intervals of the weighted comparisons, a figure per scope and estimand."""
    found = []
    titles = places(data.family)
    for place, ((scope, estimand), title) in enumerate(titles.items()):
        mine = data.comparisons(weighted=True, scope=scope, estimand=estimand)
        effect = mine[0].effect
        # Under many figures it is said once, where it is the same.
        size = f"{digits(effect)}, " if len(titles) <= MOST_COLUMNS else ""
        rows = [_contrast(data, item) for item in mine]
        values = [value for row in rows for value in row.drawn] + [-effect, effect]
        plot = RowPlot(
            f"contrasts-{place}",
            title,
            f"Dot and bar: difference and its interval. Shaded: differences below "
            f"{size}the smallest effect of interest.",
            _few_numbers(Axis.over(values, f"difference in {mine[0].measure}")),
            rows,
            zone=(-effect, effect),
            references=[0.0],
            head="n",
            notes=words.intervals(item.shown for item in mine),
        )
        found.append(data.figure(plot))
    return found


def _few_numbers(axis: Axis) -> Axis:
    """Returns an axis with every second number left out, but for 0, where there are many.

    Several contrasts stand side by side, and four numbers would run into each other.
    """
    if len(axis.ticks) <= 3:
        return axis
    step = axis.ticks[1] - axis.ticks[0]
    return replace(axis, ticks=tuple(t for t in axis.ticks if round(t / step) % 2 == 0))


def _contrast(data: ReportData, item: ComparisonResult) -> Row:
    shown = item.shown
    name, styles = _pair(data, item)
    return Row(
        styles,
        name,
        None if shown is None else (shown.low, shown.high),
        None if shown is None else shown.estimate,
        note=f"{SIGNS[item.verdict.value]} {item.seeds}",
        tone=item.verdict.value.replace(" ", "-"),
        tip=item.sentence(),
    )


def _pair(data: ReportData, item: ComparisonResult) -> tuple[str, list[Style]]:
    """Returns how figures call a comparison, and whose it is."""
    q = item.question
    styles = [data.style(q.a), data.style(q.b)]
    name = f"{styles[0].short} − {styles[1].short}"
    # The control's colour would be everywhere, so a comparison has that of the other side.
    return name, styles[::-1] if q.a == data.study.control else styles


def wealth(data: ReportData) -> doc.Section | None:
    """Returns the wealth of every weighted comparison over its seeds; None without any."""
    items = [item for item in data.family if item.wealth is not None and item.seeds]
    if not items:
        return None
    found = {id(item): _wealth_lines(item) for item in items}
    needed = [2 / item.question.alpha for item in items]
    values = [float(v) for lines in found.values() for line in lines for v in line.y]
    most = max(item.seeds for item in items)
    shown = [*(max(v, _LEAST_WEALTH) for v in values), *needed, 1.0]
    titles = places(data.family)
    y = Axis.over(shown, "wealth (log)", log=True, most=math.inf)
    panels = [
        Panel(
            *_pair(data, item),
            found[id(item)],
            note=f"{titles[item.question.scope, item.question.estimand]}: {item.verdict}",
            rules=[(line, f"2/α = {line:.3g}")],
        )
        for item, line in zip(items, needed, strict=True)
    ]
    plot = PanelPlot(
        "wealth",
        "Wealth of each comparison over its seeds",
        "A gambler who bets on “better” (solid) or “worse” (dashed) against no difference wins "
        "only by chance where there is none. At the line 2/α the comparison is decided.",
        Axis.over([0, most], "seeds", limits=(0.0, float(most)), count=3),
        y,
        panels,
    )
    figures = doc.Figures([data.figure(plot)])
    return doc.Section("wealth", "How the evidence grew", [figures])


def _wealth_lines(item: ComparisonResult) -> list[Line]:
    assert item.wealth is not None
    seeds = np.arange(item.seeds + 1, dtype=np.float64)
    sides = (("mean", item.wealth.above), ("second", item.wealth.below))
    # Of overwhelming evidence only as much as a float can hold.
    return [Line(seeds, np.exp(np.append(0.0, np.minimum(log, 700))), kind) for kind, log in sides]


def _claim(data: ReportData, item: ComparisonResult) -> doc.Claim:
    asked, shown = item.question, item.shown
    conditional = (
        " Conditional on these configurations: another search might have found others."
        if not data.by_search and data.tuned & {asked.a, asked.b}
        else ""
    )
    hidden = "".join(
        f" {words.capital(label)} never failed, which leaves a failure rate up to {rate:.0%}."
        for label, rate in item.hidden.items()
    )
    counted = (
        (item.lost, "run", "lost to the machine, counted as best and as worst"),
        (item.clipped, "score", "outside the range, clipped to it"),
    )
    doubtful = "".join(f" {words.plural(n, what)} {why}." for n, what, why in counted if n)
    strength = "confirmatory" if item.confirmatory else "exploratory"
    # A method that was not tuned has runs, one a seed.
    mixed = data.by_search and not {asked.a, asked.b} <= data.tuned
    units = "searches or seeds" if mixed else data.unit
    where = words.scope(asked.scope)
    return doc.Claim(
        outcome=item.verdict.value.replace(" ", "-"),
        word=f"{SIGNS[item.verdict.value]} {item.verdict}",
        sentence=item.sentence(),
        strength=f"Scope: {'the mean over ' if asked.scope == SUITE else ''}{where}"
        f"{data.trained}. Strength: {strength}, n = {item.seeds} {units}, α = "
        f"{asked.alpha:.2g}.{hidden}{doubtful}{conditional}",
        brief=(
            f"{asked.a} − {asked.b}",
            places(data.family)[asked.scope, asked.estimand],
            item.measure,
            "no interval"
            if shown is None
            else f"{digits(shown.estimate)} [{digits(shown.low)}, {digits(shown.high)}]",
            f"n = {item.seeds}",
        ),
        labels=(asked.a, asked.b),
    )


def _table(data: ReportData, family: list[ComparisonResult]) -> Table:
    rows = [
        {
            **pair_cells(item),
            "interval_kind": item.shown.kind if item.shown else None,
            **interval_cells("model", item.model),
            "model_verdict": item.model_verdict.value,
            "permutation_p": item.permutation_p,
            **interval_cells("percentile", item.percentile),
            "smallest_effect": item.effect,
        }
        for item in data.family
    ]
    show = fitted([row[key] for row in rows for key in ("difference", "low", "high")])
    several = len({row["estimand"] for row in rows}) > 1
    columns = [
        *PAIR,
        Column("estimand", "by", where="both" if several else "csv"),
        VERDICT,
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
    measures = " and ".join(dict.fromkeys(item.measure for item in family))
    return Table(
        "verdicts",
        "",
        f"Differences of {measures}, method minus what it is compared with. A verdict is where "
        "the interval lies, at the comparison's own share of α.",
        columns,
        rows,
        optional=["model", "percentile"],
        notes=f"{words.intervals(item.interval for item in family)}\nBeside it, at the same level, "
        f"Welch's interval, as if scores were near normal. {model_coverage(family)}."
        f"{words.percentiles(item.percentile for item in family)}",
    )
