"""Chooses a learner's settings for a setup on its *initial* distribution, and writes them down.

    python -m pacebench.harness.tuning.learner_settings point-mass-2

No curriculum takes part: every candidate trains on the initial distribution and is evaluated on it.
The candidates are declared here, before they are tried; the best mean return wins, the one tried
first on a tie. Seeds come from the tuning branch, which no study's evaluation uses. What was chosen
is then frozen for all curricula.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.analysis.scores import target_episodes
from pacebench.harness.errors import UserError
from pacebench.harness.records import RunResult, Status
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.specs import (
    Cell,
    CurriculumCell,
    EvaluationCell,
    LearnerCell,
    ScheduleCell,
)
from pacebench.harness.training import train

_COMMAND = "python -m pacebench.harness.tuning.learner_settings"
SETTINGS = Path(learners.__file__).with_name("settings.json")

# Per environment: what is fixed, what is tried, and for how many steps. A rollout of point-mass is
# one whole episode per copy; returns of some hundreds are scaled down for the critic.
GRIDS: dict[str, dict[str, Any]] = {
    "point-mass": {
        "budget": 200_000,
        "fixed": {"n_envs": 20, "n_steps": 100},
        "tried": {
            "log_std_init": [0.0, 1.0, 2.0],
            "learning_rate": [3e-4, 1e-3],
            "batch_size": [100, 500],
        },
    },
    "lunar-lander": {
        "budget": 300_000,
        "fixed": {"n_envs": 16, "n_steps": 128, "batch_size": 128, "norm_reward": True},
        "tried": {"learning_rate": [3e-4, 1e-3], "gae_lambda": [0.95, 0.98]},
    },
    "ball-catching": {
        "budget": 300_000,
        "fixed": {"n_envs": 20, "n_steps": 200, "batch_size": 200, "norm_reward": True},
        "tried": {"log_std_init": [-1.0, 0.0], "norm_obs": [False, True]},
    },
}


def train_on_initial(
    setup: str,
    params: dict[str, Any],
    budget: int,
    seeds: Sequence[RunSeed],
    *,
    learner: str = "ppo",
    contexts: int = 100,
) -> list[RunResult]:
    """Trains on a setup's initial distribution and evaluates there, at the end only."""
    spec = envs.setup(setup)
    easy = replace(
        spec,
        name=f"{spec.name}@initial",
        target_mean=spec.initial_mean,
        target_variance=spec.initial_variance,
    )
    checked = learners.get(learner).Params.model_validate({"gamma": spec.gamma, **params})
    cell = Cell(
        curriculum=CurriculumCell(name="default", epsilon=None, threshold=None),
        setup=easy.name,
        setup_digest="",
        learner=LearnerCell(name=learner, params=checked.model_dump(mode="json")),
        schedule=ScheduleCell(),
        budget=budget,
        evaluation=EvaluationCell(steps=(budget,), contexts=contexts, root=seeds[0].root),
        versions={},
    )
    envs.register(easy)
    try:
        return train(cell, seeds)
    finally:
        envs.unregister(easy.name)


def score(results: Sequence[RunResult]) -> dict[str, Any]:
    """Returns what the deterministic policies scored: means over seeds, and success per seed."""
    returns, success = zip(*map(_final, results), strict=True)
    return {
        "mean_return": round(float(np.mean(returns)), 3),
        "mean_success": round(float(np.mean(success)), 3),
        "success_by_seed": [round(float(share), 3) for share in success],
    }


def _final(result: RunResult) -> tuple[float, float]:
    """Returns a run's mean return and success; NaN and 0 where it failed."""
    if result.status is not Status.OK:
        return np.nan, 0.0
    scored = target_episodes(pd.DataFrame(result.evaluations))
    return scored["return"].mean(), scored["success"].mean()


def select(setup: str, seeds: int, root: int) -> dict[str, Any]:
    """Tries every candidate for a setup and returns the record of the choice."""
    environment = envs.setup(setup).environment
    if environment not in GRIDS:
        raise UserError(
            f"setup '{setup}': no candidates are declared for the environment '{environment}'; add "
            f"them to GRIDS of {__name__}."
        )
    grid = GRIDS[environment]
    runs = [RunSeed(root=root, role=StudyRole.TUNE, index=i) for i in range(seeds)]
    tried = []
    for values in itertools.product(*grid["tried"].values()):
        varied = dict(zip(grid["tried"], values, strict=True))
        results = train_on_initial(setup, {**grid["fixed"], **varied}, grid["budget"], runs)
        tried.append({"varied": varied, **score(results)})
        print(setup, tried[-1], flush=True)  # noqa: T201 - progress of a script
    # A candidate that diverged with any seed has a mean of NaN, and is out.
    best = max(tried, key=lambda t: np.nan_to_num(t["mean_return"], nan=-np.inf))
    return {
        "params": {**grid["fixed"], **best["varied"]},
        "chosen_on": "the initial distribution",
        "criterion": "mean return of the deterministic policy after the budget",
        "budget": grid["budget"],
        "seeds": seeds,
        "root": root,
        "command": f"{_COMMAND} {setup} --seeds {seeds} --root {root}",
        "tried": tried,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the selection and writes `settings.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setup", nargs="+", help="setups to choose settings for")
    parser.add_argument("--seeds", type=int, default=5, help="training runs per candidate")
    parser.add_argument("--root", type=int, default=0, help="root seed")
    parser.add_argument("--out", type=Path, default=SETTINGS, help="file to write the choice to")
    given = parser.parse_args(arguments)
    for setup in given.setup:
        record = select(setup, given.seeds, given.root)
        kept = json.loads(given.out.read_text()) if given.out.exists() else {"settings": {}}
        kept["settings"].setdefault(setup, {})["ppo"] = record
        given.out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
