"""What analytic gradients make of SPDL's published solver, as a ratio measured in one run.

    python -m benchmarks.published_spdl                # d = 3, K = 40, ten instances

"Published solver" in our reports is `spdl`: the published algorithm and optimiser settings (SciPy's
trust-constr, gtol 1e-4, xtol 1e-6) with analytic gradients. The original implementation builds each
distribution with torch, differentiates automatically, and evaluates value and gradient of the
constraints separately. `AutogradSpdl` does the same inside our `spdl`, so that everything else is
equal: start, constraints, quasi-Newton Hessians, and what is done with the result. Both make the
same updates on the same instances, in turns within one process and on one thread.
"""

from __future__ import annotations

from benchmarks.table import row
from pacebench.harness import threads

threads.use_one()  # before NumPy and torch are imported

import argparse  # noqa: E402
import functools  # noqa: E402
from collections.abc import Callable  # noqa: E402
from time import perf_counter, process_time  # noqa: E402
from typing import Any  # noqa: E402
from unittest import mock  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.distributions import MultivariateNormal, kl_divergence  # noqa: E402

from pacebench.curricula import spdl as module  # noqa: E402
from pacebench.curricula.base import Curriculum, Proposal  # noqa: E402
from pacebench.curricula.cholesky_problem import Array, CholeskyProblem  # noqa: E402
from pacebench.harness.overhead.cells import Instance, synthetic  # noqa: E402


def _differentiated(function: Callable[[Any, torch.Tensor], torch.Tensor]) -> Any:
    """Makes of a method that returns a value one that returns it with its gradient."""

    @functools.wraps(function)
    def with_gradient(self: Any, x: Array) -> tuple[float, Array]:
        variable = torch.tensor(x, requires_grad=True)
        result = function(self, variable)
        (gradient,) = torch.autograd.grad(result, variable)
        return float(result.detach()), gradient.numpy()

    return with_gradient


class AutogradProblem(CholeskyProblem):
    """The same quantities over the same variables, with torch's distributions and gradients."""

    def __init__(self, old: Any, target: Any, contexts: Array, weights: Array) -> None:
        super().__init__(old, target, contexts, weights)
        self._p, self._psi = (
            MultivariateNormal(torch.tensor(mean), scale_tril=torch.tensor(factor))
            for mean, factor in (old, target)
        )
        self._c, self._w = torch.tensor(contexts), torch.tensor(weights)
        self._old_log_prob = self._p.log_prob(self._c)

    def _new(self, x: torch.Tensor) -> MultivariateNormal:
        d = self.dim
        factor = torch.diag(torch.exp(x[d : 2 * d]))
        factor = factor.index_put(tuple(torch.as_tensor(i) for i in self._below), x[2 * d :])
        return MultivariateNormal(x[:d], scale_tril=factor)

    @_differentiated
    def distance(self, x: torch.Tensor) -> torch.Tensor:
        """Returns KL(p_new‖ψ)."""
        return kl_divergence(self._new(x), self._psi)

    @_differentiated
    def trust(self, x: torch.Tensor) -> torch.Tensor:
        """Returns KL(p_old‖p_new)."""
        return kl_divergence(self._p, self._new(x))

    @_differentiated
    def value(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the importance-weighted value."""
        logs = self._new(x).log_prob(self._c) - self._old_log_prob
        return (torch.exp(logs) * self._w).sum()


def _separately(function: Any) -> tuple[Any, Any]:
    """Returns value and gradient as two functions, each of which evaluates anew."""

    def value(x: Array) -> float:
        with torch.no_grad():
            return float(function.__wrapped__(function.__self__, torch.as_tensor(x)))

    return value, lambda x: function(x)[1]


class AutogradSpdl(module.Spdl):
    """`spdl` with automatic gradients."""

    def _solve(self, *arguments: Any) -> Proposal:
        with (
            mock.patch.object(module, "CholeskyProblem", AutogradProblem),
            mock.patch.object(module, "once_per_point", _separately),
        ):
            return super()._solve(*arguments)


def measure(
    kind: type[Curriculum], instance: Instance, clock: Callable[[], float]
) -> tuple[float, Any]:
    """Returns the seconds of one update from the instance's state, and where it led."""
    curriculum = kind(
        target=instance.target, initial=instance.current,
        epsilon=instance.epsilon, threshold=instance.threshold,
    )  # fmt: skip
    started = clock()
    curriculum.update(instance.contexts, instance.values)
    return clock() - started, curriculum.distribution


def main() -> None:
    """Times both on the same instances and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dimensions", type=int, default=3)
    parser.add_argument("--size", type=int, default=40, help="contexts per update, K")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    options = parser.parse_args()
    d, size = options.dimensions, options.size
    clock = perf_counter if options.clock == "wall" else process_time
    instances = [synthetic(d, size, i, seed=2026, epsilon=0.05) for i in range(10)]
    kinds: list[type[Curriculum]] = [AutogradSpdl, module.Spdl]
    times, apart = np.empty((2, len(instances), options.rounds)), 0.0
    for number in range(-1, options.rounds):
        for i, instance in enumerate(instances):
            # The order alternates, so that a drift does not favour one side; round −1 warms up.
            found = {k: measure(kinds[k], instance, clock) for k in ((0, 1), (1, 0))[number % 2]}
            if number < 0:
                apart = max(apart, found[0][1].kl(found[1][1]))
            else:
                times[:, i, number] = found[0][0], found[1][0]
    print(f"d = {d}, K = {size}, {options.clock} time, one thread")
    print(f"largest KL between the two answers to one instance: {apart:.1e}")
    each = np.exp(np.log(times[0] / times[1]).mean(axis=1))
    mean, (low, high) = np.exp(np.log(each).mean()), np.quantile(each, [0.25, 0.75])
    text = f"d = {d}, K = {size}: SPDL with automatic gradients / spdl"
    sides = f"{times[0].mean():.3f} s / {times[1].mean():.3f} s an update"
    row(f"{text}, total", sides, times[0].sum() / times[1].sum())
    row(f"{text}, geometric mean", f"quartiles {low:.2f}, {high:.2f}", mean)


if __name__ == "__main__":
    main()
