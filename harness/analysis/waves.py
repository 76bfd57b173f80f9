"""Adaptive studies: seeds are added, wave by wave, where a weighted question is still undecided.

How many seeds each cell has is a function of the records alone, so a study that is killed, resumed
or moved to other machines makes the same runs. Looking after every wave costs nothing: the verdicts
hold at every look. A t-test's, where no range of the scores is known, holds at the last alone: it
stops nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from pacebench.harness.analysis.comparisons import ComparisonResult, compare, questions
from pacebench.harness.analysis.scores import MISSING, scales_of, score_runs
from pacebench.harness.analysis.table import ScoreTable
from pacebench.harness.analysis.units import Units
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.runner import launch
from pacebench.harness.runner.launch import RunOptions, RunSummary
from pacebench.harness.runner.local import kept_workers
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import Counts
from pacebench.harness.study.models import Study

# What needs no more seeds. Not worse is a verdict too, but one that more seeds may sharpen.
DECIDED = (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT)


def run_waves(
    study: Study, results: Path, options: RunOptions | None, *, until_decided: bool = True
) -> RunSummary:
    """Runs an adaptive study until all its questions are decided or its seeds are used up.

    Args:
        study: The study.
        results: Where its folder is, or is to be.
        options: Where and how to run it.
        until_decided: Whether to go on after the wave that is under way.
    """
    root = results / study.name
    counts = planned_counts(study, root)
    made, seconds = 0, 0.0
    with kept_workers():
        while True:
            summary = launch.run(study, results=results, options=options, counts=counts)
            made, seconds = made + summary.made, seconds + summary.seconds
            summary = replace(summary, made=made, seconds=seconds)
            further = planned_counts(study, root)
            # More seeds of what is broken would crash as well.
            if summary.interrupted or summary.broken or not until_decided or further == counts:
                return summary
            counts = further


def planned_counts(study: Study, root: Path) -> Counts:
    """Returns how many seeds of each cell the study asks for, as far as its records go."""
    seeds = study.seeds
    counts: Counts = {
        (label, setup): seeds.start or seeds.most(setup)
        for label in study.labels
        for setup in study.setups
    }
    if RunStore(root).manifest() is None:
        return counts
    table = scored_table(study, root)
    while True:
        within = _within(table, counts)
        if (within.rows["status"] == MISSING).any() or len(within.rows) < sum(counts.values()):
            return counts
        further = _next_wave(within, counts)
        if further == counts:
            return counts
        counts = further


def open_questions(table: ScoreTable) -> list[ComparisonResult]:
    """Returns the weighted questions with their present verdicts, and nothing beside them."""
    asked = [q for q in questions(table.study, ()) if q.weighted]
    return [compare(table, q, confirmatory=False, beside=False) for q in asked]


def scored_table(study: Study, root: Path) -> ScoreTable:
    """Returns the scored runs of a study's results folder."""
    scales = scales_of(study)
    rows = score_runs(load_results(root), study, scales)
    units = Units.of(study)
    if units is not None:
        study, rows = units.study, units.scored(rows, study.budget)
    return ScoreTable(study, scales, rows, study_sequence(study.seeds.root, StudyRole.BOOTSTRAP, 0))


def _within(table: ScoreTable, counts: Counts) -> ScoreTable:
    """Returns the table as it was when the cells had so many seeds."""
    most = pd.Series(
        [counts.get(key, 0) for key in zip(table.rows["label"], table.rows["setup"], strict=True)],
        index=table.rows.index,
        dtype="int64",
    )
    return replace(table, rows=table.rows[table.rows["seed"] < most])


def _next_wave(table: ScoreTable, counts: Counts) -> Counts:
    seeds = table.study.seeds
    step = seeds.step or seeds.count
    further = dict(counts)
    for item in open_questions(table):
        decided = item.verdict in DECIDED and item.interval is not None
        if decided or item.contradiction:
            continue  # seeds that contradict each other do so for good
        asked = (item.question.a, item.question.b)
        for label in (label for name in asked for label in table.study.members(name)):
            for setup in table.setups(item.question.scope):
                further[label, setup] = min(counts[label, setup] + step, seeds.most(setup))
    return further
