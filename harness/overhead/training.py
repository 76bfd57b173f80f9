"""Instrumented training runs: the curriculum's share of the time, score per step and per second.

Every run has a process of its own, pinned to one thread, and no two run at once: times of parallel
jobs would say how they got in each other's way. Per seed the curricula come in random order, so a
seed is a block, and comparisons between curricula are paired by it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.overhead.machine import Watch, pin, pinned_environment
from harness.overhead.settings import Settings, order_generator, source_digest
from harness.seeding import RunSeed, StudyRole
from harness.store.files import make_folder, write_atomic
from harness.study.specs import Cell, digest

SETUP = "point-mass-2"
CURRICULA = ("default", "spgl", "spgl-shared", "spdl-sqp", "spdl")
EVALUATIONS = 10


def training_cell(curriculum: str, setup: str, steps: int, root: int) -> Cell:
    """Returns the cell of one curriculum with every default of a study."""
    from harness.study.expand import resolve_cell
    from harness.study.models import Study

    study = Study.model_validate(
        {
            "name": "overhead",
            "question": "What does the curriculum cost?",
            "curricula": [curriculum],
            "setups": [setup],
            "learner": "ppo",
            "seeds": {"count": 1, "root": root},
            "budget": steps,
            "evaluation": {"points": EVALUATIONS, "contexts": 100},
        }
    )
    return resolve_cell(study, study.curricula[0], setup)


def planned(settings: Settings) -> list[tuple[int, str]]:
    """Returns (seed, curriculum) in the order of the runs: random within each seed."""
    names = [name for name in CURRICULA if name in settings.curricula]
    return [
        (seed, names[i])
        for seed in range(settings.training_seeds)
        for i in order_generator(settings, 1_000 + seed).permutation(len(names))
    ]


def measure_training(folder: Path, settings: Settings) -> Iterator[str]:
    """Runs what is missing, one after the other; yields a note per run."""
    make_folder(folder)
    for seed, name in planned(settings):
        path = run_path(folder, settings, seed, name)
        if path.exists():
            continue
        job = {
            "curriculum": name,
            "setup": SETUP,
            "steps": settings.training_steps,
            "root": settings.seed,
            "index": seed,
            "cpu": seed,
        }
        done = subprocess.run(
            [sys.executable, "-m", "harness.overhead.training"],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            env=pinned_environment(),
        )
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise UserError(
                f"the instrumented run of {name!r} with seed {seed} failed: "
                f"{said[-1] if said else 'no message'}; repair that and run the command again."
            )
        found = json.loads(done.stdout.strip().splitlines()[-1])
        write_atomic(path, json.dumps(found, separators=(",", ":")).encode(), durable=False)
        yield f"{name}, seed {seed}"


def load_runs(folder: Path, settings: Settings) -> list[dict[str, Any]]:
    """Returns the finished runs of these settings, in the order they were planned."""
    found = []
    for seed, name in planned(settings):
        path = run_path(folder, settings, seed, name)
        if path.exists():
            found.append(json.loads(path.read_text(encoding="utf-8")))
    return found


def run_path(folder: Path, settings: Settings, seed: int, name: str) -> Path:
    """Returns where a run is kept; other settings or another source give another name."""
    key = digest([settings.seed, settings.training_steps, SETUP, source_digest()])
    return folder / f"{name}-{seed:02d}-{key[:8]}.json"


def run_one(job: dict[str, Any]) -> dict[str, Any]:
    """Trains once in this process; returns timings, the curve and the curriculum's updates."""
    from harness.training import train

    cell = training_cell(job["curriculum"], job["setup"], job["steps"], job["root"])
    seed = RunSeed(root=job["root"], role=StudyRole.EVALUATE, index=job["index"])
    watch = Watch()
    [result] = train(cell, [seed])
    curve: dict[int, list[float]] = {}
    success: dict[int, list[bool]] = {}
    rows = result.evaluations
    for i, step in enumerate(rows["step"]):
        if rows["distribution"][i] == "target" and rows["policy"][i] == "deterministic":
            curve.setdefault(step, []).append(float(rows["return"][i]))
            success.setdefault(step, []).append(bool(rows["success"][i]))
    updates = result.updates
    return {
        "curriculum": job["curriculum"],
        "seed": job["index"],
        "setup": job["setup"],
        "status": str(result.status),
        "env_steps": result.env_steps,
        "timings": {phase: float(f"{s:.6g}") for phase, s in result.timings.items()},
        "steps": sorted(curve),
        "return": [sum(curve[s]) / len(curve[s]) for s in sorted(curve)],
        "success": [sum(success[s]) / len(success[s]) for s in sorted(success)],
        "update_steps": updates["env_steps"],
        "update_seconds": [float(f"{s:.5g}") for s in updates.get("seconds", [])],
        "rejected": sum(not a for a in updates.get("accepted", [])),
        "kl_step": [float(f"{k:.5g}") for k in updates.get("kl_step", [])],
        "machine": watch.report(),
    }


def main() -> None:
    """Does one job from standard input."""
    job = json.load(sys.stdin)
    pin(job["cpu"])
    sys.stdout.write(json.dumps(run_one(job)) + "\n")


if __name__ == "__main__":
    main()
