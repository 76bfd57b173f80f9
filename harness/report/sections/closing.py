"""Run accounting, provenance and plan, and what the study does not show."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pacebench.harness.analysis import freeze
from pacebench.harness.analysis.scores import UNRESOLVED
from pacebench.harness.analysis.units import LEAST_REPLICATES
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.document import (
    Block,
    Heading,
    Listing,
    Pairs,
    Section,
    TableBlock,
    Text,
)
from pacebench.harness.report.tables import Column, Table, count, fixed, number, percent
from pacebench.harness.statistics.missing import Accounting, tally
from pacebench.harness.statistics.verdicts import VerdictKind


def accounting(view: ReportData) -> Section:
    """Returns what became of every planned run."""
    cells = {(c.method, c.setup): c for c in _cells(view)}
    rows: list[dict[str, Any]] = []
    for setup in view.study.setups:
        for label in view.declared.labels:
            cell = cells[label, setup]
            mine = view.runs[(view.runs["setup"] == setup) & (view.runs["label"] == label)]
            retries = int((mine["attempts"] - 1).clip(lower=0).sum()) if "attempts" in mine else 0
            rows.append(
                {
                    **cell.to_dict(),
                    "retries": retries,
                    "env_steps": int(mine["env_steps"].sum()),
                }
            )
    total, there = len(view.runs), int((view.runs["how"] != UNRESOLVED).sum())
    sentences = [f"{there} of {total} planned runs have a score; the plan is the denominator."]
    if view.retired:
        sentences.append(
            f"{view.retired} further runs belong to earlier versions of the study file and are "
            "not part of this report."
        )
    if view.history.quarantined:
        sentences.append(f"{view.history.quarantined} damaged runs were set aside.")
    taken = Counter(view.history.sources.values())
    sentences += [f"{n} runs were taken over from {name}." for name, n in sorted(taken.items())]
    columns = (
        Column("setup", "setup"),
        Column("method", "curriculum", kind="method"),
        Column("planned", "planned", number=True),
        Column("ok", "ok", number=True),
        Column("diverged", "diverged", number=True),
        Column("timeout", "timed out", number=True),
        Column("crashed_method", "crashed (method)", number=True),
        Column("crashed_infrastructure", "crashed (machine)", number=True),
        Column("missing", "missing", number=True),
        Column("retries", "retries", number=True),
        Column("env_steps", "environment steps", count, number=True),
    )
    caption = (
        "Diverged, timed-out and method-crashed runs score the declared floor. Runs lost to the "
        "machine or missing are unknown: they bound the estimates from both sides and block a "
        "verdict they could turn."
    )
    blocks: list[Block] = [
        Text(" ".join(sentences)),
        TableBlock(Table("accounting", "", caption, columns, rows)),
    ]
    failed = view.runs[view.runs["status"] != "ok"]
    if len(failed):
        blocks.append(TableBlock(_failures(failed.to_dict("records"))))
    blocks.append(TableBlock(_all_runs(view)))
    return Section("accounting", "Run accounting", blocks)


def _cells(view: ReportData) -> tuple[Accounting, ...]:
    """Counts runs, also where searches are what is analysed."""
    return tally(view.runs.rename(columns={"label": "method"}))


def _failures(runs: list[dict[Any, Any]]) -> Table:
    return Table(
        "failures",
        "Runs that are not ok",
        "Every run that did not end well, and why.",
        (
            Column("setup", "setup"),
            Column("label", "curriculum", kind="method"),
            Column("seed", "seed", number=True),
            Column("status", "status"),
            Column("how", "scored as"),
            Column("reason", "reason"),
            Column("run_id", "run", kind="mono"),
        ),
        [{str(k): v for k, v in run.items()} for run in runs],
    )


# Held-out contexts that the protocol asks for.
LEAST_CONTEXTS = 100

_SHOWN = ("setup", "label", "seed", "status", "how", "return", "normalised", "success", "auc",
          "cvar", "steps_to_threshold", "env_steps", "run_id")  # fmt: skip


def _all_runs(view: ReportData) -> Table:
    place = {label: i for i, label in enumerate(view.declared.labels)}
    setups = {setup: i for i, setup in enumerate(view.study.setups)}
    runs = sorted(
        view.runs[list(_SHOWN)].to_dict("records"),
        key=lambda run: (setups[run["setup"]], place[run["label"]], run["seed"]),
    )
    return Table(
        "runs",
        "All runs",
        "One row per planned run: the raw material of every table above.",
        (
            Column("setup", "setup"),
            Column("label", "curriculum", kind="method"),
            Column("seed", "seed", number=True),
            Column("status", "status"),
            Column("how", "scored as"),
            Column("return", "return", number(4), number=True),
            Column("normalised", "normalised", fixed(3), number=True),
            Column("success", "success", percent(0), number=True),
            Column("auc", "AUC", fixed(3), number=True),
            Column("cvar", "worst 20 %", fixed(3), number=True),
            Column("steps_to_threshold", "steps to V₋", count, number=True),
            Column("env_steps", "steps", count, number=True),
            Column("run_id", "run", kind="mono"),
        ),
        [{str(k): v for k, v in run.items()} for run in runs],
        folded=True,
    )


def provenance(view: ReportData) -> Section:
    """Returns the plan, its history, and where the results come from."""
    blocks: list[Block] = []
    frozen = view.frozen
    if frozen is None:
        blocks.append(
            Text(
                "The plan was not frozen: nothing shows that estimands, family and number of runs "
                "were chosen before the data were seen. `pacebench freeze` does that."
            )
        )
    else:
        first = frozen.versions[0]
        blocks.append(
            Text(
                f"The plan was frozen on {first.time} (SHA-256 {first.frozen.digest}), when "
                f"{first.finished} evaluation runs had finished"
                + (f" here and {first.elsewhere} in other studies." if first.elsewhere else ".")
            )
        )
        for amendment in frozen.amendments:
            blocks.append(
                Heading(f"Deviation of {amendment.time}, after {amendment.finished} finished runs")
            )
            blocks.append(Text(amendment.reason))
            blocks.append(Listing([change.sentence() for change in amendment.changes]))
        silent = freeze.undeclared(frozen, view.declared)
        if silent:
            blocks.append(Heading("Deviations that were not declared"))
            blocks.append(Listing([change.sentence() for change in silent]))
    blocks.append(Pairs(list(view.provenance)))
    anchors = [
        {
            "setup": name,
            "baseline": scale.anchors.baseline.mean_return,
            "reference": scale.anchors.reference.mean_return,
            "policies": f"{scale.anchors.baseline.policy}, {scale.anchors.reference.policy}",
            "episodes": scale.anchors.episodes,
            "floor": scale.floor,
            "threshold": scale.threshold,
            "command": scale.anchors.command,
        }
        for name, scale in view.scales.items()
    ]
    table = Table(
        "anchors",
        "Scales",
        "Normalised score = (return − baseline) / (reference − baseline), fixed per setup and "
        "never taken from the data at hand. The floor is the normalised score of a failed run.",
        (
            Column("setup", "setup"),
            Column("baseline", "baseline return (0)", number(4), number=True),
            Column("reference", "reference return (1)", number(4), number=True),
            Column("policies", "policies"),
            Column("episodes", "episodes each", count, number=True),
            Column("floor", "floor", fixed(3), number=True),
            Column("threshold", "V₋", number(4), number=True),
            Column("command", "measured by", kind="mono"),
        ),
        anchors,
    )
    blocks.append(TableBlock(table))
    return Section("provenance", "Provenance and plan", blocks)


def limits(view: ReportData) -> Section:
    """Returns what the study does not show, from what it did and did not do."""
    return Section("limits", "What this does not show", [Listing(limitations(view))])


def limitations(view: ReportData) -> list[str]:
    """Returns the limits of the study, one sentence each."""
    study, n = view.study, view.analysis.runs
    names = sorted({view.setups[name].environment for name in study.setups})
    said = []
    if len(study.setups) == 1:
        said.append(f"Anything about other tasks: there is one setup, {study.setups[0]}.")
    else:
        family = "one environment" if len(names) == 1 else f"{len(names)} environments"
        said.append(
            f"Anything about other tasks: there are {len(study.setups)} setups of {family} "
            f"({', '.join(names)}), chosen and not sampled."
        )
    same = all(entry.learner is None for entry in study.curricula)
    said.append(
        f"Anything about other learners: every run used {view.learners[0]}, with the same settings "
        "for all curricula of a setup."
        if same
        else "The effect of the curriculum alone: the learner or its settings differ between the "
        f"methods ({', '.join(view.learners)})."
    )
    if not view.tuned:
        said.append(
            "How the curricula compare when each is tuned: none was tuned here, so the claims are "
            "about these settings of ε, V₋ and options."
        )
    elif not view.by_search:
        said.append(
            f"How “method plus tuning” compares, which takes {LEAST_REPLICATES} independent "
            "searches per method: the claims are conditional on these configurations."
        )
    said.append(
        f"What happens after {study.budget:,} environment steps, or between the "
        f"{len(study.evaluation_steps())} evaluations."
    )
    said.append(
        f"Performance on contexts other than the target's: scores are means over "
        f"{study.evaluation.contexts} held-out target contexts with the deterministic policy."
    )
    if any(
        c.verdict.outcome is VerdictKind.INCONCLUSIVE for c in view.analysis.contrasts if c.family
    ):
        said.append(
            f"Effects smaller than n = {n} runs per cell can find; “inconclusive” is not “equal”."
        )
    if n:
        said.append(
            f"Rare outcomes: what happens in up to {1 - 0.05 ** (1 / n):.0%} of the runs of a cell "
            f"may well not have happened in any of {n}, and then no interval from their spread "
            "knows of it."
        )
    if study.evaluation.contexts < LEAST_CONTEXTS:
        said.append(
            f"Scores as exact as the protocol wants them: it asks for {LEAST_CONTEXTS} held-out "
            f"contexts, here there are {study.evaluation.contexts}."
        )
    unknown = sum(cell.unresolved for cell in _cells(view))
    if unknown:
        runs = f"{unknown} run{'s' if unknown > 1 else ''}"
        said.append(f"What the {runs} without a result would have scored.")
    floored = sum(cell.floored for cell in _cells(view))
    if floored:
        said.append(
            f"How failed runs would have ended ({floored} here): they score the floor by rule."
        )
    if study.schedule.value_signal == "critic":
        said.append("How curricula fare on realised returns: they were paced by the critic.")
    said.append(
        "Which curriculum is faster by the clock: the wall times of parallel runs are a split of "
        "a bill, not a measurement."
    )
    said.append(
        "Any comparison outside the declared family: it is printed without adjustment, as a "
        "source of hypotheses."
    )
    if view.exploratory:
        said.append("A confirmed finding: the report is exploratory for the reasons given above.")
    return said
