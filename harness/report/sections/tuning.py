"""What tuning tried, found and cost."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping

from pacebench.harness.analysis.units import LEAST_REPLICATES
from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.tuning import SHORT, history_figure, response_figure
from pacebench.harness.report.palette import Style
from pacebench.harness.report.tables import CELL, MINUS, Column, Table, count, counts, fixed, number
from pacebench.harness.tuning.record import SearchRecord, TuningRecord


def tuning(data: ReportData) -> doc.Section | None:
    """Returns cost, choices and response of the searches; None where nothing was tuned."""
    record = data.tuning
    # The look of each tuned method, whatever its searches are called in the study.
    look: dict[str, Style] = {}
    for entry in data.study.curricula:
        if entry.tuned is not None:
            look.setdefault(entry.tuned.method, data.styles[entry.shown])
    searches = [search for search in record.searches if search.method in look] if record else []
    if record is None or not searches:
        return None
    blocks: list[doc.Block] = [
        doc.Text(_lead(data, record)),
        doc.Text(_optimism(searches)),
        doc.Fold("What was chosen", [_choices(searches)]),
        doc.Fold("What the searches cost", [_costs(searches)]),
    ]
    flagged = [
        f"{s.method} on {s.setup}: {_point({name: s.point[name] for name in s.boundary})}"
        for s in searches
        if s.boundary
    ]
    if flagged:
        warning = (
            "Some choices lie within 5 % of an end of their range: the range, not the method, "
            "may have decided."
        )
        blocks.append(doc.Warned(warning, flagged))
    for setup in dict.fromkeys(search.setup for search in searches):
        here = [search for search in searches if search.setup == setup]
        response = response_figure(data, setup, here, look)
        blocks.append(doc.Figures([history_figure(data, setup, here, look)]))
        if response is not None:
            blocks.append(doc.Fold(f"What was tried on {setup}", [doc.Figures([response])]))
    return doc.Section("tuning", "Tuning", blocks)


def _lead(data: ReportData, record: TuningRecord) -> str:
    first = record.searches[0]
    times = f"{record.replicates} independent searches" if record.replicates > 1 else "one search"
    unit = (
        "The search is the unit of every comparison of a tuned method: its score is the mean of "
        "its evaluation runs."
        if data.by_search
        else f"With fewer than {LEAST_REPLICATES} searches per method, every claim about a tuned "
        "method is conditional on these configurations."
    )
    return (
        f"Each method had {times} per setup by Optuna's {record.sampler} (pruner: "
        f"{record.pruner}) with the same budget of {count(first.budget)} environment steps, "
        f"{record.seeds_per_trial} tuning runs per trial, judged by {record.estimand} on held-out "
        "contexts of their own. The best were run again on fresh tuning seeds, and the best of "
        f"those was chosen. Evaluation seeds were never seen. {unit}"
    )


def _optimism(searches: list[SearchRecord]) -> str:
    gap = statistics.fmean(search.optimism for search in searches)
    gain = statistics.fmean(search.gain for search in searches)
    word, sign = "more" if gap >= 0 else "less", "+" if gain >= 0 else MINUS
    return (
        f"On average over {len(searches)} searches the best trial scored {abs(gap):.3f} {word} in "
        "its search than on fresh seeds. That optimism gap is why tuning scores are not results. "
        f"On fresh seeds the choices scored {sign}{abs(gain):.3f} against the study's own "
        "configurations; the verdicts above judge them on evaluation seeds."
    )


def _costs(searches: list[SearchRecord]) -> Table:
    rows = []
    for method, setup in dict.fromkeys((s.method, s.setup) for s in searches):
        mine = [s for s in searches if (s.method, s.setup) == (method, setup)]
        states = sum((Counter(s.states()) for s in mine), Counter[str]())
        rows.append(
            {
                "setup": setup,
                "method": method,
                "searches": len(mine),
                "trials": sum(len(s.trials) for s in mine),
                "complete": states["COMPLETE"],
                "pruned": states["PRUNED"],
                "failed": states["FAIL"],
                "floored": states["runs at the floor"],
                "search_steps": sum(s.env_steps for s in mine),
                "total_steps": sum(s.total_steps for s in mine),
                "cpu_hours": sum(s.total_seconds for s in mine) / 3600,
            }
        )
    return Table(
        "tuning-cost",
        "Cost",
        "Budgets are equal in environment steps of the search; re-ranking comes on top, the same "
        "for all. CPU-hours are the training time of both on one core each.",
        (
            *CELL,
            *counts("searches", "trials", "complete", "pruned", "failed"),
            Column("floored", "runs at the floor", number=True),
            Column("search_steps", "steps of the search", count, number=True),
            Column("total_steps", "with re-ranking", count, number=True),
            Column("cpu_hours", "CPU-hours", number(2), number=True),
        ),
        rows,
    )


def _choices(searches: list[SearchRecord]) -> Table:
    rows = [
        {
            "setup": s.setup,
            "method": s.method,
            "search": s.replicate + 1,
            "chosen": _point(s.point),
            "searched": s.candidates[0].searched,
            "best_again": s.candidates[0].mean,
            "optimism": s.optimism,
            "tuned": s.chosen_candidate.mean,
            "own": s.own_candidate.mean,
            "gain": s.gain,
            "gain_error": _paired_error(s),
            "importance": _importance(s.importance),
            "boundary": ", ".join(SHORT.get(name, name) for name in s.boundary),
        }
        for s in searches
    ]
    fresh = len(searches[0].own_candidate.scores)
    show = fixed(3)
    return Table(
        "tuning-choice",
        "Choices",
        f"Normalised scores of the best trial in its search and on {fresh} fresh tuning seeds (the "
        "optimism gap), and there of the re-ranked choice and of the study's own configuration. "
        "Importance is for reaching the best trials, by PED-ANOVA.",
        (
            *CELL,
            *counts("search"),
            Column("chosen", "chosen values"),
            Column("searched", "best trial, searched", show, number=True),
            Column("best_again", "best trial, fresh", show, number=True),
            Column("optimism", "optimism gap", show, number=True),
            Column("tuned", "chosen", show, number=True),
            Column("own", "own", show, number=True),
            Column("gain", "gain", show, number=True),
            Column("gain_error", "s.e.", show, number=True),
            Column("importance", "importance"),
            Column("boundary", "at a boundary"),
        ),
        rows,
        notes="The gain has the standard error of paired differences, and is itself the best of a "
        "few.",
    )


def _paired_error(search: SearchRecord) -> float | None:
    pairs = zip(search.chosen_candidate.scores, search.own_candidate.scores, strict=True)
    differences = [a - b for a, b in pairs]
    if len(differences) < 2:
        return None
    return statistics.stdev(differences) / math.sqrt(len(differences))


def _importance(shares: Mapping[str, float]) -> str:
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{SHORT.get(name, name)} {share:.0%}" for name, share in ordered)


def _point(point: Mapping[str, object]) -> str:
    return ", ".join(f"{SHORT.get(name, name)} = {_value(v)}" for name, v in point.items())


def _value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
