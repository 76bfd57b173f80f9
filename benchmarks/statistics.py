"""How fast the stratified bootstrap is, beside rliable's own on the same scores.

Both sides give mean and IQM with 95 % percentile intervals for 4 tasks × 20 seeds. rliable runs
first, between and last, so that a drift of the machine does not favour either side.

    python benchmarks/statistics.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rliable import library, metrics

from pacebench.harness.statistics import bootstrap

RUNS, TASKS, RESAMPLES, BLOCKS = 20, 4, 50_000, 3


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


def _seconds(function: Callable[[np.ndarray], None], scores: np.ndarray) -> float:
    start = time.perf_counter()
    function(scores)
    return time.perf_counter() - start


def main() -> None:
    """Measures both in interleaved blocks and prints the ratio."""
    scores = np.random.default_rng(0).normal(size=(RUNS, TASKS))
    _ours(scores)
    pairs = []
    for block in range(BLOCKS):
        order = (_theirs, _ours) if block % 2 == 0 else (_ours, _theirs)
        pairs.append({function.__name__: _seconds(function, scores) for function in order})
    theirs = np.median([pair["_theirs"] for pair in pairs])
    ours = np.median([pair["_ours"] for pair in pairs])
    ratios = [pair["_theirs"] / pair["_ours"] for pair in pairs]
    print(f"{RESAMPLES} resamples of mean and IQM, {TASKS} tasks x {RUNS} seeds:")
    print(f"  rliable   {theirs:8.3f} s")
    print(f"  pacebench {ours:8.3f} s")
    print(
        f"  ratio     {np.median(ratios):8.1f}  (blocks: {', '.join(f'{r:.0f}' for r in ratios)})"
    )


if __name__ == "__main__":
    main()
