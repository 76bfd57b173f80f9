"""A small set of results with known answers, in the frames that the store returns.

Every run's final mean return is placed exactly: with z the standardised plotting positions of n
seeds (mean 0, standard deviation 1), seed i of a method with mean m and spread s ends at m + s·z_i.
So the mean of a cell is m, its standard error s/√n, and the papers' table can be written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pacebench import envs
from pacebench.envs.setup import Anchors, PolicyScore, Setup
from pacebench.harness.records import EVALUATION_COLUMNS, RunResult, Status
from pacebench.harness.store.ledger import now
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study

CONTEXTS = 20


@dataclass
class Frames:
    """What `harness.load_results` returns, as far as reports need it."""

    runs: pd.DataFrame
    evaluations: pd.DataFrame
    updates: pd.DataFrame


@dataclass(frozen=True)
class Method:
    """How a synthetic curriculum fares: its final mean and spread on the normalised score."""

    name: str
    mean: float
    spread: float
    label: str | None = None
    epsilon: float | None = None
    status: dict[int, str] = field(default_factory=dict)


METHODS = (
    Method("default", 0.40, 0.10),
    Method("spdl", 0.42, 0.12, epsilon=0.05),
    Method("spgl", 0.80, 0.08, epsilon=0.05),
)


def study(
    methods: tuple[Method, ...] = METHODS,
    setups: tuple[str, ...] = ("point-mass-1", "point-mass-2"),
    seeds: int = 12,
    **statistics: Any,
) -> Study:
    """Returns the study that the frames belong to."""
    return Study.model_validate(
        {
            "name": "synthetic",
            "question": "Do the tables say what was put in?",
            "curricula": [{"name": m.name, "label": m.label} for m in methods],
            "setups": list(setups),
            "seeds": {"count": seeds, "root": 7},
            "budget": 60_000,
            "evaluation": {"points": 6, "contexts": CONTEXTS},
            "statistics": {"smallest_effect": 0.1, **statistics},
        }
    )


def setup(name: str) -> Setup:
    """Returns a shipped setup with round anchors: baseline 10, reference 60."""

    def score(policy: str, value: float) -> PolicyScore:
        return PolicyScore(policy, value, 0.1, value / 10, 0.01, value / 100, 0.01)

    anchors = Anchors(score("random", 10.0), score("reference", 60.0), 1000, 0, "by hand", "0")
    return replace(envs.setup(name), anchors=anchors, min_return=0.0, max_return=100.0)


def positions(n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns n normal plotting positions with mean 0 and standard deviation 1 (ddof = 1)."""
    z = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return np.asarray(z / z.std(ddof=1)) if n > 1 else np.zeros(1)


def frames(
    methods: tuple[Method, ...] = METHODS,
    setups: tuple[str, ...] = ("point-mass-1", "point-mass-2"),
    seeds: int = 12,
    updates: int = 24,
    plan: Study | None = None,
) -> Frames:
    """Returns the results of `study(methods, setups, seeds)`."""
    plan = plan or study(methods, setups, seeds)
    runs: list[dict[str, Any]] = []
    evaluations: list[pd.DataFrame] = []
    changes: list[pd.DataFrame] = []
    for s, task in enumerate(setups):
        described = setup(task)
        for m, method in enumerate(methods):
            # Another order of seeds for each method, so that nothing pairs up by accident.
            order = np.random.default_rng([s, m]).permutation(seeds)
            for i, z in enumerate(positions(seeds)[order]):
                run = f"{s:02d}{m:02d}{i:04d}"
                status = method.status.get(i, "ok")
                final = method.mean + method.spread * float(z) - 0.1 * s
                runs.append(_run(run, method, task, i, status, plan.budget))
                if status in ("missing", "crashed-infrastructure"):
                    continue
                points = plan.evaluation_steps()
                shown = points if status == "ok" else points[: len(points) // 2]
                evaluations.append(_episodes(run, shown, plan.budget, final, described))
                changes.append(_updates(run, method, described, updates, plan.budget, i, m))
    table = pd.DataFrame(runs)
    identity = table[["run_id", "label", "setup", "seed", "current"]]
    return Frames(
        table,
        identity.merge(pd.concat(evaluations, ignore_index=True), on="run_id"),
        identity.merge(pd.concat(changes, ignore_index=True), on="run_id"),
    )


def store(root: Path, plan: Study, results: Frames, finished: str | None = None) -> None:
    """Writes the results into a real results folder, as the runner would have."""
    runs = RunStore(root)
    runs.extend_manifest(plan.name, plan.model_dump(mode="json"), expand(plan))
    table = results.runs.set_index(["label", "setup", "seed"])
    for run in expand(plan):
        row = table.loc[(run.label, run.cell.setup, run.seed.index)]
        if row["status"] == "missing":
            continue
        episodes = results.evaluations[results.evaluations["run_id"] == row["run_id"]]
        changes = results.updates[results.updates["run_id"] == row["run_id"]]
        result = RunResult(
            seed=run.seed,
            status=Status(row["status"]),
            reason=row["reason"],
            env_steps=int(row["env_steps"]),
            evaluations={name: episodes[name].tolist() for name in EVALUATION_COLUMNS},
            updates={
                name: [None if value is np.nan else value for value in changes[name]]
                for name in changes.columns
                if name not in ("run_id", "label", "setup", "seed", "current")
            },
            timings={"rollout": 20.0, "policy": 30.0, "curriculum": 1.0, "evaluation": 5.0},
            policy={},
        )
        runs.write(run, result, {"attempts": 1, "seconds": 56.0, "finished": finished or now()})


def _run(
    run: str, method: Method, task: str, seed: int, status: str, budget: int
) -> dict[str, Any]:
    there = status == "ok"
    return {
        "run_id": run,
        "label": method.label or method.name,
        "curriculum": method.name,
        "setup": task,
        "learner": "ppo",
        "seed": seed,
        "role": "evaluate",
        "current": True,
        "status": status,
        "reason": "" if there else f"made to be {status}",
        "env_steps": budget if there else budget // 2,
        "attempts": 1,
        "seconds_rollout": 20.0 + seed,
        "seconds_policy": 30.0,
        "seconds_curriculum": 12.0 if method.name == "spdl" else 0.5,
        "seconds_evaluation": 5.0,
    }


def _episodes(
    run: str, points: tuple[int, ...], budget: int, final: float, described: Setup
) -> pd.DataFrame:
    """Returns episodes whose mean at the budget is exactly the run's final score."""
    assert described.anchors is not None
    contexts = np.arange(CONTEXTS)
    tilt = (contexts - contexts.mean()) * 0.5
    parts = []
    for step in points:
        score = final * (1 - np.exp(-4 * step / budget)) / (1 - np.exp(-4))
        low = described.anchors.baseline.mean_return
        unit = described.anchors.reference.mean_return - low
        returns = low + unit * score + tilt
        parts.append(
            pd.DataFrame(
                {
                    "run_id": run,
                    "step": step,
                    "distribution": "target",
                    "policy": "deterministic",
                    "context": contexts,
                    "return": returns.astype(np.float32),
                    "discounted_return": (returns / 8).astype(np.float32),
                    "success": contexts < round(CONTEXTS * min(max(score, 0), 1)),
                    "length": 100,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _updates(
    run: str, method: Method, described: Setup, count: int, budget: int, seed: int, m: int
) -> pd.DataFrame:
    """Returns updates that walk from the initial to the target distribution; one breaks its ε."""
    rng = np.random.default_rng([m, seed])
    start, goal = np.array(described.initial_mean), np.array(described.target_mean)
    wide, narrow = np.array(described.initial_variance), np.array(described.target_variance)
    rows: list[dict[str, Any]] = []
    for k in range(1, count + 1):
        share = (
            1.0 if method.name == "default" else min(1.0, k / count * (1.1 + 0.1 * rng.random()))
        )
        mean = start + share * (goal - start)
        std = np.exp((1 - share) * np.log(wide) / 2 + share * np.log(narrow) / 2)
        moved = (mean - goal) / np.sqrt(narrow)
        kl = float((1 - share) ** 2 * (moved**2).mean() / 100)
        epsilon = method.epsilon
        kl_step = 0.0 if epsilon is None else epsilon * (0.9 if k != 3 else 2.0)
        rows.append(
            {
                "run_id": run,
                "iteration": k,
                "env_steps": budget * k // count,
                "episodes": 40,
                "discarded": 2,
                "mean": mean.tolist(),
                "std": std.tolist(),
                "theta": None,
                "step": "schedule" if epsilon is None else "convergence",
                "case": "kl",
                "epsilon": np.nan if epsilon is None else epsilon,
                "threshold": np.nan if epsilon is None else described.threshold,
                "mean_value": 5.0 + share,
                "slack": share,
                "predicted_value": 5.0,
                "kl_step": kl_step,
                "kl_target_forward": kl,
                "kl_target_reverse": kl / 2,
                "ess": 35.0,
                "iterations": 0,
                "accepted": True,
                "seconds": 0.01 if method.name == "spdl" else 0.0001,
            }
        )
    return pd.DataFrame(rows)
