"""The share of training time that each curriculum takes, on Point Mass.

    python -m benchmarks.field                          # all methods, a few minutes
    python -m benchmarks.field --only currot plr        # some
    python -m benchmarks.field --steps 163840 --seeds 3

Every method trains with the defaults of a study, one seed after the other in one process; processor
time, which suits a busy machine. A method passes with at most 5 % of its training time in the
curriculum (updates, with what they record); exits with 3 where one takes more that is not named as
one that must.
"""

from __future__ import annotations

import argparse
import os
import sys
from time import process_time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from benchmarks.table import MISSED, row  # noqa: E402
from pacebench import curricula  # noqa: E402
from pacebench.harness.learners import base  # noqa: E402
from pacebench.harness.overhead.measure import overhead_study  # noqa: E402
from pacebench.harness.study.expand import expand  # noqa: E402
from pacebench.harness.training import train  # noqa: E402

LIMIT = 0.05
# What these do on every update is the method itself.
MUST = {
    "spdl": "SciPy's trust-constr on every update, as published",
    "spdl-sqp": "a constrained program is solved numerically on every update",
    "spgl-exact": "two programs are solved numerically on every update",
    "currot": "values are predicted at up to 100 candidates of 100 particles",
    "alp-gmm": "nine mixtures are fitted to every hundred episodes",
    # One fit takes as long as several iterations of PPO; runs too short for one show 2 %.
    "goal-gan": "a GAN is trained for 250 rounds on every 200 labels",
}


def measured(name: str, setup: str, steps: int, seeds: int) -> tuple[float, float, float]:
    """Returns share of training time, seconds per update, and in all, medians."""
    rows = []
    for run in expand(overhead_study([name], setup, steps, seeds=seeds)):
        (result,) = train(run.cell, [run.seed])
        spent = result.timings["curriculum"]
        total = spent + result.timings["rollout"] + result.timings["policy"]
        updates = max(len(result.updates["step"]), 1)
        rows.append((spent / total, spent / updates, total))
    share, update, total = np.median(rows, axis=0).tolist()
    return share, update, total


def main() -> None:
    """Prints the table; exits with 3 where a method takes more than its share."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=curricula.names())
    parser.add_argument("--setup", default="point-mass-2")
    parser.add_argument("--steps", type=int, default=81_920)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    base.perf_counter = process_time  # type: ignore[attr-defined]
    # What is paid once in a process is nobody's share.
    measured("default", options.setup, 1, 1)
    print(f"{options.setup}, {options.steps:,} steps, {options.seeds} seed(s), processor time")
    met = []
    for name in options.only:
        share, update, total = measured(name, options.setup, options.steps, options.seeds)
        sides = f"{update * 1e3:.2f} ms an update, {total:.1f} s of training in all"
        must = f" (no limit: {MUST[name]})" if name in MUST else ""
        most = None if must else LIMIT
        met.append(row(f"{name}: share of training time{must}", sides, share, most=most))
    sys.exit(0 if all(met) else MISSED)


if __name__ == "__main__":
    main()
