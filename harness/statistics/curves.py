"""Learning curves: the mean target score over steps, with a band that holds over the whole grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.bootstrap import MANY_RUNS
from pacebench.harness.statistics.interval import Coverage
from pacebench.harness.statistics.profiles import Band
from pacebench.harness.statistics.scores import FloatArray

_BLOCK = 1 << 20  # simulated values per block


def max_t_quantile(
    curves: FloatArray, level: float, rng: np.random.Generator, draws: int = 4_000
) -> float:
    """Returns the quantile of the largest |t| over the grid.

    Simulates as many normal runs as there are, with the curves' own correlation over steps, and
    takes the largest of the points' t statistics, each with its own estimated spread. Few runs
    overstate the correlation, so a share 1/n of it is replaced by independence; without that the
    band covers 90 % at three runs. Never above Bonferroni's quantile, never below one point's.

    Args:
        curves: One row per run, one column per step; every column varies.
        level: Joint level.
        rng: Source of the simulated runs.
        draws: Simulated studies.
    """
    runs, steps = curves.shape
    residuals = curves - curves.mean(axis=0)
    residuals = residuals / np.sqrt((residuals**2).sum(axis=0))
    share = 1 / runs
    # Only the correlation over steps matters, so runs beyond the number of steps are compressed.
    factor = np.linalg.qr(residuals, mode="r") * np.sqrt(1 - share)
    largest = np.empty(draws)
    many = runs > max(MANY_RUNS, steps)
    block = max(1, _BLOCK // (steps * (steps if many else runs)))
    for start in range(0, draws, block):
        count = min(block, draws - start)
        if many:
            t = _t_of_many(factor.T @ factor + share * np.eye(steps), runs, count, rng)
        else:
            process = rng.standard_normal((count, runs, len(factor))) @ factor
            process += np.sqrt(share) * rng.standard_normal(process.shape)
            t = process.mean(axis=1) / (process.std(axis=1, ddof=1) / np.sqrt(runs))
        largest[start : start + count] = np.abs(t).max(axis=1)
    tail = (1 - level) / 2
    single = -special.stdtrit(runs - 1, tail)
    bonferroni = -special.stdtrit(runs - 1, tail / steps)
    return float(np.clip(np.quantile(largest, level), single, bonferroni))


def _t_of_many(
    covariance: FloatArray, runs: int, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draws t statistics (draws, steps) of normal runs without drawing the runs.

    Their mean is normal, and their scatter matrix is Wishart's, drawn by its Bartlett factor: the
    same distribution, at a cost that does not grow with the runs.
    """
    steps = len(covariance)
    root = np.linalg.cholesky(covariance)
    mean = rng.standard_normal((draws, steps)) @ root.T
    bartlett = np.tril(rng.standard_normal((draws, steps, steps)), -1)
    freedom = runs - 1 - np.arange(steps)
    bartlett[:, np.arange(steps), np.arange(steps)] = np.sqrt(rng.chisquare(freedom, mean.shape))
    variance = ((root @ bartlett) ** 2).sum(axis=2) / (runs - 1)
    return np.asarray(mean / np.sqrt(variance))


def learning_curve(
    steps: Sequence[float] | FloatArray,
    curves: FloatArray,
    seeds: Sequence[int],
    rng: np.random.Generator,
    level: float = 0.95,
    coverage: Coverage | None = None,
) -> Band:
    """Returns the mean curve of one method on one setup with its simultaneous band.

    Where all runs agree (often at the first steps) no spread can be estimated: the band's edges are
    NaN there rather than a false zero width.

    Args:
        steps: The evaluation grid, in environment steps.
        curves: Target score of each run (rows) at each step (columns).
        seeds: The runs' seeds, each once.
        rng: Source of the band's critical value.
        level: Joint level.
        coverage: Simulated coverage, to print.

    Raises:
        UserError: If the curves are ragged, cut short, transposed or repeat a seed.
    """
    grid = np.asarray(steps, dtype=np.float64)
    values = np.asarray(curves, dtype=np.float64)
    if values.shape != (len(seeds), grid.size):
        raise UserError(
            f"Learning curves have shape {values.shape}, expected {(len(seeds), grid.size)}: one "
            f"row per run and one column per step, none cut short."
        )
    if len(set(seeds)) != len(seeds):
        raise UserError("Learning curves repeat a seed; give one curve per training run.")
    if not np.isfinite(values).all():
        raise UserError("Learning curves hold gaps; score missing evaluations with the floor.")
    if len(seeds) < 2:
        raise UserError("A band needs at least two runs.")
    error = values.std(axis=0, ddof=1) / np.sqrt(len(seeds))
    varies = error > 0
    half = np.full(grid.size, np.nan)
    if varies.any():
        half[varies] = max_t_quantile(values[:, varies], level, rng) * error[varies]
    centre = values.mean(axis=0)
    return Band(
        grid=grid,
        centre=centre,
        low=centre - half,
        high=centre + half,
        level=level,
        kind="max-t",
        runs=len(seeds),
        tasks=1,
        simultaneous=True,
        coverage=coverage,
    )
