"""Instrumented training runs: the curriculum's share of the time, score per step and per second.

Every seed has a fresh process, pinned to one thread, in which the curricula train one after the
other in random order; no two runs share a moment, because times of parallel jobs would say how they
got in each other's way. So a seed is a block, and comparisons between curricula are paired by it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pacebench.harness import threads
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.machine import Watch, pin
from pacebench.harness.overhead.settings import Settings, order_generator, source_digest
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.study.specs import Cell, digest

SETUP = "point-mass-2"
CURRICULA = ("default", "spgl", "spgl-shared", "spdl-sqp", "spdl")
EVALUATIONS = 10


def training_cell(curriculum: str, setup: str, steps: int, root: int) -> Cell:
    """Returns the cell of one curriculum with every default of a study."""
    from pacebench.harness.study.expand import resolve_cell
    from pacebench.harness.study.models import Study

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
    for seed in range(settings.training_seeds):
        mine = [name for number, name in planned(settings) if number == seed]
        open_ = [name for name in mine if not run_path(folder, settings, seed, name).exists()]
        if not open_:
            continue
        job = {
            "curricula": open_,
            "setup": SETUP,
            "steps": settings.training_steps,
            "root": settings.seed,
            "index": seed,
            "cpu": seed,
        }
        for found in _runs(job):
            path = run_path(folder, settings, seed, found["curriculum"])
            write_atomic(path, json.dumps(found, separators=(",", ":")).encode(), durable=False)
            yield f"{found['curriculum']}, seed {seed}"


def _runs(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Trains the curricula of one seed in a fresh process; yields the runs as they are done."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "pacebench.harness.overhead.training"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=threads.environment(),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        finally:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()
            code = process.wait()
        if code != 0:
            errors.seek(0)
            said = errors.read().strip().splitlines()
            raise UserError(
                f"an instrumented run with seed {job['index']} failed: "
                f"{said[-1] if said else 'no message'}; repair that and run the command again."
            )


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


def run_one(curriculum: str, job: dict[str, Any]) -> dict[str, Any]:
    """Trains once in this process; returns timings, the curve and the curriculum's updates."""
    from pacebench.harness.training import train

    cell = training_cell(curriculum, job["setup"], job["steps"], job["root"])
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
        "curriculum": curriculum,
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
    """Does one job from standard input: one line per curriculum."""
    job = json.load(sys.stdin)
    pin(job["cpu"])
    # What the first run would pay alone: imports, first calls into the tensor library.
    run_one("default", job | {"steps": 1, "index": 10_000})
    for curriculum in job["curricula"]:
        sys.stdout.write(json.dumps(run_one(curriculum, job)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
