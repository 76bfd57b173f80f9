"""The plain `gymnasium.Env`: a batch of one copy, hence the same physics bit for bit."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.random import SeedSequence

from pacebench.envs.arrays import Floats, Picture
from pacebench.envs.base import BatchEnv
from pacebench.envs.checks import check_context
from pacebench.envs.errors import SetupError
from pacebench.envs.streams import stream


class ContextualEnv(gymnasium.Env[Floats, Floats]):
    """One copy of a contextual environment behind Gymnasium's interface.

    `reset(seed=…, options={"context": c})` starts an episode with context c. `seed` may be an
    integer, as everywhere in Gymnasium, or a `numpy.random.SeedSequence`: reset with the sequence
    that copy i of a batch was given, this environment repeats copy i bit for bit. Without a context
    one is drawn from the setup's target distribution, with the environment's own generator.

    `info` of `reset` holds `context` (as asked for) and `clipped_context` (as the physics uses it);
    `info` of `step` holds these, `elapsed`, and `success`, which means something once an episode
    has ended.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, batch: BatchEnv) -> None:
        """Wraps a batch of one; `envs.make` and `gymnasium.make` call this."""
        if batch.num_envs != 1:
            raise SetupError(f"a single environment needs a batch of one, got {batch.num_envs}.")
        self.batch = batch
        self.setup = batch.setup
        self.render_mode = batch.render_mode
        self.observation_space = cast("spaces.Space[Floats]", batch.observation_space)
        self.action_space = cast("spaces.Space[Floats]", batch.action_space)
        self.metadata = {**type(self).metadata, "render_fps": batch.render_fps}

    @property
    def context(self) -> Floats:
        """The raw context (d,) of the current episode."""
        return np.array(self.batch.context[0])

    def reset(
        self, *, seed: int | SeedSequence | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Starts an episode; see the class for `seed` and `options`."""
        if isinstance(seed, SeedSequence):
            super().reset(seed=None)
            self.np_random = stream(seed)
        else:
            super().reset(seed=seed)
        rng = self.np_random
        self.batch.set_stream(0, rng)
        unknown = set(options or {}) - {"context"}
        if unknown:
            raise SetupError(f"unknown reset option {sorted(unknown)[0]!r}; known: 'context'.")
        context = (options or {}).get("context")
        if context is None:
            context = self.setup.sample("target", 1, rng)[0]
        obs = self.batch.reset(check_context(context, self.setup)[None])
        return obs[0], {
            "context": self.batch.context[0].copy(),
            "clipped_context": self.batch.clipped_context[0].copy(),
        }

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Steps once; the episode must be reset after it has ended."""
        obs, reward, terminated, truncated, info = self.batch.step(np.asarray(action)[None])
        return (
            obs[0],
            float(reward[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {
                "context": info["context"][0].copy(),
                "clipped_context": info["clipped_context"][0].copy(),
                "elapsed": int(info["elapsed"][0]),
                "success": bool(info["success"][0]),
            },
        )

    def render(self) -> Picture | None:
        """Returns the current picture (height, width, 3), or None without a render mode."""
        return None if self.render_mode is None else self.batch.render(0)

    def close(self) -> None:
        """Releases what the physics or the renderer holds."""
        self.batch.close()
