"""How long one curriculum update takes, as ratios measured in one run.

    python benchmarks/curricula.py                 # everything, a few minutes
    python benchmarks/curricula.py --only scaling  # the closed form against one pass over the data
    python benchmarks/curricula.py --only clocks   # the step and its recording, of every curriculum

Both sides of each ratio take turns within one process and on the same recorded batch, so that a
machine that speeds up or slows down does so for both. Printed are the median over rounds of the
ratio within a round, and its quartiles.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# This file has the name of the package that it measures, and the package must win.
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).parent.resolve()]
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from collections.abc import Callable  # noqa: E402
from time import perf_counter, perf_counter_ns, process_time, process_time_ns  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.table import MISSED, row  # noqa: E402
from pacebench import curricula  # noqa: E402
from pacebench.curricula import base  # noqa: E402

# Of the closed form's own step: over one blocked pass at d = 10 000; seconds at d = 3, K = 20.
RATIO, SMALL = 1.5, 50e-6


CLOCKS = {"wall": perf_counter, "cpu": process_time}
NANOSECONDS = {perf_counter: perf_counter_ns, process_time: process_time_ns}
clock = CLOCKS["cpu"]


def timed(action: Callable[[], object], repeats: int) -> float:
    """Returns the seconds of one call, averaged over `repeats`."""
    started = clock()
    for _ in range(repeats):
        action()
    return (clock() - started) / repeats


def stepper(name: str, d: int, samples: int, seed: int) -> Callable[[], object]:
    """Returns a function that finds one and the same convergence step again and again."""
    rng = np.random.default_rng([seed, d])
    target = curricula.Gaussian(rng.normal(size=d), rng.uniform(0.5, 2.0, d))
    start = curricula.Gaussian(target.mean + 2.0 * target.std, target.variance * 3.0)
    contexts = start.sample(samples, rng)
    values = 1.0 - 0.1 * ((contexts - start.mean) / start.std).mean(axis=1)
    c = curricula.make(name, target=target, initial=start, epsilon=0.05, threshold=0.5)
    proposal = c._propose(contexts, values)
    if proposal.step != "convergence":
        raise RuntimeError(f"{name} at d = {d} took a {proposal.step} step")
    # Proposing changes nothing, so nothing has to be restored.
    return lambda: c._propose(contexts, values)


def blocked(d: int, samples: int, seed: int) -> Callable[[], object]:
    """Returns one pass over the K × d contexts in blocks of rows that stay in the cache.

    First and second moments weighted by the values: what the closed form must know of a batch.
    """
    rng = np.random.default_rng([seed, d])
    contexts, values, mean = rng.normal(size=(samples, d)), rng.normal(size=samples), np.zeros(d)
    height = max(1, 65_536 // d)

    def statistics() -> object:
        first, second = np.zeros(d), np.zeros(d)
        for start in range(0, samples, height):
            w = values[start : start + height]
            r = contexts[start : start + height] - mean
            first += w @ r
            r *= r
            second += w @ r
        return first, second

    return statistics


def compare(
    label: str,
    slow: Callable[[], object],
    fast: Callable[[], object],
    rounds: int,
    repeats: tuple[int, int],
    most: float | None = None,
) -> bool:
    """Prints the median ratio slow/fast over interleaved rounds; returns whether it is wanted."""
    slow(), fast()
    ratios, times = [], []
    for i in range(rounds):
        # The order alternates, so that a drift does not favour one side.
        if i % 2:
            a, b = timed(slow, repeats[0]), timed(fast, repeats[1])
        else:
            b, a = timed(fast, repeats[1]), timed(slow, repeats[0])
        ratios.append(a / b)
        times.append((a, b))
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    a, b = np.median(times, axis=0)
    sides = f"{a * 1e6:.1f} µs / {b * 1e6:.1f} µs; quartiles of the ratio {low:.2f}, {high:.2f}"
    return row(label, sides, float(middle), most=most)


def solvers(samples: int, rounds: int, dimensions: list[int]) -> None:
    """The closed form against the two solvers of SPDL's problem."""
    print(f"one convergence step, K = {samples}: time over that of the closed form `spgl`")
    for d in dimensions:
        closed = stepper("spgl", d, samples, 0)
        for name in ("spgl-shared", "spgl-joint", "spdl-sqp", "spdl"):
            dear = name.startswith("spdl") and d > 3
            n = 3 if dear else rounds
            compare(f"d = {d}: {name} / spgl", stepper(name, d, samples, 0), closed, n, (1, 50))


def scaling(samples: int, rounds: int) -> bool:
    """The closed form against the bare cost of its statistics, diagonal."""
    print(f"closed form over one blocked pass over the contexts, K = {samples}, diagonal")
    within = [
        compare(
            f"d = {d}: spgl / one pass in blocks",
            stepper("spgl", d, samples, 0),
            blocked(d, samples, 0),
            rounds,
            (10, 10) if d > 3 else (200, 200),
            RATIO if d == 10_000 else None,
        )
        for d in (3, 1000, 10_000)
    ]
    small = stepper("spgl", 3, 20, 0)
    small()
    least = float(np.median([timed(small, 200) for _ in range(rounds)]))
    sides = f"{least * 1e6:.1f} µs / {SMALL * 1e6:.0f} µs"
    return all(within) & row(
        "d = 3, K = 20: step of spgl, repeated on one batch / limit", sides, least / SMALL, most=1.0
    )


def clocks(rounds: int) -> None:
    """The two clocks of an update of every registered curriculum, K = 20, d = 3."""
    base.perf_counter_ns = NANOSECONDS[clock]  # type: ignore[attr-defined]
    for name in curricula.names():
        c = curricula.make(
            name,
            target=curricula.Gaussian(np.zeros(3), np.full(3, 0.01)),
            initial=curricula.Gaussian(np.full(3, 0.5), np.full(3, 0.09)),
            bounds=(np.full(3, -2.0), np.full(3, 2.0)),
            threshold=0.0,
        )
        rng, times = np.random.default_rng(0), []
        for _ in range(3 if name == "spdl" else 10 * rounds):
            contexts = c.sample(20, rng)
            values = 1.0 - 0.3 * np.abs(contexts).mean(axis=1) + 0.1 * rng.standard_normal(20)
            record = c.update(curricula.Episodes.standing_in(contexts, values, c.reads))
            times.append((record.seconds, record.seconds_recording))
        # Some methods fit a model every hundred episodes: the mean is what a run pays.
        step, recording = np.mean(times[1:], axis=0)
        sides = f"{recording * 1e6:.1f} µs / {step * 1e6:.1f} µs an update"
        row(f"d = 3, K = 20, {name}: recording / step", sides, recording / step)


def main() -> None:
    """Runs the benchmarks; exits with 3 where the closed form is not within its limits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["scaling", "clocks", "solvers"])
    parser.add_argument("--samples", type=int, default=100, help="contexts per update, K")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[3, 10, 30])
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="cpu", help="cpu time suits a busy machine"
    )
    options = parser.parse_args()
    global clock
    clock = CLOCKS[options.clock]
    print(f"{options.clock} time, one thread")
    within = True
    if options.only in (None, "scaling"):
        within = scaling(options.samples, options.rounds)
    if options.only in (None, "clocks"):
        clocks(options.rounds)
    if options.only in (None, "solvers"):
        solvers(options.samples, options.rounds, options.dimensions)
    sys.exit(0 if within else MISSED)


if __name__ == "__main__":
    main()
