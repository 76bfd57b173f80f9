"""How time grows: t = t₀ + c·dᵅ·Kᵝ, fitted to the logarithms of the times, block by block.

The fixed cost t₀ (calls, checks, the record) dominates small updates, where a plain slope would say
nothing about the work. Every block replays all instances of the whole grid, so each gives exponents
of its own, and these give t intervals for these instances, timed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares

from pacebench.harness.overhead.cells import CellRecord, Clock
from pacebench.harness.overhead.crossed import mean
from pacebench.harness.overhead.findings import ScalingFinding
from pacebench.harness.overhead.instances import Floats

# Work dominates where the update takes this many times the cheapest one.
_DOMINATES = 3.0
_MINIMUM_CELLS, _MINIMUM_WORKING = 6, 4
_MISFIT = np.log(10.0)


def fit(name: str, cells: Sequence[CellRecord], clock: Clock) -> ScalingFinding | None:
    """Fits exponents to the times of one curriculum in the cells of the grid.

    Returns:
        None where fewer than six cells or three different d are there, where work dominates the
        fixed cost in fewer than four cells (the exponents would be those of noise), or where the
        fit misses a cell by more than a factor of ten: the time does not follow such a law.
    """
    mine = [c for c in cells if c.stream.kind == "synthetic" and name in c.seconds]
    d = np.array([cell.stream.d for cell in mine], dtype=np.float64)
    size = np.array([cell.stream.size for cell in mine], dtype=np.float64)
    varied = len(set(size)) >= 3
    if len(mine) < _MINIMUM_CELLS or len(set(d)) < 3:
        return None
    logs = np.stack([np.log(cell.times(name, clock)).mean(axis=0) for cell in mine], axis=1)
    middle = logs.mean(axis=0)
    working = int((np.exp(middle) > _DOMINATES * np.exp(middle.min())).sum())
    if working < _MINIMUM_WORKING:
        return None
    curve = _fit_block(d, size, middle, varied)
    misfit = float(np.abs(_model(curve, d, size) - middle).max())
    if misfit > _MISFIT:
        return None
    fits = np.array([_fit_block(d, size, block, varied) for block in logs])
    work = d * size
    return ScalingFinding(
        alpha=mean(fits[:, 2]),
        beta=mean(fits[:, 3]) if varied else None,
        fixed=float(np.median(np.exp(fits[:, 0]))),
        cells=len(mine),
        working=working,
        misfit=misfit,
        range=(int(work.min()), int(work.max())),
        curve=tuple(curve.tolist()),
    )


def predict(scaling: ScalingFinding, d: Floats, size: Floats) -> Floats:
    """Returns the fitted seconds."""
    return np.asarray(np.exp(_model(np.array(scaling.curve), d, size)))


def _model(parameters: Floats, d: Floats, size: Floats) -> Floats:
    fixed, work, alpha, beta = parameters
    return np.asarray(np.logaddexp(fixed, work + alpha * np.log(d) + beta * np.log(size)))


def _fit_block(d: Floats, size: Floats, logs: Floats, varied: bool) -> Floats:
    """Returns (ln t₀, ln c, α, β), with β = 0 where K hardly varies."""
    largest, beta = int(np.argmax(logs)), 1.0 if varied else 0.0
    work = logs[largest] - np.log(d[largest]) - beta * np.log(size[largest])
    start = np.array([logs.min(), work, 1.0, beta])
    free = 4 if varied else 3

    def residuals(x: Floats) -> Floats:
        return _model(np.concatenate([x, start[free:]]), d, size) - logs

    solution = least_squares(residuals, start[:free], method="trf", x_scale="jac", max_nfev=2000)
    return np.concatenate([solution.x, start[free:]])
