"""Run accounting, provenance and plan, and what the study does not show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from pacebench.envs import Anchors
from pacebench.harness.analysis import freeze
from pacebench.harness.analysis.deviations import code_changes
from pacebench.harness.analysis.scores import UNRESOLVED
from pacebench.harness.analysis.table import tally
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.tables import (
    CELL,
    Column,
    Table,
    count,
    counts,
    fixed,
    number,
    percent,
)
from pacebench.harness.study.models import LEAST_REPLICATES

# Held-out contexts that the protocol asks for.
LEAST_CONTEXTS = 100

_RUN = (
    Column("setup", "setup"),
    Column("label", "method", kind="method"),
    *counts("seed"),
    Column("status", "status"),
    Column("how", "scored as"),
)
_RUN_ID = Column("run_id", "run", kind="mono")
SCORES = (
    Column("normalised", "normalised", fixed(3), number=True),
    Column("success", "success", percent(0), number=True),
)
_SCORED_RUN = (
    *_RUN,
    Column("return", "return", number(4), number=True),
    *SCORES,
    Column("auc", "AUC", fixed(3), number=True),
    Column("cvar", "worst 20 %", fixed(3), number=True),
    Column("steps_to_threshold", "steps to V₋", count, number=True),
    Column("env_steps", "steps", count, number=True),
    _RUN_ID,
)


def accounting(data: ReportData) -> doc.Section:
    """Returns what became of every planned run."""
    setups, labels, runs = data.study.setups, data.declared.labels, data.runs
    rows = []
    # Runs are counted, also where searches are what is analysed.
    for cell in tally(runs):
        mine = of_cell(runs, cell.setup, cell.label)
        retries = int((mine["attempts"] - 1).clip(lower=0).sum()) if "attempts" in mine else 0
        steps = int(mine["env_steps"].sum())
        rows.append(
            {**cell.to_dict(), "method": cell.label, "retries": retries, "env_steps": steps}
        )
    rows.sort(key=lambda row: (setups.index(row["setup"]), labels.index(row["method"])))
    there = int((runs["how"] != UNRESOLVED).sum())
    sentences = [f"{there} of {len(runs)} planned runs have a score; the plan is the denominator."]
    if data.retired:
        sentences.append(
            f"{data.retired} further runs belong to earlier versions of the study file and are "
            "not part of this report."
        )
    if data.history.quarantined:
        sentences.append(f"{data.history.quarantined} damaged runs were set aside.")
    taken = Counter(data.history.sources.values())
    sentences += [f"{n} runs were taken over from {name}." for name, n in sorted(taken.items())]
    columns = (
        *CELL,
        *counts("planned", "ok", "diverged"),
        Column("timeout", "timed out", number=True),
        Column("crashed_method", "crashed (method)", number=True),
        Column("crashed_infrastructure", "crashed (machine)", number=True),
        *counts("missing", "retries"),
        Column("env_steps", "environment steps", count, number=True),
    )
    caption = (
        "Diverged, timed-out and method-crashed runs score the declared floor. Runs lost to the "
        "machine count as the best and as the worst they could be; a missing run ends the seeds "
        "that its comparisons count."
    )
    blocks: list[doc.Block] = [doc.Text(" ".join(sentences))]
    table = Table("accounting", "", caption, columns, rows)
    if (runs["status"] != "ok").any():
        blocks += [table, _failures(data)]
    else:
        blocks += [doc.Text("Every planned run ended well."), doc.Fold("Runs per cell", [table])]
    said = "One row per planned run: the raw material of every table above."
    blocks.append(runs_table(data, said, _SCORED_RUN))
    return doc.Section("accounting", "Run accounting", blocks)


def _failures(data: ReportData) -> Table:
    return Table(
        "failures",
        "Runs that are not ok",
        "Every run that did not end well, and why.",
        (*_RUN, Column("reason", "reason"), _RUN_ID),
        _records(data.runs[data.runs["status"] != "ok"]),
    )


def runs_table(data: ReportData, caption: str, columns: Sequence[Column]) -> Table:
    """Returns every run, in the order of setups, methods and seeds."""
    setups, labels = data.study.setups, data.declared.labels
    rows = [
        {
            **run,
            "seed": run.get("named_seed", run["seed"]),
            "unit": data.units.get((run["label"], run["setup"], int(run["seed"]))),
        }
        for run in _records(data.runs.sort_values("seed"))
    ]
    rows.sort(key=lambda run: (setups.index(run["setup"]), labels.index(run["label"])))
    return Table("runs", "All runs", caption, columns, rows, folded=True)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def provenance(data: ReportData) -> doc.Section:
    """Returns the plan, its history, and where the results come from."""
    details: list[doc.Block] = [doc.Pairs(list(data.provenance)), _scales(data)]
    blocks = [*_plan(data), doc.Fold("Code, machines, held-out contexts and scales", details)]
    return doc.Section("provenance", "Provenance and plan", blocks)


def _plan(data: ReportData) -> Iterator[doc.Block]:
    """Yields when the plan was frozen, and every deviation from it."""
    frozen = data.frozen
    if frozen is None:
        yield doc.Text(
            "The plan was not frozen: nothing shows that estimands, family and number of runs "
            "were chosen before the data were seen. `pacebench freeze` does that."
        )
        return
    first = frozen.versions[0]
    yield doc.Text(
        f"The plan was frozen on {first.time} (SHA-256 {first.frozen.digest}), when "
        f"{first.finished} evaluation runs had finished"
        + (f" here and {first.elsewhere} in other studies." if first.elsewhere else ".")
    )
    for amendment in frozen.amendments:
        yield doc.Heading(
            f"Deviation of {amendment.time}, after {amendment.finished} finished runs"
        )
        yield doc.Text(amendment.reason)
        yield doc.Listing([change.sentence() for change in amendment.changes])
    if frozen.early:
        yield doc.Text(
            "It was frozen under an early rule of verdicts (Welch's t, Holm's correction); the "
            "verdicts here follow the present one, for the same questions."
        )
    changed = code_changes(frozen, data.history, data.comparisons(weighted=True))
    if notes := [*data.analysis.standing.notes, *changed]:
        yield doc.Heading("Deviations that the rule allows")
        yield doc.Listing(notes)
    if doubts := data.analysis.standing.model_doubts:
        yield doc.Heading("Why the t-tests promise less than their level")
        yield doc.Listing(doubts)
    _, silent = freeze.undeclared(frozen, data.declared, data.runs)
    if silent:
        yield doc.Heading("Deviations that were not declared")
        yield doc.Listing([change.sentence() for change in silent])


def _scales(data: ReportData) -> Table:
    return Table(
        "anchors",
        "Scales",
        "Normalised score = (return − baseline) / (reference − baseline), fixed per setup and "
        "never taken from the data at hand; without anchors it is the raw return. The floor is the "
        "normalised score of a failed run.",
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
        [
            {
                "setup": name,
                **_anchors(scale.anchors),
                "floor": None if math.isnan(scale.floor) else scale.floor,
                "threshold": scale.threshold,
            }
            for name, scale in data.scales.items()
        ],
    )


def _anchors(anchors: Anchors | None) -> dict[str, Any]:
    if anchors is None:
        return {"policies": "no anchors: raw returns"}
    low, high = anchors.baseline, anchors.reference
    return {
        "baseline": low.mean_return,
        "reference": high.mean_return,
        "policies": f"{low.policy}, {high.policy}",
        "episodes": anchors.episodes,
        "command": anchors.command,
    }


def limits(data: ReportData) -> doc.Section:
    """Returns what the study does not show, from what it did and did not do."""
    return doc.Section("limits", "What this does not show", [doc.Listing(list(limitations(data)))])


def limitations(data: ReportData) -> Iterator[str]:
    """Yields the limits of the study, one sentence each."""
    study, n, contexts = data.study, data.analysis.runs, data.study.evaluation.contexts
    environments = sorted({data.setups[name].environment for name in study.setups})
    if len(study.setups) == 1:
        yield f"Anything about other tasks: there is one setup, {study.setups[0]}."
    else:
        kinds = "one environment" if len(environments) == 1 else f"{len(environments)} environments"
        yield (
            f"Anything about other tasks: there are {len(study.setups)} setups of {kinds} "
            f"({', '.join(environments)}), chosen and not sampled."
        )
    yield (
        f"Anything about other learners: every run used {data.learners[0]}, with the same settings "
        "for all curricula of a setup."
        if all(entry.learner is None for entry in study.curricula)
        else "The effect of the curriculum alone: the learner or its settings differ between the "
        f"methods ({', '.join(data.learners)})."
    )
    if not data.tuned:
        yield (
            "How the curricula compare when each is tuned: none was tuned here, so the claims are "
            "about these settings of ε, V₋ and options."
        )
    elif not data.by_search:
        yield (
            f"How “method plus tuning” compares, which takes {LEAST_REPLICATES} independent "
            "searches per method: the claims are conditional on these configurations."
        )
    yield (
        f"What happens after {study.budget:,} environment steps, or between the "
        f"{len(study.evaluation_steps())} evaluations."
    )
    yield (
        f"Performance on contexts other than the target's: scores are means over {contexts} "
        "held-out target contexts with the deterministic policy."
    )
    if any(item.verdict is Verdict.UNDECIDED for item in data.comparisons(weighted=True)):
        yield f"Effects smaller than {n} seeds can show; “undecided” is not “equal”."
    if n:
        yield (
            f"Rare outcomes: what happens in up to {1 - 0.05 ** (1 / n):.0%} of the runs of a cell "
            f"may well not have happened in any of {n}, and then no interval from their spread "
            "knows of it; those of the verdicts, from the range alone, do."
        )
    if contexts < LEAST_CONTEXTS:
        yield (
            f"Scores as exact as the protocol wants them: it asks for {LEAST_CONTEXTS} held-out "
            f"contexts, here there are {contexts}."
        )
    cells = tally(data.runs)
    if unknown := sum(cell.unresolved for cell in cells):
        yield f"What the {words.plural(unknown, 'run')} without a result would have scored."
    if floored := sum(cell.floored for cell in cells):
        yield f"How failed runs would have ended ({floored} here): they score the floor by rule."
    if study.schedule.value_signal == "critic":
        yield "How curricula fare on realised returns: they were paced by the critic."
    yield (
        "Which curriculum is faster by the clock: the wall times of parallel runs are a split of "
        "a bill, not a measurement."
    )
    yield (
        "Any comparison without a share of α: it is printed at the full level, as a source of "
        "hypotheses."
    )
    if data.exploratory:
        yield "A confirmed finding: the report is exploratory for the reasons given above."
