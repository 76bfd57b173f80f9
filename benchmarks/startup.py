"""How soon the command line answers, and what a worker imports.

`pacebench --help` is timed beside a process that imports Typer and what of Rich Typer's help needs,
and nothing else. The two take turns, so that a drift of the machine favours neither.
Then the modules that a real worker has loaded after a cell of `ppo` on Point Mass are counted.

    python -m benchmarks.startup
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import MISSED, row
from pacebench.harness.records import Hooks, RunResult
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import Cell

ROUNDS = 15
LISTING = "PACEBENCH_LISTING"
ALONE = "import typer, typer.rich_utils"
HELP = "from pacebench.harness.cli import main; import sys; sys.argv[1:] = ['--help']; main()"
# What a worker has no need of for a cell of `ppo` on Point Mass.
SUPERFLUOUS = (
    *("matplotlib", "optuna", "sqlalchemy", "ray", "submitit", "stable_baselines3"),
    *("mujoco", "Box2D", "pygame", "statsmodels", "rliable", "arch", "typer", "ruamel", "jinja2"),
)


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def train_and_list(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks) -> list[RunResult]:
    """Trains in a worker, and writes down what is loaded by then."""
    from pacebench.harness.training import train

    results = train(cell, seeds, hooks)
    Path(os.environ[LISTING]).write_text("\n".join(sys.modules))
    return results


def loaded_by_a_worker() -> set[str]:
    """Returns the packages that a worker has loaded after a cell of `ppo` on Point Mass."""
    # Not above: a worker that trains with this module would import all that.
    from pacebench.harness.runner.display import Display
    from pacebench.harness.runner.launch import RunOptions, make_runs
    from pacebench.harness.study.expand import expand
    from pacebench.harness.study.load import load_study
    from pacebench.harness.study.overrides import Overrides

    with tempfile.TemporaryDirectory() as folder:
        os.environ[LISTING] = f"{folder}/modules.txt"
        study = load_study("quick", Overrides(("budget=2048", "evaluation.points=1"), ("default",)))
        run = expand(study)[:1]
        options = RunOptions(
            workers=1, train="benchmarks.startup:train_and_list", display=Display()
        )
        make_runs(study.name, study.model_dump(mode="json"), run, Path(folder) / "runs", options)
        return {name.partition(".")[0] for name in Path(os.environ[LISTING]).read_text().split()}


def main() -> None:
    """Prints both measurements."""
    times: dict[str, list[float]] = {"Typer and Rich alone": [], "pacebench --help": []}
    for _ in range(ROUNDS):
        for name, code in zip(times, (ALONE, HELP), strict=True):
            times[name].append(_seconds(code))
    medians = {name: statistics.median(found) for name, found in times.items()}
    alone, ours = medians.values()
    sides = f"{ours:.3f} s / {alone:.3f} s"
    met = row("pacebench --help / importing Typer and Rich", sides, ours / alone, most=2.0)
    loaded = loaded_by_a_worker()
    superfluous = sorted(loaded & set(SUPERFLUOUS))
    sides = f"{', '.join(superfluous) or 'none'} of {len(loaded)} packages"
    met &= row("packages that a worker has no need of", sides, len(superfluous), most=0)
    sys.exit(0 if met else MISSED)


if __name__ == "__main__":
    main()
