"""Scores that were not made here, as the study and the frames that the analysis knows.

What a file of scores cannot say is said in words instead: which runs were planned, which crashed,
and what was asked before the data were seen.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from pacebench.envs.setup import Anchors
from pacebench.harness.analysis.analyse import Analysis, analyse
from pacebench.harness.analysis.comparisons import compare, questions
from pacebench.harness.analysis.deviations import Standing
from pacebench.harness.analysis.foreign_notes import about_scores, unknowns
from pacebench.harness.analysis.scores import MISSING, Scale, score_runs, target_curves
from pacebench.harness.analysis.table import MEASURES, SUITE, ScoreTable
from pacebench.harness.errors import UserError
from pacebench.harness.records import EVALUATION_COLUMNS, Status
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.store.foreign.scores import ForeignScores
from pacebench.harness.store.reading import first_mistake
from pacebench.harness.study.models import Label, Study
from pacebench.registry import nearest

# A run that ends before this share of its task's longest has ended early.
_WHOLE = 0.95
_MOST_POINTS = 50
UNPLANNED = (
    "These numbers were not made here: nothing shows that methods, tasks and comparisons were "
    "chosen before the data were seen."
)


@dataclass(frozen=True)
class ForeignQuestions:
    """What is asked of scores from elsewhere.

    Attributes:
        name: How the report is called; by default after the file.
        bounds: Lowest and highest score that is possible on every task.
        task_bounds: The same on single tasks.
        normalised: Whether scores are on one scale, 0 a baseline and 1 a reference.
        suite: Whether to ask about the mean over tasks instead of each one.
        control: The method that the others are compared with; by default the first.
        pairs: The comparisons, instead of all with the control.
        smallest_effect: δ, as a share of the range, or in units of the score where there is none.
        alpha: Probability that any verdict is wrong.
        until: Scores after this step are left out.
    """

    name: str | None = None
    bounds: tuple[float, float] | None = None
    task_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    normalised: bool = False
    suite: bool = False
    control: str | None = None
    pairs: Sequence[tuple[str, str]] = ()
    smallest_effect: float = 0.05
    alpha: float = 0.05
    until: int | None = None


@dataclass(frozen=True, eq=False)
class ForeignStudy:
    """Scores from elsewhere with a study around them.

    Attributes:
        study: What is asked, as a study.
        scales: The scale of each task.
        runs: One row per run, as `load_results` would return it.
        evaluations: One row per score.
        source: What the scores were read from.
        digest: Hash of the scores.
        stepped: Whether the scores have steps.
        notes: What the reader must know of the scores.
        unknown: What cannot be known of them, one sentence each.
    """

    study: Study
    scales: Mapping[str, Scale]
    runs: pd.DataFrame
    evaluations: pd.DataFrame
    source: str
    digest: str
    stepped: bool
    notes: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def updates(self) -> pd.DataFrame:
        """No curriculum is known."""
        columns = ["run_id", "label", "setup", "seed", "current"]
        return pd.DataFrame(columns=columns).astype({"seed": np.int64})

    @property
    def solved_words(self) -> str:
        """When a run counts as solved."""
        share = self.study.statistics.solved
        return f"success of {share:.0%} or more, or without flags a normalised score of {share:g}"

    @cached_property
    def curves(self) -> pd.DataFrame:
        """The scores over steps; see `target_curves`."""
        return target_curves(self, self.study, self.scales)

    @cached_property
    def table(self) -> ScoreTable:
        """One row per run with its scores."""
        rows = score_runs(self, self.study, self.scales, self.curves)
        scaled = not any(scale.raw_only for scale in self.scales.values())
        flagged = bool(rows["success"].notna().any())
        if not flagged:
            # Without success flags, a normalised score says whether a run is solved.
            solved = rows["normalised"] >= self.study.statistics.solved
            known = rows["normalised"].notna() & scaled
            rows["solved"] = solved.astype(float).where(known)
        measures = {**MEASURES, "return": "mean score", "solved": "share of solved runs"}
        kept = ["return", *(["success"] if flagged else []), *(["solved"] * (flagged or scaled))]
        kept += ["normalised", "auc"] if scaled else ["auc"] * (len(self.scales) == 1)
        root = study_sequence(self.study.seeds.root, StudyRole.BOOTSTRAP, 0)
        named = {name: measures[name] for name in kept}
        return ScoreTable(self.study, self.scales, rows, root, named)

    def verdicts(self) -> list[dict[str, Any]]:
        """Returns the verdicts of `analysis`, without the estimates that take most of its time."""
        asked = questions(self.study, ())
        made = [compare(self.table, q, confirmatory=False) for q in asked if q.weighted]
        return [item.to_dict() for item in made]

    @cached_property
    def analysis(self) -> Analysis:
        """What the statistics say; every verdict is exploratory."""
        return analyse(self.table, Standing((UNPLANNED,)))


def foreign_study(scores: ForeignScores, asked: ForeignQuestions) -> ForeignStudy:
    """Returns scores from elsewhere as the analysis knows them.

    Raises:
        UserError: What is asked does not fit the scores, or a score cannot be.
    """
    rows = scores.rows
    if asked.until is not None:
        rows = rows[rows["step"] <= asked.until]
        if rows.empty:
            raise UserError(f"{scores.source}: has no score up to step {asked.until}.")
    scales = _scales(rows, asked, normalised=asked.normalised or scores.normalised)
    if asked.suite and (len(scales) < 2 or any(scale.raw_only for scale in scales.values())):
        raise UserError(
            "--suite: a mean over tasks needs several of them, on one scale; give --range, or "
            "--normalised where scores are so already."
        )
    _refuse_outside(rows, scales)
    runs, grid, lost = _runs(rows)
    study = _study(scores.source, rows, runs, grid, asked)
    episodes = _evaluations(rows, runs, grid)
    notes = (*scores.notes, *about_scores(runs, scales, lost, asked.smallest_effect))
    unknown = tuple(unknowns(scales))
    digest = hashlib.sha256(rows.drop(columns="where").to_csv(index=False).encode()).hexdigest()
    stepped = bool(rows["step"].any())
    return ForeignStudy(
        study, scales, runs, episodes, scores.source, digest, stepped, notes, unknown
    )


def _scales(rows: pd.DataFrame, asked: ForeignQuestions, *, normalised: bool) -> dict[str, Scale]:
    tasks = list(dict.fromkeys(rows["task"]))
    if SUITE in tasks:
        raise UserError(f"a task must not be called '{SUITE}': the name is taken.")
    for task in asked.task_bounds:
        if task not in tasks:
            raise UserError(f"--task-range {task}: there is no such task; {nearest(task, tasks)}")
    scales = {}
    for task in tasks:
        bounds = asked.task_bounds.get(task, asked.bounds)
        low, high = bounds or (math.nan, math.nan)
        if bounds and not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UserError(
                f"the range {low:g} to {high:g} of '{task}' is none; give the lowest and the "
                "highest score that is possible."
            )
        ends = (0.0, 1.0) if normalised else bounds
        anchors = Anchors.declared(*ends, "declared for these scores") if ends else None
        scale = Scale(anchors, math.nan, math.nan, low, high, bounded=bounds is not None)
        scales[task] = Scale(
            anchors=anchors,
            threshold=math.nan,
            floor=math.nan,
            lowest=float(scale.normalise(low)),
            highest=float(scale.normalise(high)),
            bounded=bounds is not None,
        )
    return scales


def _refuse_outside(rows: pd.DataFrame, scales: Mapping[str, Scale]) -> None:
    for task, scale in scales.items():
        if not scale.bounded:
            continue
        mine = rows[rows["task"] == task]
        low, high = scale.raw(scale.lowest), scale.raw(scale.highest)
        slack = 1e-9 * (high - low)
        outside = mine[(mine["score"] < low - slack) | (mine["score"] > high + slack)]
        if len(outside):
            row = outside.iloc[0]
            raise UserError(
                f"{row['where']}: the score {row['score']:g} on '{task}' lies outside the range "
                f"{low:g} to {high:g}, on which every verdict would rest; correct the one or the "
                "other."
            )


def _runs(rows: pd.DataFrame) -> tuple[pd.DataFrame, tuple[int, ...], list[str]]:
    """Returns one row per run, the steps that all whole runs share, and what was lost and why."""
    rows = rows.sort_values("step", kind="stable")
    grouped = rows.groupby(["method", "task", "seed"], sort=False)
    final = grouped.last(skipna=False).reset_index()
    longest = final.groupby("task")["step"].transform("max")
    early = final["step"] < _WHOLE * longest
    empty = final["score"].isna()
    final["status"] = np.where(
        final["status"].eq(MISSING) & empty,
        MISSING,
        np.where(empty | early, Status.INFRASTRUCTURE, Status.OK),
    )
    final["reason"] = np.where(
        empty,
        "the file has no score for it",
        np.where(early, "ended early: its last score is at step " + final["step"].astype(str), ""),
    )
    whole = final[final["status"] == Status.OK]
    kept = whole["step"].unique()
    budget = int(max(1, final["step"].max()))
    grid: tuple[int, ...] = (budget,)
    if len(kept) == 1 and kept[0] > 0:
        known = rows[rows["score"].notna()].merge(whole[["method", "task", "seed"]])
        counts = known.groupby("step").size()
        shared = [int(step) for step in counts.index[counts == len(whole)] if step > 0]
        places = np.unique(np.linspace(0, len(shared) - 1, _MOST_POINTS).round().astype(int))
        grid = tuple(shared[place] for place in places)
    final["index"] = _indices(final)
    lost = [
        f"{row['method']} on {row['task']}, seed {row['seed']}: {row['reason']}."
        for row in final[final["status"] != Status.OK].to_dict("records")
    ]
    runs = pd.DataFrame(
        {
            "run_id": final["method"] + "/" + final["task"] + "/" + final["seed"],
            "label": final["method"],
            "setup": final["task"],
            "seed": final["index"],
            "role": "evaluate",
            "current": True,
            "status": final["status"],
            "reason": final["reason"],
            "env_steps": final["step"],
            "named_seed": final["seed"],
        }
    )
    return runs, grid, lost


def _indices(final: pd.DataFrame) -> pd.Series[int]:
    """Returns each run's place among its method's runs on its task, never by what it scored.

    Seeds that more methods share come first, so that the same seeds meet in comparisons; what is
    left over follows in the order of seeds.
    """
    shared = final.groupby(["task", "seed"])["method"].transform("nunique")
    numeric = pd.to_numeric(final["seed"], errors="coerce")
    order = final.assign(shared=-shared, numeric=numeric).sort_values(["shared", "numeric", "seed"])
    return order.groupby(["method", "task"], sort=False).cumcount().reindex(final.index)


def _evaluations(rows: pd.DataFrame, runs: pd.DataFrame, grid: tuple[int, ...]) -> pd.DataFrame:
    """Returns every score on the grid as if it were one episode; a run's last is at its end."""
    identity = runs[["run_id", "label", "setup", "seed", "current", "named_seed", "env_steps"]]
    known = runs["status"] == Status.OK
    named = {"label": "method", "setup": "task", "named_seed": "seed_"}
    keys = identity[known].rename(columns=named)
    merged = rows.rename(columns={"seed": "seed_"}).merge(keys, on=["method", "task", "seed_"])
    merged.loc[merged["step"] == merged["env_steps"], "step"] = grid[-1]
    merged = merged[merged["step"].isin(grid)]
    return pd.DataFrame(
        {
            **{name: merged[name] for name in ("run_id", "seed", "current", "step")},
            "label": merged["method"],
            "setup": merged["task"],
            "distribution": "target",
            "policy": "deterministic",
            "context": 0,
            "return": merged["score"],
            "discounted_return": math.nan,
            "success": merged["success"],
            "length": 0,
        }
    )[["run_id", "label", "setup", "seed", "current", *EVALUATION_COLUMNS]].reset_index(drop=True)


def _study(
    source: str,
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    grid: tuple[int, ...],
    asked: ForeignQuestions,
) -> Study:
    methods = list(dict.fromkeys(rows["method"]))
    for name in (
        *((asked.control,) if asked.control else ()),
        *(m for p in asked.pairs for m in p),
    ):
        if name not in methods:
            raise UserError(f"{source}: has no method '{name}'; {nearest(name, methods)}")
    for a, b in asked.pairs:
        if a == b:
            raise UserError(f"--compare {a},{b}: a method cannot be compared with itself.")
    label: TypeAdapter[str] = TypeAdapter(Label)
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", re.split(r"[/=]", source)[-1].rpartition(".")[0])
    try:
        for name in dict.fromkeys((*methods, *rows["task"])):
            label.validate_python(name)
        return Study.model_validate(
            {
                "name": asked.name or stem.strip("-_")[:60] or "scores",
                "question": f"What do the scores in {source} show?"[:2000],
                "curricula": [{"name": name, "label": name} for name in methods],
                "setups": list(dict.fromkeys(rows["task"])),
                "seeds": {"count": int(runs["seed"].max()) + 1},
                "budget": grid[-1],
                "evaluation": {"steps": grid, "contexts": 1},
                "statistics": {
                    "primary": "normalised" if asked.suite else "return",
                    "control": asked.control,
                    "comparisons": asked.pairs or "vs-control",
                    "smallest_effect": asked.smallest_effect,
                    "alpha": asked.alpha,
                },
            }
        )
    except ValidationError as error:
        raise UserError(f"{source}: cannot be analysed ({first_mistake(error)}).") from None
