"""Lunar Lander: Gymnasium's own physics, with gravity, wind and turbulence as the context.

The context is set on each instance before its reset, which builds a new Box2D world from the
instance's attributes; nothing is ever set on Gymnasium's module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.box2d import lunar_lander

from pacebench.envs.arrays import Floats, Indices, Picture
from pacebench.envs.base import BatchEnv

# Observed x of the flags: the pad covers two of the ten pieces of terrain.
PAD_HALF_WIDTH = 0.2

_INF = np.inf
# Gymnasium's classes are only partly typed.
_heuristic: Any = lunar_lander.heuristic


class LunarLanderBatch(BatchEnv):
    """N landers with continuous engines and wind, stepped one after the other.

    Box2D has no batch interface; what can be saved is the Python around it, so the landers are
    called bare, without Gymnasium's wrappers. Their state cannot be saved, so a copied or pickled
    batch has to be reset.
    """

    # Gymnasium declares tighter bounds, which a spinning lander leaves.
    physics_space = spaces.Box(
        np.array([-_INF] * 6 + [0.0, 0.0]), np.array([_INF] * 6 + [1.0, 1.0]), dtype=np.float64
    )
    action_box = spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)
    render_fps = 50
    strobe = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `BatchEnv`."""
        super().__init__(*args, **kwargs)
        self._landers: list[Any] = [
            lunar_lander.LunarLander(self.render_mode, continuous=True, enable_wind=True)
            for _ in range(self.num_envs)
        ]
        self._steps = [lander.step for lander in self._landers]

    def _reset_copies(self, indices: Indices, contexts: Floats) -> None:
        for i, (gravity, wind, turbulence) in zip(indices, contexts.tolist(), strict=True):
            lander = self._landers[i]
            lander.gravity = gravity
            lander.wind_power = wind
            lander.turbulence_power = turbulence
            lander.np_random = self._rngs[i]
            self._physics_obs[i], _ = lander.reset()

    def _step_copies(self, actions: Floats) -> None:
        obs, reward, terminated = self._physics_obs, self._reward, self._terminated
        self._success[:] = False
        for i, (step, action, over) in enumerate(
            zip(self._steps, actions, self._dismissed.tolist(), strict=True)
        ):
            if over:
                continue
            obs[i], reward[i], ended, _, _ = step(action)
            terminated[i] = ended
            if ended:
                self._success[i] = self._landed(i)

    def _keep_copies(self, indices: Indices) -> bool:
        self._landers = [self._landers[i] for i in indices]
        self._steps = [lander.step for lander in self._landers]
        return True

    def _landed(self, index: int) -> bool:
        lander = self._landers[index]
        return bool(
            not lander.lander.awake
            and not lander.game_over
            and abs(self._physics_obs[index, 0]) <= PAD_HALF_WIDTH
            and all(map(_touches_ground, lander.legs))
        )

    def _reference_actions(self) -> Floats:
        """Gymnasium's heuristic controller, which looks at the observation only."""
        pairs = zip(self._landers, self._obs, strict=True)
        return np.array([_heuristic(lander, obs) for lander, obs in pairs])

    def _render_copy(self, index: int) -> Picture:
        return np.asarray(self._landers[index].render(), dtype=np.uint8)

    def close(self) -> None:
        """Closes the landers' windows."""
        for lander in self._landers:
            lander.close()


def _touches_ground(leg: Any) -> bool:
    # Box2D is asked, not Gymnasium's flag: that one is cleared as soon as a leg leaves one piece of
    # the terrain, even if it stands on the next; one landing in two would be missed.
    return any(edge.contact.touching for edge in leg.contacts)
