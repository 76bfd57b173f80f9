"""From evaluation episodes to one row per training run, with the manifest as the denominator.

A run that is in the manifest is in the table, whatever became of it: measured, scored with the
declared floor (diverged, timed out, crashed by its method), or unresolved (lost to infrastructure,
not there yet, or of a cell that is broken: every run of it crashed with the same exception).
Nothing is dropped, and no curve is cut to the shortest run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pacebench.envs.setup import Anchors, Setup
from pacebench.harness.errors import UserError
from pacebench.harness.records import EVALUATION_COLUMNS, Status, common_crash
from pacebench.harness.statistics import estimands
from pacebench.harness.study.models import Study

MISSING = "missing"
# A run that failed by its own doing scores the declared floor.
FLOORED = (Status.DIVERGED, Status.TIMEOUT, Status.CRASHED)
STEPS = "steps_to_threshold"

# How a run's numbers came about.
MEASURED, FLOOR, UNRESOLVED = "measured", "floor", "unresolved"

# The columns that hold scores, as the study file names its estimands.
SCORES = ("return", "normalised", "success", "solved", "auc", "cvar")

CVAR_SHARE = 0.2


# What identifies a run in every frame; two labels may share one run id.
KEY = ["label", "run_id"]


class ResultFrames(Protocol):
    """What `harness.load_results` returns, as far as it is needed here."""

    @property
    def runs(self) -> pd.DataFrame:
        """One row per manifest entry."""

    @property
    def evaluations(self) -> pd.DataFrame:
        """One row per evaluation episode."""

    @property
    def updates(self) -> pd.DataFrame:
        """One row per curriculum update."""


@dataclass(frozen=True)
class Scale:
    """One setup's fixed scale: what is 0, what is 1, and how low and high a score can be.

    Attributes:
        anchors: The anchors that map returns to normalised scores; without them, scores that are
            called normalised are raw returns.
        threshold: V₋ on the discounted return, for steps-to-threshold.
        floor: Normalised score of a run that failed by its own doing; NaN if none is known.
        lowest: Normalised score that no run can fall below, as far as the setup knows.
        highest: Normalised score that no run can exceed, as far as the setup knows.
        bounded: Whether the setup knows both of them.
    """

    anchors: Anchors | None
    threshold: float
    floor: float
    lowest: float
    highest: float
    bounded: bool

    @property
    def unit(self) -> float:
        """The return that one unit of normalised score is worth."""
        if self.anchors is None:
            return 1.0
        return self.anchors.reference.mean_return - self.anchors.baseline.mean_return

    @property
    def raw_only(self) -> bool:
        """Whether scores are raw returns, for want of anchors."""
        return self.anchors is None

    @property
    def zero(self) -> float:
        """The return that is normalised to 0."""
        return 0.0 if self.anchors is None else self.anchors.baseline.mean_return

    def normalise(self, returns: Any) -> Any:
        """Maps returns to normalised scores: baseline 0, reference 1."""
        return (returns - self.zero) / self.unit

    def raw(self, normalised: Any) -> Any:
        """Maps normalised scores back to returns."""
        return self.zero + normalised * self.unit


def scale_of(setup: Setup, floor: float | None = None) -> Scale:
    """Returns the scale of a setup.

    The floor is the declared one, else the lowest possible return, else the baseline policy's
    score: a failed run never scores by what it had reached before it failed. Without anchors the
    scale is that of the returns, and an unknown floor stays unknown.

    Args:
        setup: The setup.
        floor: The study's declared floor on the normalised score, if any.
    """
    anchors = setup.anchors
    normalise = anchors.normalise if anchors is not None else float
    unknown = (0.0, 1.0) if anchors is not None else (math.nan, math.nan)
    known_low, known_high = setup.min_return is not None, setup.max_return is not None
    lowest = normalise(setup.min_return) if setup.min_return is not None else unknown[0]
    highest = normalise(setup.max_return) if setup.max_return is not None else unknown[1]
    return Scale(
        anchors=anchors,
        threshold=setup.threshold,
        floor=lowest if floor is None else floor,
        lowest=lowest if floor is None else min(lowest, floor),
        highest=highest,
        bounded=known_low and known_high,
    )


def scales_of(study: Study, setups: Mapping[str, Setup] | None = None) -> dict[str, Scale]:
    """Returns the scale of each of a study's setups.

    Args:
        study: The study.
        setups: Its setups by name; looked up if not given.

    Raises:
        UserError: Scores of several setups are averaged, but one of them has no anchors.
    """
    there = [study.setup(name) if setups is None else setups[name] for name in study.setups]
    lacking = [setup.name for setup in there if setup.anchors is None]
    if lacking and len(there) > 1:
        raise UserError(
            f"setup '{lacking[0]}' has no anchors, so its scores cannot be averaged with those of "
            f"other setups; run pacebench anchors {lacking[0]} --write, declare its anchors, or "
            "give it a study of its own, which is reported in raw returns."
        )
    return {setup.name: scale_of(setup, study.statistics.floor) for setup in there}


def planned(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the runs that the study asks for: not retired, and for evaluation."""
    return runs[runs["current"] & (runs["role"] == "evaluate")].reset_index(drop=True)


def target_episodes(evaluations: pd.DataFrame) -> pd.DataFrame:
    """Returns the episodes that are scored: deterministic policy on the target distribution.

    Args:
        evaluations: The episodes of a results folder, of which only those of planned runs (column
            `current`) are returned, or the episodes of a single run, which has no such column.
    """
    if evaluations.empty:
        # Where no run has recorded an episode, the frame has no such columns to choose by.
        return pd.DataFrame(columns=[*KEY, *EVALUATION_COLUMNS])
    target = evaluations["distribution"] == "target"
    chosen = target & (evaluations["policy"] == "deterministic")
    return evaluations[chosen & evaluations["current"] if "current" in evaluations else chosen]


def target_curves(results: ResultFrames, study: Study, scales: Mapping[str, Scale]) -> pd.DataFrame:
    """Returns the target score of every planned run at every point of the evaluation grid.

    The deterministic policy is evaluated on the held-out target contexts: at every point on those
    that are played at all points, because a mean over others would look like a change of the agent.
    After a run failed by its own doing its curve goes on at the floor; where a run is unresolved it
    is missing (NaN).

    Args:
        results: The loaded results.
        study: The study they belong to.
        scales: The scale of each setup.

    Returns:
        One row per run and grid point: `run_id`, `label`, `setup`, `seed`, `how`, `step`,
        `return`, `discounted_return`, `success`, `normalised`.
    """
    return _target_scores(
        results, study, scales, study.evaluation_steps(), study.evaluation.curve_contexts
    )


def _target_scores(
    results: ResultFrames,
    study: Study,
    scales: Mapping[str, Scale],
    steps: Sequence[int],
    contexts: int | None,
) -> pd.DataFrame:
    """Returns what `target_curves` describes, at some steps and over the first contexts or all."""
    measures = ["return", "discounted_return", "success"]
    episodes = target_episodes(results.evaluations)
    if contexts is not None:
        episodes = episodes[episodes["context"] < contexts]
    grouped = episodes.groupby([*KEY, "step"], observed=True)[measures]
    # Where an episode has no number, the mean of the others would be one over other contexts.
    means = grouped.mean().where(grouped.count().eq(grouped.size(), axis=0))
    runs = _plain(planned(results.runs)[[*KEY, "setup", "seed", "status", "reason"]])
    runs["how"] = _how(runs)
    runs = runs.drop(columns=["status", "reason"])
    grid = pd.DataFrame({"step": np.asarray(steps, dtype=np.int64)})
    table = runs.merge(grid, how="cross")
    table = table.merge(_plain(means.reset_index()), on=[*KEY, "step"], how="left")
    table[measures] = table[measures].astype(np.float64)
    table.loc[table["how"] == UNRESOLVED, measures] = np.nan
    table["normalised"] = np.nan
    for name, scale in scales.items():
        here = table["setup"] == name
        failed = here & (table["how"] == FLOOR) & table["return"].isna()
        if failed.any() and math.isnan(scale.floor):
            raise UserError(
                f"a run on '{name}' failed, but neither the setup's min_return nor its anchors say "
                "what that scores; declare 'statistics: floor:' as a return."
            )
        table.loc[failed, "return"] = scale.raw(scale.floor)
        table.loc[failed, "success"] = 0.0
        table.loc[here, "normalised"] = scale.normalise(table.loc[here, "return"])
    _refuse_impossible(table, scales)
    return table


def score_runs(
    results: ResultFrames,
    study: Study,
    scales: Mapping[str, Scale],
    curves: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Returns one row per run that the study asks for.

    Args:
        results: The loaded results.
        study: The study they belong to.
        scales: The scale of each setup.
        curves: What `target_curves` returned, if it is there already.

    Returns:
        The identity and status of each run, `how` its scores came about, the score columns
        (`return`, `normalised`, `success`, `solved`, `auc`, `cvar`; the last two normalised), and
        `steps_to_threshold` (NaN where it was not reached within the budget).
    """
    curves = target_curves(results, study, scales) if curves is None else curves
    table = _plain(planned(results.runs))
    table["how"] = _how(table)
    last = study.evaluation_steps()[-1]
    final = curves[curves["step"] == last]
    if study.evaluation.curve_contexts is not None:
        final = _target_scores(results, study, scales, [last], None)
    final = final[[*KEY, "return", "normalised", "success"]]
    for extra in (final, _areas(curves), _worst_contexts(results, table, study, last)):
        table = table.merge(extra, on=KEY, how="left", validate="one_to_one")
    table = table.merge(_first_steps(curves, scales), on=KEY, how="left", validate="one_to_one")
    for name, scale in scales.items():
        here = table["setup"] == name
        table.loc[here, "cvar"] = scale.normalise(table.loc[here, "cvar"])
        failed = here & (table["how"] == FLOOR)
        table.loc[failed, ["normalised", "cvar"]] = scale.floor
        table.loc[failed, "return"] = scale.raw(scale.floor)
        # Left at NaN where a grid of one point has no area.
        table.loc[failed & table["auc"].notna(), "auc"] = scale.floor
        table.loc[failed, "success"] = 0.0
        # A run that reached V₋ and then failed is not counted as having reached it.
        table.loc[failed, "steps_to_threshold"] = np.nan
    known = table["how"] != UNRESOLVED
    table["solved"] = (table["success"] >= study.statistics.solved).astype(float).where(known)
    return table


def _refuse_impossible(curves: pd.DataFrame, scales: Mapping[str, Scale]) -> None:
    """Stops at a finished run without a score, or with one that its setup says cannot be.

    Raises:
        UserError: With the run, the step and what to do.
    """
    known = curves[curves["how"] == MEASURED]
    lowest = known["setup"].map({k: s.raw(s.lowest) for k, s in scales.items() if s.bounded})
    highest = known["setup"].map({k: s.raw(s.highest) for k, s in scales.items() if s.bounded})
    slack = 1e-6 * (highest - lowest)  # returns are sums of rounded rewards
    outside = (known["return"] < lowest - slack) | (known["return"] > highest + slack)
    bad = known[known["return"].isna() | outside]
    if bad.empty:
        return
    row = bad.iloc[0]
    run = f"run {row['run_id']} ('{row['label']}' on '{row['setup']}', seed {row['seed']})"
    at = f"at step {row['step']:,}"
    if np.isnan(row["return"]):
        raise UserError(
            f"{run} finished but has no evaluation {at}, or one that is not a number; delete the "
            "folder of that run and run the study again."
        )
    ends = [round(float(end[bad.index[0]]), 6) for end in (lowest, highest)]
    raise UserError(
        f"{run} returned {row['return']:g} {at}, outside the range {ends} that the setup declares, "
        "on which every verdict rests; correct min_return and max_return of the setup."
    )


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns the frame with plain strings, because categories of two frames do not merge."""
    kinds = ("category", "string")
    texts = [c for c in frame.columns if str(frame[c].dtype) in kinds]
    return frame.astype(dict.fromkeys(texts, object))


def broken_cells(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Returns the exception that broke a cell, by label and setup; see `records.common_crash`."""
    if "reason" not in runs:  # searches, each of many runs
        return {}
    found = {}
    ended = runs[runs["status"] != MISSING]
    for (label, setup), cell in ended.groupby(["label", "setup"], observed=True):
        if crash := common_crash(zip(cell["status"], cell["reason"], strict=True)):
            found[str(label), str(setup)] = crash
    return found


def _how(runs: pd.DataFrame) -> pd.Series[str]:
    """Returns how each run's numbers come about; the floor is not for cells that are broken."""
    known = {Status.OK.value: MEASURED, **{status.value: FLOOR for status in FLOORED}}
    broken = broken_cells(runs)
    rows = zip(runs["label"], runs["setup"], runs["status"], strict=True)
    found = [
        UNRESOLVED if (label, setup) in broken else known.get(status, UNRESOLVED)
        for label, setup, status in rows
    ]
    return pd.Series(found, index=runs.index, dtype=object)


def _areas(curves: pd.DataFrame) -> pd.DataFrame:
    wide = curves.pivot_table(index=KEY, columns="step", values="normalised").dropna()
    steps = wide.columns.to_numpy(dtype=np.float64)
    if len(steps) < 2:
        wide = wide.iloc[:0]  # a grid of one point has no area
    areas = [estimands.auc(steps, curve) for curve in wide.to_numpy()]
    return pd.DataFrame({"auc": areas}, index=wide.index, dtype=np.float64).reset_index()


def _worst_contexts(
    results: ResultFrames, table: pd.DataFrame, study: Study, step: int
) -> pd.DataFrame:
    """Returns each measured run's CVaR, after checking that its evaluation is complete."""
    episodes = target_episodes(results.evaluations)
    episodes = episodes[episodes["step"] == step]
    measured = set(table.loc[table["how"] == MEASURED, KEY].itertuples(index=False, name=None))
    rows = []
    for key, group in episodes.groupby(KEY, observed=True):
        if key not in measured:
            continue
        contexts = group["context"].to_numpy()
        if len(contexts) != study.evaluation.contexts or len(set(contexts)) != len(contexts):
            raise UserError(
                f"run {key[1]} has {len(contexts)} final episodes over {len(set(contexts))} "
                f"contexts instead of one for each of {study.evaluation.contexts}; delete the "
                "folder of that run and run the study again."
            )
        worst = estimands.cvar(group["return"].to_numpy(dtype=np.float64), CVAR_SHARE)
        rows.append((*key, worst))
    return pd.DataFrame(rows, columns=[*KEY, "cvar"]).astype({"cvar": np.float64})


def _first_steps(curves: pd.DataFrame, scales: Mapping[str, Scale]) -> pd.DataFrame:
    """Returns the first grid step of each run at which its discounted target return reached V₋."""
    thresholds = curves["setup"].map({name: scale.threshold for name, scale in scales.items()})
    reached = curves[curves["discounted_return"] >= thresholds]
    first = reached.groupby(KEY, sort=False)["step"].min().astype(np.float64)
    return first.rename("steps_to_threshold").reset_index()
