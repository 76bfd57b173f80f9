"""Tables of a measurement."""

from __future__ import annotations

from typing import Any

from pacebench.harness.overhead.words import clock_name, duration, factor, percent
from pacebench.harness.report.tables import Column, Table, fixed, number
from pacebench.harness.statistics.verdicts import VerdictKind

Finding = dict[str, Any]

_TONES = {
    "slower": VerdictKind.WORSE.value,
    "faster": VerdictKind.BETTER.value,
    "inconclusive": VerdictKind.INCONCLUSIVE.value,
}


def all_tables(summary: Finding) -> list[Table]:
    """Returns every table that the findings allow."""
    tables = [
        ratio_table(summary),
        times_table(summary),
        scaling_table(summary),
        quality_table(summary),
    ]
    if summary["training"]:
        tables.append(training_table(summary["training"]))
    return tables


def times_table(summary: Finding) -> Table:
    """Returns the time per update of every curriculum in every cell, one column per curriculum."""
    limit = summary["settings"]["limit"]
    names = summary["settings"]["curricula"]
    rows = []
    for cell in summary["cells"]:
        row: Finding = {"stream": _stream(cell), "d": cell["d"], "size": cell["size"]}
        row["floor"] = cell["floor"] - 1
        for name in names:
            found = cell["methods"][name]
            shown = (
                duration(found["time"]["estimate"])
                if found["status"] == "ok"
                else f"> {limit:g} s"
                if found["status"] == "over"
                else "error"
            )
            if found["note"] == "out of memory":
                shown = "> memory"
            row[name] = shown
        rows.append(row)
    columns = (
        Column("stream", "stream"),
        Column("d", "d", number=True),
        Column("size", "K", number=True),
        *(Column(name, name) for name in names),
        Column("floor", "noise floor", percent, number=True),
    )
    caption = (
        f"{clock_name(summary)} per update, geometric mean over "
        f"{summary['settings']['blocks']} blocks. "
        f"“> {limit:g} s” is what does not finish within the stated limit, on average over the "
        "probed updates, or was over it at smaller d with the same K already; “error” "
        "is an update that raised one. Intervals and CPU times are in the ratio table."
    )
    return Table("times", "Time per update", caption, columns, rows, folded=True)


def ratio_table(summary: Finding) -> Table:
    """Returns all ratios to the closed form with intervals and verdicts."""
    rows = []
    for cell in summary["cells"]:
        for name, found in cell["methods"].items():
            row: Finding = {
                "stream": _stream(cell),
                "d": cell["d"],
                "size": cell["size"],
                "method": name,
                "status": found["status"] if not found["note"] else found["note"],
                "floor": cell["floor"] - 1,
            }
            if found["status"] == "ok":
                row |= {"seconds": found["wall"]["estimate"], "cpu": found["cpu"]["estimate"]}
                row["outcome"] = found["ratio"]["outcome"] if "ratio" in found else None
                row["seconds_low"], row["seconds_high"] = (
                    found["wall"]["low"],
                    found["wall"]["high"],
                )
            if "wall_ratio" in found:
                wall, cpu = found["wall_ratio"], found["cpu_ratio"]
                row |= {
                    "ratio": wall["estimate"],
                    "interval": (wall["low"], wall["high"]),
                    "low": wall["low"],
                    "high": wall["high"],
                    "cpu_ratio": cpu["estimate"],
                    "cpu_interval": (cpu["low"], cpu["high"]),
                    "cpu_low": cpu["low"],
                    "cpu_high": cpu["high"],
                }
            rows.append(row)
    columns = (
        Column("stream", "stream"),
        Column("d", "d", number=True),
        Column("size", "K", number=True),
        Column("method", "curriculum", kind="method"),
        Column("seconds", "wall time", duration, number=True),
        Column("seconds_low", "", where="csv"),
        Column("seconds_high", "", where="csv"),
        Column("cpu", "CPU time", duration, number=True),
        Column("ratio", "× spgl", factor, number=True),
        Column("interval", "95 % interval", _span, number=True, where="shown"),
        Column("low", "", where="csv"),
        Column("high", "", where="csv"),
        Column("outcome", "verdict"),
        Column("cpu_ratio", "CPU × spgl", factor, number=True),
        Column("cpu_interval", "95 % interval (CPU)", _span, number=True, where="shown"),
        Column("cpu_low", "", where="csv"),
        Column("cpu_high", "", where="csv"),
        Column("floor", "noise floor", percent, number=True),
        Column("status", "status"),
    )
    caption = (
        f"Ratios over {summary['settings']['blocks']} paired blocks, each a fresh process; slower "
        "or faster only where the interval excludes 1 and the estimate is beyond the noise floor "
        "of the cell's A/A."
    )
    return Table("ratios", "Ratios to the closed form", caption, columns, rows, folded=True)


def headline_table(cells: list[Finding]) -> Table:
    """Returns the ratios on the headline streams, for the page and the report's section."""
    rows = []
    for cell in cells:
        for name, found in cell["methods"].items():
            if found["status"] != "ok":
                continue
            against = found.get("ratio")
            good = found.get("quality")
            rows.append(
                {
                    "stream": _stream(cell),
                    "size": cell["size"],
                    "method": name,
                    "seconds": found["time"]["estimate"],
                    "ratio": against["estimate"] if against else None,
                    "interval": (against["low"], against["high"]) if against else None,
                    "outcome": _TONES[against["outcome"]] if against else None,
                    "gap": good["gap_median"] if good else None,
                    "budget": good["budget_worst"] if good else None,
                    "infeasible": good["infeasible"] / good["updates"] if good else None,
                    "rejected": good["rejected"] if good else None,
                }
            )
    words = {tone: word for word, tone in _TONES.items()}
    columns = (
        Column("stream", "stream"),
        Column("size", "K", number=True),
        Column("method", "curriculum", kind="method"),
        Column("seconds", "time per update", duration, number=True),
        Column("ratio", "× spgl", factor, number=True),
        Column("interval", "95 % interval", _span, number=True),
        Column("outcome", "verdict", lambda tone: words[tone], kind="verdict"),
        Column("gap", "gap (median)", percent, number=True),
        Column("budget", "KL/ε (worst)", number(3), number=True),
        Column("infeasible", "infeasible", percent, number=True),
        Column("rejected", "rejected", number=True),
    )
    caption = (
        "Time and quality on the same updates. Gap: 0 % is the best feasible answer of any method, "
        "100 % is not moving; negative gaps are bought by breaking a constraint."
    )
    return Table("headline", "Time and quality of one update", caption, columns, rows)


def scaling_table(summary: Finding) -> Table:
    """Returns the fitted exponents."""
    rows = [
        {
            "method": name,
            "alpha": fit["d"]["estimate"],
            "alpha_interval": (fit["d"]["low"], fit["d"]["high"]),
            "beta": fit["size"]["estimate"] if fit["size"] else None,
            "beta_interval": (fit["size"]["low"], fit["size"]["high"]) if fit["size"] else None,
            "fixed": fit["fixed"],
            "cells": fit["cells"],
            "working": fit["working"],
            "misfit": fit["misfit"],
            "largest": fit["range"][1],
        }
        for name, fit in summary["scaling"].items()
    ]
    columns = (
        Column("method", "curriculum", kind="method"),
        Column("alpha", "exponent of d", fixed(2), number=True),
        Column("alpha_interval", "95 % interval", _plain_span, number=True),
        Column("beta", "exponent of K", fixed(2), number=True),
        Column("beta_interval", "95 % interval (K)", _plain_span, number=True),
        Column("fixed", "fixed cost", duration, number=True),
        Column("cells", "cells", number=True),
        Column("working", "of them dominated by work", number=True),
        Column("largest", "largest K·d", number=True),
        Column("misfit", "largest |ln misfit|", fixed(2), number=True),
    )
    caption = (
        "t = t₀ + c·dᵅ·Kᵝ, least squares on the logarithms, fitted in every block; t intervals "
        "over blocks. Work dominates a cell that takes at least three times the cheapest one. "
        "Where no or few cells are dominated by work, the exponents extrapolate."
    )
    return Table("scaling", "Growth with d and K", caption, columns, rows)


def quality_table(summary: Finding) -> Table:
    """Returns the quality of every method over all instances it was judged on."""
    rows = [{"method": name, **found} for name, found in summary["quality"].items()]
    columns = (
        Column("method", "curriculum", kind="method"),
        Column("problem", "problem"),
        Column("updates", "updates judged", number=True),
        Column("gap_median", "gap (median)", percent, number=True),
        Column("gap_worst", "gap (worst)", percent, number=True),
        Column("budget_median", "KL/ε (median)", number(3), number=True),
        Column("budget_worst", "KL/ε (worst)", number(3), number=True),
        Column("over_budget", "over budget", number=True),
        Column("converging", "convergence steps", number=True),
        Column("short", "short of V₋", number=True),
        Column("value_worst", "worst value − V₋", fixed(3), number=True),
        Column("rejected", "rejected", number=True),
        Column("iterations", "iterations (mean)", fixed(1), number=True),
    )
    caption = (
        "All by exact formulas. The budget is KL(p'‖p) for the forward problem and KL(p‖p') for "
        "the reverse one, the value is importance-weighted, in standard deviations of V; a "
        "violation is more than 0.1 % of ε or of that deviation. Methods that linearise the value "
        "are judged by the exact one. A rejected update leaves the distribution in place."
    )
    return Table("quality", "Quality of the answers", caption, columns, rows)


def training_table(training: Finding) -> Table:
    """Returns shares of training time and scores per step and per second."""
    rows = [
        {
            "method": name,
            "share": found["share"]["estimate"],
            "share_interval": (found["share"]["low"], found["share"]["high"]),
            "per_update": found["per_update"]["estimate"],
            "per_1000": found["per_1000_steps"]["estimate"],
            "seconds": found["seconds"]["estimate"],
            "ratio": found.get("training_ratio", {}).get("estimate"),
            "final": found["final"]["estimate"],
            "final_interval": (found["final"]["low"], found["final"]["high"]),
            "at_common": found["at_common"]["estimate"],
            "at_common_interval": (found["at_common"]["low"], found["at_common"]["high"]),
            "rejected": found["rejected"],
        }
        for name, found in training["methods"].items()
    ]
    common = duration(training["common_seconds"])
    columns = (
        Column("method", "curriculum", kind="method"),
        Column("share", "share of training", percent, number=True),
        Column("share_interval", "95 % interval", _percent_span, number=True),
        Column("per_update", "per update", duration, number=True),
        Column("per_1000", "per 1000 steps", duration, number=True),
        Column("seconds", "training time", duration, number=True),
        Column("ratio", "× spgl", factor, number=True),
        Column("final", "return, all steps", number(3), number=True),
        Column("final_interval", "95 % interval (steps)", _number_span, number=True),
        Column("at_common", f"return after {common}", number(3), number=True),
        Column("at_common_interval", "95 % interval (seconds)", _number_span, number=True),
        Column("rejected", "rejected", number=True),
    )
    caption = (
        f"Instrumented runs on {training['setup']}, {training['env_steps']} environment steps, "
        f"{training['seeds']} seeds, one process at a time on one thread, curricula in random "
        "order within each seed. Evaluation is not counted. The last score is read at "
        "the mean time of the quickest curriculum; a run that was done before keeps its last score."
    )
    return Table("training", "Share of training time, score per second", caption, columns, rows)


def _stream(cell: Finding) -> str:
    return cell["name"] if cell["kind"] == "recorded" else "synthetic"


def _span(ends: Any) -> str:
    return f"{factor(ends[0])} to {factor(ends[1])}"


def _plain_span(ends: Any) -> str:
    return f"{fixed(2)(ends[0])} to {fixed(2)(ends[1])}"


def _percent_span(ends: Any) -> str:
    return f"{percent(ends[0])} to {percent(ends[1])}"


def _number_span(ends: Any) -> str:
    return f"{number(3)(ends[0])} to {number(3)(ends[1])}"
