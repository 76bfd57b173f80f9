"""MiniGrid's moving obstacles (pip install minigrid), by a factory that rounds the context.

The size of the room and the number of obstacles are keywords of the constructor, hence a new
instance per episode.
"""

from typing import Any

import gymnasium

from pacebench import envs


def room(size: float, obstacles: float, **keywords: Any) -> gymnasium.Env[Any, Any]:
    """Makes a room; the agent sees the 7 × 7 cells before it."""
    from minigrid.envs import DynamicObstaclesEnv
    from minigrid.wrappers import ImgObsWrapper

    made = DynamicObstaclesEnv(size=round(size), n_obstacles=round(obstacles), **keywords)
    return ImgObsWrapper(made)


SETUP = envs.from_gymnasium(
    room,
    name="obstacles",
    context={"size": (5.0, 12.0), "obstacles": (1.0, 8.0)},
    apply="constructor",
    initial={"mean": [5.0, 1.0], "variance": [0.25, 0.25]},
    target={"mean": [10.0, 6.0], "variance": [1.0, 1.0]},
    threshold=0.5,
    horizon=200,
    success={"return": 0.1},
    min_return=-1.0,
    max_return=1.0,
    reference_return=1.0,
)
