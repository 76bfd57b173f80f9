"""How fast the statistics are: bootstrap, confidence sequence and permutation.

The stratified bootstrap is timed beside rliable's own on the same scores. Both sides give mean and
IQM with 95 % percentile intervals for 4 tasks × 20 seeds. rliable runs first, between and last, so
that a drift of the machine does not favour either side; all is in processor time. The intervals of
1 000 comparisons of 200 seeds, after every seed, stand beside the formula as it is written:
products of wealths, an end by bisection, of the last look alone.

    python -m benchmarks.statistics
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rliable import library, metrics

from benchmarks.table import row
from pacebench.harness.statistics import bootstrap, exact
from pacebench.harness.statistics import confidence_sequence as cs

RUNS, TASKS, RESAMPLES, BLOCKS = 20, 4, 50_000, 3
SEQUENCES, SEEDS = 1_000, 200
GROWING = (1_000, 4_000, 16_000)  # seeds
BY_FORMULA = 3  # sequences that the plain formula is timed on; it takes the same for each


def _theirs(scores: np.ndarray) -> None:
    library.get_interval_estimates(
        {"method": scores},
        lambda x: np.array([metrics.aggregate_mean(x), metrics.aggregate_iqm(x)]),
        reps=RESAMPLES,
    )


def _ours(scores: np.ndarray) -> None:
    values = bootstrap.resample(scores, ("mean", "iqm"), RESAMPLES, np.random.default_rng(0))
    for distribution in values.values():
        bootstrap.quantiles(distribution, bootstrap.percentile_tail(0.95))


def _by_formula(z: np.ndarray, alpha: float = 0.05) -> tuple[float, float]:
    """Returns the interval of differences in [−1, 1] after all seeds, as the formula is written."""
    stakes = 0.999 * np.sin(np.pi * (np.arange(1, 65) - 0.5) / 128) ** 2

    def lowest(u: np.ndarray) -> float:
        low, high = 0.0, 1.0
        for _ in range(40):
            m = (low + high) / 2
            logs = np.cumsum(np.log1p(stakes / m * (u[:, None] - m)), axis=0)
            reached = np.exp(logs).mean(axis=1).max() >= 2 / alpha
            low, high = (m, high) if reached else (low, m)
        return low

    return 2 * lowest((1 + z) / 2) - 1, 1 - 2 * lowest((1 - z) / 2)


def _against_the_formula() -> None:
    z = np.random.default_rng(0).uniform(-0.8, 1, (SEQUENCES, SEEDS))
    ends = cs.difference_sequence(z, 1.0, 0.05)
    plain, ours = [], []
    for _ in range(BLOCKS):
        start = time.process_time()
        found = [_by_formula(row) for row in z[:BY_FORMULA]]
        plain.append((time.process_time() - start) / BY_FORMULA * SEQUENCES)
        ours.append(_seconds(lambda z: cs.difference_sequence(z, 1.0, 0.05), z))
        np.testing.assert_allclose(
            found, np.stack([ends.low, ends.high], axis=2)[:BY_FORMULA, -1], rtol=0, atol=2e-9
        )
    row(
        f"betting intervals of {SEQUENCES} comparisons, {SEEDS} seeds: formula / pacebench",
        f"{np.median(plain):.2f} s, last look / {np.median(ours):.2f} s, every look",
        float(np.median(np.array(plain) / ours)),
    )


def _growth() -> None:
    """Prints how the interval of one comparison grows with its seeds."""
    z = np.random.default_rng(0).uniform(-0.8, 1, GROWING[-1])
    taken = [
        min(_seconds(lambda z: cs.difference_interval(z, 1.0, 0.05), z[:n]) for _ in range(BLOCKS))
        for n in GROWING
    ]
    power = np.polyfit(np.log(GROWING), np.log(taken), 1)[0]
    sides = ", ".join(f"{n:,}: {s * 1e3:.0f} ms" for n, s in zip(GROWING, taken, strict=True))
    row("betting interval: power of the number of seeds", sides, power, most=1.2)


def _confidence_sequences() -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(-0.8, 1, (SEQUENCES, SEEDS))
    few, many = rng.normal(size=(2, 12)), rng.normal(size=(2, SEEDS))
    tasks: dict[str, Callable[[np.ndarray], object]] = {
        f"interval after {SEEDS} seeds": lambda z: cs.difference_interval(z[0], 1.0, 0.05),
        f"{SEQUENCES} x {SEEDS} wealths": lambda z: cs.difference_log_wealth(z, 1.0),
        "all permutations of 12 + 12 runs": lambda _: exact.permutation_p_value(*few, rng),
        f"drawn permutations of {SEEDS} + {SEEDS}": lambda _: exact.permutation_p_value(*many, rng),
    }
    for name, function in tasks.items():
        print(f"  {name:36} {np.median([_seconds(function, z) for _ in range(BLOCKS)]):8.4f} s")


def _seconds(function: Callable[[np.ndarray], object], scores: np.ndarray) -> float:
    start = time.process_time()
    function(scores)
    return time.process_time() - start


def main() -> None:
    """Measures both bootstraps in interleaved blocks and prints the ratio, then the rest."""
    scores = np.random.default_rng(0).normal(size=(RUNS, TASKS))
    _ours(scores)
    pairs = []
    for block in range(BLOCKS):
        order = (_theirs, _ours) if block % 2 == 0 else (_ours, _theirs)
        pairs.append({function.__name__: _seconds(function, scores) for function in order})
    theirs = np.median([pair["_theirs"] for pair in pairs])
    ours = np.median([pair["_ours"] for pair in pairs])
    ratios = [pair["_theirs"] / pair["_ours"] for pair in pairs]
    text = f"{RESAMPLES} resamples, {TASKS} tasks × {RUNS} seeds: rliable / pacebench"
    row(text, f"{theirs:.3f} s / {ours:.3f} s", float(np.median(ratios)))
    _against_the_formula()
    _growth()
    print("Confidence sequences and permutations:")
    _confidence_sequences()


if __name__ == "__main__":
    main()
