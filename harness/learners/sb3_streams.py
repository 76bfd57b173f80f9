"""The global generators that Stable-Baselines3 draws from, one pair for each agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pacebench.harness.seeding import RunRole, RunSeed


class GlobalStreams:
    """PyTorch's and NumPy's global generators, kept for one agent.

    Stable-Baselines3 draws from them. Each agent gets its own state of both, put in place while the
    agent works and taken out again: what it draws depends on its seed alone, and the rest of the
    process does not notice.
    """

    def __init__(self, seed: RunSeed) -> None:
        init, minibatch = (
            int(seed.sequence(role).generate_state(1)[0])
            for role in (RunRole.INIT, RunRole.MINIBATCH)
        )
        self._torch = torch.Generator().manual_seed(init).get_state()
        self._numpy: Any = np.random.RandomState(minibatch).get_state()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Puts the agent's state into the global generators for the time of the context."""
        outer = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
        torch.set_rng_state(self._torch)
        np.random.set_state(self._numpy)  # noqa: NPY002
        try:
            yield
        finally:
            self._torch, self._numpy = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
            torch.set_rng_state(outer[0])
            np.random.set_state(outer[1])  # noqa: NPY002

    def state(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """Returns PyTorch's state as an array, NumPy's as JSON-able values."""
        name, keys, position, has_gauss, cached = self._numpy
        return self._torch.numpy().copy(), {
            "name": str(name),
            "keys": [int(key) for key in keys],
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        }

    def load_state(self, array: NDArray[Any], state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._torch = torch.from_numpy(array.copy())
        keys = np.array(state["keys"], dtype=np.uint32)
        self._numpy = (state["name"], keys, state["position"], state["has_gauss"], state["cached"])
