"""Checks of the actions, contexts and indices that callers hand to an environment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from pacebench.envs.arrays import Actions, Floats, Indices
from pacebench.envs.errors import SetupError
from pacebench.envs.setup import Setup


def check_actions(
    actions: ArrayLike, num_envs: int, space: spaces.Box | spaces.Discrete
) -> Actions:
    """Returns actions (N, act_dim) clipped to a box, or integers (N,) of a discrete space.

    Refuses what is not finite, and integers that are no action.
    """
    if isinstance(space, spaces.Discrete):
        return _check_choices(np.asarray(actions), num_envs, int(space.n))
    checked = np.asarray(actions, dtype=np.float64)
    shape = (num_envs, *space.shape)
    if checked.shape != shape:
        raise SetupError(f"actions must have shape {shape}, got {checked.shape}.")
    # A sum is finite only if all its terms are, and costs less than asking each of them.
    if not math.isfinite(checked.sum()) and not np.isfinite(checked).all():
        raise SetupError(
            f"actions of copies {listed(_not_finite(checked))} are not finite; the policy has "
            "probably diverged."
        )
    return np.minimum(np.maximum(checked, space.low), space.high)


def _check_choices(given: NDArray[Any], num_envs: int, n: int) -> NDArray[np.int64]:
    if given.shape != (num_envs,):
        raise SetupError(f"actions must have shape ({num_envs},), got {given.shape}.")
    if given.dtype.kind not in "iu":
        raise SetupError(f"actions must be integers from 0 to {n - 1}, got {given.dtype}.")
    checked = given.astype(np.int64)
    # Seen as unsigned, negative numbers are too large as well: one pass instead of two.
    if checked.view(np.uint64).max() >= n:
        raise SetupError(f"actions must be integers from 0 to {n - 1}, got {given.tolist()[:5]}.")
    return checked


def check_contexts(contexts: ArrayLike, n: int, setup: Setup) -> Floats:
    """Returns a copy of the contexts (n, d), unclipped; refuses what is not finite."""
    try:
        checked = np.array(contexts, dtype=np.float64)
    except (TypeError, ValueError):
        raise SetupError(f"contexts must be numbers, got {contexts!r}.") from None
    shape = (n, setup.dim)
    if checked.shape != shape:
        raise SetupError(
            f"contexts of {setup.name!r} must have shape {shape} "
            f"({', '.join(setup.context_names)}), got {checked.shape}."
        )
    if not np.isfinite(checked).all():
        raise SetupError(
            f"contexts {listed(_not_finite(checked))} of {setup.name!r} are not finite."
        )
    return checked


def check_context(context: ArrayLike, setup: Setup) -> Floats:
    """Returns one context (d,) as an array."""
    checked = np.asarray(context, dtype=np.float64)
    if checked.shape != (setup.dim,):
        raise SetupError(
            f"a context of {setup.name!r} has {setup.dim} numbers "
            f"({', '.join(setup.context_names)}): it must have shape ({setup.dim},), "
            f"got {checked.shape}."
        )
    return checked


def check_indices(indices: ArrayLike, num_envs: int) -> Indices:
    """Returns the indices of distinct copies."""
    chosen = np.atleast_1d(np.asarray(indices))
    if not np.issubdtype(chosen.dtype, np.integer):
        raise SetupError(f"indices must be integers, got {chosen.dtype}.")
    outside = chosen.size and (chosen.min() < 0 or chosen.max() >= num_envs)
    if chosen.ndim != 1 or outside or len(np.unique(chosen)) != len(chosen):
        raise SetupError(
            f"indices must be distinct copies from 0 to {num_envs - 1}, got {indices!r}."
        )
    return chosen.astype(np.intp)


def listed(indices: Indices) -> str:
    """Writes out the first few indices."""
    shown = ", ".join(map(str, indices[:5]))
    return shown + (" …" if len(indices) > 5 else "")


def _not_finite(rows: Floats) -> Indices:
    return np.flatnonzero(~np.isfinite(rows).all(axis=1))
