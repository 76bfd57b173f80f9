"""How time grows: t = t₀ + c·dᵅ·Kᵝ, fitted to the logarithms of the times, block by block.

The fixed cost t₀ (calls, checks, the record) dominates small updates, where a plain slope would say
nothing about the work. Every block is a pass over the whole grid, so each gives exponents of its
own, and these give t intervals.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from pacebench.harness.overhead.instances import Floats
from pacebench.harness.statistics import welch

# Work dominates where the update takes this many times the cheapest one.
DOMINATES = 3.0
_MINIMUM_CELLS = 6
_MINIMUM_WORKING = 4


@dataclass(frozen=True)
class Exponent:
    """An exponent with its interval over blocks."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Scaling:
    """How one curriculum's time grows.

    Attributes:
        d: The exponent α of the dimensions.
        size: The exponent β of the number of contexts; None where the grid does not tell.
        fixed: The fixed cost t₀ in seconds, median over blocks; None where none was fitted.
        cells: How many cells were fitted.
        working: In how many of them work dominates the fixed cost.
        misfit: The largest |ln(time/fit)| of the block means.
        range: Smallest and largest K·d in the fit.
    """

    d: Exponent
    size: Exponent | None
    fixed: float | None
    cells: int
    working: int
    misfit: float
    range: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def fit(d: Floats, size: Floats, times: Floats) -> Scaling | None:
    """Fits exponents to times (blocks, cells) at the cells' d and K.

    Returns:
        None where fewer than six cells or three different d are there, or where work dominates the
        fixed cost in fewer than four cells: the exponents would be those of noise.
    """
    varied = len(set(size.tolist())) >= 3
    if times.shape[1] < _MINIMUM_CELLS or len(set(d.tolist())) < 3:
        return None
    logs = np.log(times)
    middle = np.exp(logs.mean(axis=0))
    working = int((middle > DOMINATES * middle.min()).sum())
    if working < _MINIMUM_WORKING:
        return None
    start = _start(d, size, logs.mean(axis=0), varied)
    fits = np.array([_fit_block(d, size, block, start, varied) for block in logs])
    mean = _fit_block(d, size, logs.mean(axis=0), start, varied)
    misfit = float(np.abs(_model(mean, d, size) - logs.mean(axis=0)).max())
    work = d * size
    return Scaling(
        d=_exponent(fits[:, 2]),
        size=_exponent(fits[:, 3]) if varied else None,
        fixed=float(np.median(np.exp(fits[:, 0]))),
        cells=times.shape[1],
        working=working,
        misfit=misfit,
        range=(int(work.min()), int(work.max())),
    )


def predict(scaling_parameters: Floats, d: Floats, size: Floats) -> Floats:
    """Returns the fitted seconds."""
    return np.asarray(np.exp(_model(scaling_parameters, d, size)))


def curve(d: Floats, size: Floats, times: Floats) -> Floats:
    """Returns the parameters (ln t₀, ln c, α, β) fitted to the block means, for drawing."""
    logs = np.log(times).mean(axis=0)
    varied = len(set(size.tolist())) >= 3
    return _fit_block(d, size, logs, _start(d, size, logs, varied), varied)


def _model(parameters: Floats, d: Floats, size: Floats) -> Floats:
    fixed, work, alpha, beta = parameters
    return np.asarray(np.logaddexp(fixed, work + alpha * np.log(d) + beta * np.log(size)))


def _start(d: Floats, size: Floats, logs: Floats, varied: bool) -> Floats:
    alpha, beta = 1.0, 1.0 if varied else 0.0
    largest = int(np.argmax(logs))
    work = logs[largest] - alpha * np.log(d[largest]) - beta * np.log(size[largest])
    return np.array([logs.min(), work, alpha, beta])


def _fit_block(d: Floats, size: Floats, logs: Floats, start: Floats, varied: bool) -> Floats:
    free = 4 if varied else 3

    def residuals(x: Floats) -> Floats:
        return _model(np.concatenate([x, start[free:]]), d, size) - logs

    solution = least_squares(residuals, start[:free], method="trf", x_scale="jac", max_nfev=2000)
    return np.concatenate([solution.x, start[free:]])


def _exponent(values: Floats) -> Exponent:
    moments = welch.mean_moments(values[:, None])
    low, high = welch.bounds(moments, 0.95)
    return Exponent(float(moments.estimate), float(low), float(high))
