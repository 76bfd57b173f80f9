"""From stored blocks to findings: times, ratios, noise floors, exponents, quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import least_squares

from pacebench.harness.analysis.scores import ResultFrames, target_episodes
from pacebench.harness.overhead import findings
from pacebench.harness.overhead.cells import CLOCKS, CellRecord, Clock, Floats
from pacebench.harness.overhead.quality import judge_all, pool_quality
from pacebench.harness.overhead.ratios import geometric_mean, mean, per_update, total
from pacebench.harness.overhead.settings import REFERENCE, SLOWED, TWIN, Settings

# Beyond this ratio of wall to processor time, updates were waiting for their turn.
_BUSY = 1.05
# One problem, the published solver and a strong one: their ratio is what the solver alone costs.
_SOLVERS = ("spdl", "spdl-sqp")


def summarise(
    cells: Sequence[CellRecord],
    trained: ResultFrames | None,
    settings: Settings,
    machine: dict[str, Any],
) -> findings.OverheadSummary:
    """Returns all findings; of training runs only where there are any.

    Verdicts go by processor time where the wall clock also counts the turns of others; the rule
    looks at the ratio of the clocks alone, never at a result.
    """
    blocks = [block for cell in cells for block in cell.blocks.values()]
    clocks = [(x["wall"], x["cpu"]) for block in blocks for x in block.times.values()]
    waiting = stats.gmean([np.mean(wall) / np.mean(cpu) for wall, cpu in clocks])
    clock: findings.MainClock = "cpu" if waiting > _BUSY else "wall"
    judged = judge_all({cell.stream.name: cell.answers for cell in cells})
    quality = {name: pool_quality(judged, name) for name in settings.curricula}
    fits = {name: fit_scaling(name, cells, clock) for name in settings.curricula}
    return findings.OverheadSummary(
        settings=settings,
        machine=machine,
        clock=clock,
        wall_over_cpu=waiting,
        cells=tuple(_summarise_cell(cell, judged, clock) for cell in cells),
        scaling={name: fit for name, fit in fits.items() if fit is not None},
        quality={name: found for name, found in quality.items() if found is not None},
        training=None if trained is None else summarise_training(trained, settings.curricula),
    )


def _summarise_cell(
    cell: CellRecord, judged: pd.DataFrame, clock: findings.MainClock
) -> findings.CellFinding:
    mine, blocks = judged[judged["cell"] == cell.stream.name], cell.blocks.values()

    def ratio(a: str, b: str = REFERENCE, by: Clock = clock, kind: Any = per_update) -> Any:
        return kind(cell.times(a, by), cell.times(b, by))

    def method(name: str) -> findings.MethodFinding:
        means = {each: per_update(cell.times(name, each)) for each in CLOCKS}
        return findings.MethodFinding(
            **means,
            time=means[clock],
            mean_time=cell.times(name, clock).mean(),
            ratio=ratio(name),
            total=ratio(name, kind=total),
            step_ratio=ratio(name, by="step"),
            step_total=ratio(name, by="step", kind=total),
            quality=pool_quality(mine, name),
        )

    twin = ratio(TWIN)
    return findings.CellFinding(
        name=cell.stream.name,
        stream=cell.stream.fingerprint,
        kind=cell.stream.kind,
        d=cell.stream.d,
        size=cell.stream.size,
        instances=len(cell.stream.indices),
        blocks=len(blocks),
        floor=max(1.0 / twin.low, twin.high),
        twin=twin,
        slowed=ratio(SLOWED),
        methods={name: method(name) for name in cell.seconds},
        untimed=cell.untimed,
        solver=ratio(*_SOLVERS) if cell.seconds.keys() >= set(_SOLVERS) else None,
        load=np.mean([block.load for block in blocks]),
        steal=max(block.steal for block in blocks),
    )


def fit_scaling(
    name: str, cells: Sequence[CellRecord], clock: findings.MainClock
) -> findings.ScalingFinding | None:
    """Fits t = t₀ + c·dᵅ·Kᵝ to the logarithms of one curriculum's times, in every block.

    Returns:
        None where fewer than six cells, three different d or two K are there, where work dominates
        the fixed cost in fewer than four cells (the exponents would be those of noise), or where
        the fit misses a cell by more than a factor of ten: the time does not follow such a law.
    """
    mine = [c for c in cells if c.stream.kind == "synthetic" and name in c.seconds]
    sizes = np.array([(c.stream.d, c.stream.size) for c in mine]).reshape(-1, 2).T
    if len(mine) < 6 or len(set(sizes[0])) < 3 or len(set(sizes[1])) < 2:
        return None
    x, work = np.log(sizes), sizes.prod(axis=0)
    logs = np.stack([np.log(cell.times(name, clock)).mean(axis=0) for cell in mine], axis=1)
    middle = logs.mean(axis=0)
    curve = _fit(x, middle)
    misfit = np.abs(_law(curve, x) - middle).max()
    # Work dominates where the update takes three times as long as the cheapest one.
    working = int((middle > middle.min() + math.log(3.0)).sum())
    if working < 4 or misfit > math.log(10.0):
        return None
    fits = np.array([_fit(x, block) for block in logs])
    return findings.ScalingFinding(
        alpha=mean(fits[:, 2]),
        beta=mean(fits[:, 3]),
        fixed=np.median(np.exp(fits[:, 0])),
        cells=len(mine),
        working=working,
        misfit=misfit,
        range=(work.min(), work.max()),
        curve=tuple(curve),
    )


def predict(scaling: findings.ScalingFinding, d: Floats, size: float) -> Floats:
    """Returns the fitted seconds."""
    return np.exp(_law(np.array(scaling.curve), np.log([d, np.full_like(d, size)])))


def _law(curve: Floats, x: Floats) -> Floats:
    """Returns ln t at x = (ln d, ln K), (2, n), for a curve (ln t₀, ln c, α, β)."""
    return np.asarray(np.logaddexp(curve[0], curve[1] + curve[2:] @ x))


def _fit(x: Floats, logs: Floats) -> Floats:
    start = [logs.min(), logs.max() - x[:, logs.argmax()].sum(), 1.0, 1.0]

    def residuals(curve: Floats) -> Floats:
        return _law(curve, x) - logs

    return np.asarray(least_squares(residuals, start, x_scale="jac", max_nfev=2000).x)


def summarise_training(
    results: ResultFrames, names: Sequence[str]
) -> findings.TrainingSummary | None:
    """Returns the findings per curriculum, in this order; None where no two seeds are complete."""
    runs = results.runs[results.runs["current"] & (results.runs["status"] == "ok")]
    labels = runs.groupby("seed")["label"].nunique()
    complete = labels.index[labels == runs["label"].nunique()]
    if len(complete) < 2:
        return None
    # Evaluation is no part of training.
    base = runs["seconds_rollout"] + runs["seconds_policy"]
    runs = runs.assign(base=base, seconds=base + runs["seconds_curriculum"])
    runs = runs[runs["seed"].isin(complete)].sort_values("seed")
    # Scores are compared at the time that the quickest curriculum takes for all its steps; a run
    # that was done before keeps its last score.
    common = float(runs.groupby("label", observed=True)["seconds"].agg(stats.gmean).min())
    reference = runs[runs["label"] == REFERENCE].set_index("seed")["seconds"]
    updates = results.updates.groupby("run_id", observed=True)
    scores = target_episodes(results.evaluations).groupby(["run_id", "step"], observed=True)
    curves = scores["return"].mean()
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for run in runs.to_dict("records"):
        made, curve = updates.get_group(run["run_id"]), curves[run["run_id"]]
        spent, seconds = run["seconds_curriculum"], run["seconds"]
        clock = training_clock(run, made, curve.index.to_numpy())
        row = {
            "share": spent / seconds,
            "per_update": spent / len(made),
            "step": made["seconds"].mean(),
            "recording": made["seconds_recording"].mean(),
            "per_1000_steps": 1000.0 * spent / run["env_steps"],
            "seconds": seconds,
            "ratio": seconds / reference[run["seed"]],
            "final": curve.iloc[-1],
            "at_common": np.interp(common, clock, curve),
            "rejected": len(made) - made["accepted"].sum(),
        }
        rows[run["label"]].append(row)
    # Scores may be negative.
    pooled: dict[str, Any] = {"final": mean, "at_common": mean, "rejected": sum}
    return findings.TrainingSummary(
        setup=runs["setup"].iloc[0],
        env_steps=int(runs["env_steps"].iloc[0]),
        seeds=len(complete),
        common_seconds=common,
        methods={
            name: findings.TrainingFinding.model_validate(
                {key: pooled.get(key, geometric_mean)([row[key] for row in mine]) for key in row}
            )
            for name, mine in rows.items()
            if mine
        },
    )


def training_clock(run: Mapping[Any, Any], updates: pd.DataFrame, steps: Floats) -> Floats:
    """Returns the training seconds gone when a run had made so many environment steps.

    Rollouts and policy updates cost the same at every step; the curriculum's updates are known one
    by one, and what the phase took beyond them is shared among them.
    """
    made = np.searchsorted(updates["env_steps"], steps, side="right")
    taken = np.append(0.0, updates["seconds"].cumsum())
    spent = run["seconds_curriculum"] * taken[made] / (taken[-1] or 1.0)
    return np.asarray(run["base"] * steps / run["env_steps"] + spent)
