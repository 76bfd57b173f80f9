"""Chooses a learner's settings for a setup on its *initial* distribution, and writes them down.

    python -m pacebench.harness.tuning.learner_settings point-mass-2

No curriculum takes part: every candidate trains on the initial distribution and is evaluated on it.
The search climbs a grid that is declared here: from the start it moves to a better neighbour, one
parameter one place up or down, until all neighbours have been tried and none has a better mean
return. So the choice has worse values on both sides in every parameter, or its record says at which
end of the grid it stands. Candidates are kept as they are tried, and a search that was stopped goes
on. Seeds come from the tuning branch, which no study's evaluation uses. What was chosen is then
frozen for all curricula.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
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

# Per environment: what is fixed, the places of the grid, where the search starts, and for how many
# steps a candidate trains. A rollout of point-mass and ball-catching is one whole episode per copy;
# returns of some hundreds are scaled down for the critic.
GRIDS: dict[str, dict[str, Any]] = {
    "point-mass": {
        "budget": 400_000,
        "fixed": {"n_envs": 20, "n_steps": 100},
        "grid": {
            "log_std_init": [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0],
            "learning_rate": [3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
            "batch_size": [50, 100, 200, 400],
            "gae_lambda": [0.8, 0.9, 0.95, 0.98, 0.99],
        },
        "start": {
            "log_std_init": 2.0,
            "learning_rate": 3e-4,
            "batch_size": 100,
            "gae_lambda": 0.95,
        },
    },
    "lunar-lander": {
        "budget": 500_000,
        "fixed": {"n_envs": 16, "norm_reward": True, "batch_size": 128},
        "grid": {
            "n_steps": [64, 128, 256, 512, 1024],
            "learning_rate": [3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
            "gae_lambda": [0.9, 0.95, 0.98, 0.99],
            "log_std_init": [-2.0, -1.0, 0.0, 1.0, 2.0],
            "n_epochs": [3, 5, 10, 20],
            "net_arch": [[32, 32], [64, 64], [128, 128], [256, 256]],
        },
        "start": {
            "n_steps": 128,
            "learning_rate": 3e-4,
            "gae_lambda": 0.98,
            "log_std_init": 0.0,
            "n_epochs": 10,
            "net_arch": [64, 64],
        },
    },
    "ball-catching": {
        "budget": 300_000,
        "fixed": {"n_envs": 20, "n_steps": 200, "norm_obs": True, "norm_reward": True},
        "grid": {
            "log_std_init": [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0],
            "learning_rate": [3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
            "batch_size": [100, 200, 400, 800],
            "gae_lambda": [0.9, 0.95, 0.98, 0.99],
        },
        "start": {
            "log_std_init": 0.0,
            "learning_rate": 3e-4,
            "batch_size": 200,
            "gae_lambda": 0.95,
        },
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
        target=spec.initial,
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


Place = dict[str, Any]


def climb(
    grid: dict[str, list[Any]], start: Place, score_of: Callable[[Place], float]
) -> tuple[Place, list[str]]:
    """Climbs a grid to a place that no neighbour betters.

    Args:
        grid: The places of each parameter, in order.
        start: Where to begin.
        score_of: The score of a place; NaN (a candidate diverged) is worse than any number.

    Returns:
        The place, and the parameters in which it stands at an end of the grid.
    """
    best, best_score = start, _or_worst(score_of(start))
    climbing = True
    while climbing:
        climbing = False
        for name, values in grid.items():
            here = values.index(best[name])
            for index in (here - 1, here + 1):
                if not 0 <= index < len(values):
                    continue
                place = {**best, name: values[index]}
                if (reached := _or_worst(score_of(place))) > best_score:
                    best, best_score, climbing = place, reached, True
    return best, [name for name, values in grid.items() if best[name] in (values[0], values[-1])]


def _or_worst(score: float) -> float:
    return -np.inf if np.isnan(score) else score


def select(setup: str, seeds: int, root: int, out: Path) -> None:
    """Searches the grid of a setup and keeps what was tried and chosen in a file."""
    environment = envs.setup(setup).environment
    if environment not in GRIDS:
        raise UserError(
            f"setup '{setup}': no candidates are declared for the environment '{environment}'; add "
            f"them to GRIDS of {__name__}."
        )
    declared = GRIDS[environment]
    asked = {
        "chosen_on": "the initial distribution",
        "criterion": "mean return of the deterministic policy after the budget",
        "budget": declared["budget"],
        "seeds": seeds,
        "root": root,
        "command": f"{_COMMAND} {setup} --seeds {seeds} --root {root}",
        "fixed": declared["fixed"],
    }
    kept = json.loads(out.read_text()) if out.exists() else {"settings": {}}
    begun = Path(f"{out}.{setup}.partial")
    record = kept["settings"].get(setup, {}).get("ppo", {})
    record = json.loads(begun.read_text()) if begun.exists() else record
    if {key: record.get(key) for key in asked} != asked:
        record = {**asked, "tried": []}
    # A grid may be widened in mid-search or after it, by further parameters too: what was tried so
    # far had those of the start.
    record["grid"] = declared["grid"]
    for candidate in record["tried"]:
        candidate["varied"] = {**declared["start"], **candidate["varied"]}
    runs = [RunSeed(root=root, role=StudyRole.TUNE, index=i) for i in range(seeds)]

    def score_of(place: Place) -> float:
        for candidate in record["tried"]:
            if candidate["varied"] == place:
                return float(candidate["mean_return"])
        params = {**declared["fixed"], **place}
        results = train_on_initial(setup, params, declared["budget"], runs)
        record["tried"].append({"varied": place, **score(results)})
        begun.write_text(json.dumps(record))
        print(setup, record["tried"][-1], flush=True)  # noqa: T201 - progress of a script
        return float(record["tried"][-1]["mean_return"])

    place, at_end = climb(declared["grid"], declared["start"], score_of)
    record |= {"params": {**declared["fixed"], **place}, "at_end_of_grid": at_end}
    kept["settings"].setdefault(setup, {})["ppo"] = record
    out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    begun.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the selection and writes `settings.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setup", nargs="+", help="setups to choose settings for")
    parser.add_argument("--seeds", type=int, default=5, help="training runs per candidate")
    parser.add_argument("--root", type=int, default=0, help="root seed")
    parser.add_argument("--out", type=Path, default=SETTINGS, help="file to write the choice to")
    given = parser.parse_args(arguments)
    for setup in given.setup:
        select(setup, given.seeds, given.root, given.out)


if __name__ == "__main__":
    main()
