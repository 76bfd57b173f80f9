"""From instrumented runs to findings: share of training time, score per step and per second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.ratios import ratio
from pacebench.harness.overhead.settings import MINIMUM_BLOCKS, REFERENCE
from pacebench.harness.overhead.training import CURRICULA
from pacebench.harness.statistics import welch

PHASES = ("rollout", "policy", "curriculum")


def summarise_training(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the findings per curriculum; empty where no curriculum has two complete seeds.

    Evaluation is left out of all times: it is the evaluation, not the training.
    """
    there = {run["curriculum"] for run in runs}
    names = [name for name in CURRICULA if name in there]
    seeds = set.intersection(*({r["seed"] for r in runs if r["curriculum"] == n} for n in names))
    if len(seeds) < 2:
        return {}
    by = {(run["curriculum"], run["seed"]): run for run in runs}
    ordered = sorted(seeds)
    table = {name: [by[name, seed] for seed in ordered] for name in names}
    # Scores are compared at the time that the quickest curriculum takes for all its steps; a run
    # that was done before keeps its last score.
    common = min(
        float(np.exp(np.mean([np.log(_training_seconds(run)) for run in mine])))
        for mine in table.values()
    )
    findings = {name: _summarise(mine, common) for name, mine in table.items()}
    enough = len(ordered) >= MINIMUM_BLOCKS
    if enough and REFERENCE in table:
        reference = np.array([_training_seconds(run) for run in table[REFERENCE]])
        for name, mine in table.items():
            if name != REFERENCE:
                taken = np.array([_training_seconds(run) for run in mine])
                findings[name]["training_ratio"] = ratio(taken, reference).to_dict()
    first = runs[0]
    return {
        "setup": first["setup"],
        "env_steps": first["env_steps"],
        "seeds": len(ordered),
        "common_seconds": common,
        "methods": findings,
        "load": float(np.mean([run["machine"]["load"][0] for run in runs])),
    }


def _summarise(runs: Sequence[dict[str, Any]], common: float) -> dict[str, Any]:
    spent = np.array([run["timings"]["curriculum"] for run in runs])
    total = np.array([_training_seconds(run) for run in runs])
    steps = np.array([run["env_steps"] for run in runs])
    updates = np.array([max(len(run["update_steps"]), 1) for run in runs])
    final = np.array([run["return"][-1] for run in runs])
    at_common = np.array([score_at(run, common) for run in runs])
    grid, curve = _curve(runs)
    return {
        "seconds": _positive(total),
        "share": _positive(spent / total),
        "per_update": _positive(spent / updates),
        "per_1000_steps": _positive(1000.0 * spent / steps),
        "updates": float(updates.mean()),
        "rejected": int(sum(run["rejected"] for run in runs)),
        "final": _mean(final),
        "per_step_auc": _mean(np.array([np.mean(run["return"]) for run in runs])),
        "at_common": _mean(at_common),
        "success": _mean(np.array([run["success"][-1] for run in runs])),
        "status": sorted({run["status"] for run in runs}),
        "grid": grid.tolist(),
        "curve": [_mean(column) for column in curve.T],
        "clock": np.mean([[seconds_at(run, s) for s in grid] for run in runs], axis=0).tolist(),
    }


def seconds_at(run: dict[str, Any], step: float) -> float:
    """Returns the training seconds gone when a run had made `step` environment steps.

    Rollouts and policy updates cost the same at every step; the curriculum's updates are known
    one by one.
    """
    base = sum(run["timings"][phase] for phase in PHASES if phase != "curriculum")
    made = np.asarray(run["update_steps"], dtype=np.float64) <= step
    taken = np.asarray(run["update_seconds"], dtype=np.float64)
    # What the phase took beyond the updates themselves is shared among them.
    known = float(taken.sum())
    scale = run["timings"]["curriculum"] / known if known > 0 else 0.0
    return float(base * step / run["env_steps"]) + scale * float(taken[made].sum())


def score_at(run: dict[str, Any], elapsed: float) -> float:
    """Returns the score that a run had after so many training seconds, interpolated."""
    clock = [seconds_at(run, step) for step in run["steps"]]
    return float(np.interp(elapsed, clock, run["return"]))


def _curve(runs: Sequence[dict[str, Any]]) -> tuple[Floats, Floats]:
    grid = np.asarray(runs[0]["steps"], dtype=np.float64)
    return grid, np.array([run["return"] for run in runs])


def _training_seconds(run: dict[str, Any]) -> float:
    return float(sum(run["timings"][phase] for phase in PHASES))


def _mean(values: Floats) -> dict[str, float]:
    moments = welch.mean_moments(np.asarray(values, dtype=np.float64)[:, None])
    low, high = welch.bounds(moments, 0.95)
    return {"estimate": float(moments.estimate), "low": float(low), "high": float(high)}


def _positive(values: Floats) -> dict[str, float]:
    """Returns the geometric mean and its interval, which cannot fall below zero."""
    found = _mean(np.log(np.maximum(values, 1e-12)))
    return {key: float(np.exp(value)) for key, value in found.items()}
