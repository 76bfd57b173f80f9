"""Problem instances: what every curriculum is given, the same for all.

A stream is a list of instances. Each holds the distribution that the contexts were sampled from,
so every curriculum starts every replayed update from *that* distribution, whatever it would have
done before. All methods then solve the same problem, and speed and quality can be compared update
by update; feeding each the contexts of somebody else's distribution would compare nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench import curricula

Floats = NDArray[np.float64]

# In turn: below the threshold; above with little to lose; above with plenty to lose.
KINDS = (*("performance", "tight", "loose") * 2, "performance", "tight", "near", "near-tight")
# How far the mean value lies above the threshold, in standard deviations of the values.
_MARGIN = {"performance": -0.5, "tight": 0.02, "loose": 2.0, "near": 2.0, "near-tight": 0.02}


@dataclass(frozen=True)
class Instance:
    """One update to be made."""

    target: curricula.Gaussian  # the target distribution ψ
    current: curricula.Gaussian  # the distribution p that the contexts were sampled from
    contexts: Floats  # (K, d), unclipped
    values: Floats  # (K,)
    threshold: float  # V₋
    epsilon: float  # ε

    def make(self, name: str) -> curricula.Curriculum:
        """Returns the curriculum `name` at p, before the update.

        V₋ counts as not reached before, so that a shortfall asks every self-paced curriculum for
        its performance step rather than some for nothing. Divergences and distances, which only
        readers of a record need and which cost all curricula the same, are not recorded; training
        runs tell what that costs.
        """
        reach = 8.0 * (self.current.std + self.target.std)
        low = np.minimum(self.current.mean, self.target.mean) - reach
        high = np.maximum(self.current.mean, self.target.mean) + reach
        return curricula.make(
            name,
            target=self.target,
            initial=self.current,
            bounds=(low, high),
            epsilon=self.epsilon,
            threshold=self.threshold,
            record_every=0,
        )

    def given(self, curriculum: curricula.Curriculum) -> tuple[Any, ...]:
        """Returns the arguments of the update; what else is read is made up from the values."""
        if curriculum.reads <= {"contexts", "values"}:
            return self.contexts, self.values
        return (curricula.Episodes.standing_in(self.contexts, self.values, curriculum.reads),)


def synthetic(d: int, size: int, index: int, *, seed: int, epsilon: float) -> Instance:
    """Returns instance `index` of the synthetic stream for d dimensions and `size` contexts.

    The state lies on the way from a wide initial distribution to the target, further on with every
    index and close to the target at the end. The value falls along a direction that leads partly
    to the target, as it does for a policy that has learnt the easy contexts, and is noisy. The
    threshold is set by `KINDS`, so that every case of every update rule occurs.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, d, size, index)))
    # One problem per d: instances differ in how far they are, not in where they go.
    fixed = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, d)))
    kind = KINDS[index % len(KINDS)]
    std = np.exp(fixed.uniform(-1.5, 0.5, d))
    target = curricula.Gaussian(3.0 * std * fixed.standard_normal(d), std**2)
    gap0 = np.sign(fixed.standard_normal(d)) * fixed.uniform(1.0, 3.0, d)
    log_theta0 = fixed.uniform(1.0, 4.0, d)
    direction = fixed.standard_normal(d)
    far = 1.0 - (index % len(KINDS)) / len(KINDS)
    if kind.startswith("near"):
        # Close enough for the target to be within one budget, whatever d.
        far = 0.5 * float(np.sqrt(epsilon / (gap0 @ gap0 + log_theta0 @ log_theta0)))
    theta = np.exp(far * log_theta0)
    gap = far * gap0  # in units of the current standard deviation
    current = curricula.Gaussian(target.mean - gap * std * np.sqrt(theta), std**2 * theta)
    z = rng.standard_normal((size, d))
    # Unequal parts: in one dimension equal ones could cancel.
    slope = 0.8 * gap0 / np.linalg.norm(gap0) + 0.6 * direction / np.linalg.norm(direction)
    logits = -(z @ (slope / np.linalg.norm(slope))) + 0.5 * rng.standard_normal(size)
    values = 10.0 / (1.0 + np.exp(-logits))
    z *= current.std
    z += current.mean
    spread = float(values.std())
    threshold = float(values.mean()) - _MARGIN[kind] * spread
    return Instance(target, current, z, values, threshold, epsilon)
