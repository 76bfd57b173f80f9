"""N instances of somebody else's `gymnasium.Env`, each with the context of its own episode."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from pacebench.envs.arrays import Bools, Floats, Picture
from pacebench.envs.errors import SetupError
from pacebench.envs.importing import import_object
from pacebench.envs.setup import Setup
from pacebench.registry import nearest

PREFIX = "gymnasium:"
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*|\[-?\d+(, *-?\d+)*\])*")


class CopySteps(NamedTuple):
    """What one step of the copies came to; rows of copies that were dismissed are as before."""

    obs: Floats
    reward: Floats
    terminated: Bools
    truncated: Bools
    success: Bools

    @classmethod
    def empty(cls, count: int, space: spaces.Box) -> CopySteps:
        """Returns arrays for so many copies."""
        flags = (np.zeros(count, dtype=np.bool_) for _ in range(3))
        return cls(np.zeros((count, *space.shape)), np.zeros(count), *flags)


def gymnasium_spec(setup: Setup) -> Any:
    """Returns Gymnasium's registration of a setup's environment, None if it is a class or factory.

    Raises:
        SetupError: Nothing is registered under that id.
    """
    if not setup.environment.startswith(PREFIX):
        return None
    try:
        return gymnasium.spec(setup.environment.removeprefix(PREFIX))
    except (gymnasium.error.Error, ImportError) as error:
        raise SetupError(f"setup {setup.name!r}: {str(error).rstrip('.')}.") from None


class EnvCopies:
    """The instances, stepped one after the other.

    They are made without Gymnasium's checks and time limit, which the batch around them has.

    Attributes:
        physics_space: The flattened observation space.
        action_box: The flattened action space, or the choices of a discrete one.
        fps: Pictures per second of simulated time.
    """

    def __init__(self, setup: Setup, count: int, render_mode: str | None) -> None:
        assert setup.gymnasium is not None
        self._setup, self._adapter, self._render_mode = setup, setup.gymnasium, render_mode
        self._spec = copy.deepcopy(gymnasium_spec(setup))
        if self._spec is not None:
            self._spec.order_enforce = False
        self._paths = [_steps_of(path, setup) for path in self._adapter.paths]
        middle = [0.5 * (a + b) for a, b in zip(setup.lower, setup.upper, strict=True)]
        built = self._by_name(middle) if self._adapter.apply == "constructor" else {}
        self._envs: list[Any] = [self._make(built) for _ in range(count)]
        first = self._envs[0]
        self._space: spaces.Space[Any] = first.observation_space
        self.physics_space = _flat_space(self._space, setup)
        # The rows of a flat box need no call to flatten them.
        self._flat = isinstance(self._space, spaces.Box) and len(self._space.shape) == 1
        self.action_box, self._to_env = _action_space(first.action_space, setup)
        self.fps = int(first.metadata.get("render_fps") or 30)
        if self._adapter.apply == "attributes":
            self._check_owners()
        self._apply: Callable[[Any, Mapping[str, float]], None] | None = None
        if ":" in self._adapter.apply:
            self._apply = import_object(self._adapter.apply, f"the function of {setup.name!r}")
        success: tuple[str, Any] = self._adapter.success or ("never", None)
        self._success_kind, self._success_value = success
        if self._success_kind == "function":
            what = f"the success function of {setup.name!r},"
            self._success_value = import_object(self._success_value, what)
        self._steps = [env.step for env in self._envs]
        self._watched: list[int] = list(range(count))
        self._return, self._elapsed = np.zeros(count), np.zeros(count, dtype=np.int64)
        self._last = CopySteps.empty(count, self.physics_space)

    def write_into(self, buffers: CopySteps) -> None:
        """Lets steps fill these arrays from now on."""
        self._last = buffers

    def _make(self, keywords: Mapping[str, Any]) -> Any:
        given = {**dict(self._adapter.keywords), **keywords}
        if self._render_mode is not None:
            given["render_mode"] = self._render_mode
        try:
            if self._spec is not None:
                made = gymnasium.make(
                    self._spec, max_episode_steps=-1, disable_env_checker=True, **given
                )
            else:
                made = import_object(self._setup.environment, "the environment")(**given)
        except (gymnasium.error.Error, TypeError, ImportError) as error:
            raise self._wrong(f"cannot be made: {error}") from error
        if not isinstance(made, gymnasium.Env):
            raise self._wrong(f"is no gymnasium.Env but {type(made).__name__}")
        return made

    def _wrong(self, what: str) -> SetupError:
        return SetupError(
            f"setup {self._setup.name!r}: {self._setup.environment} {what.rstrip('.')}."
        )

    def _check_owners(self) -> None:
        """Refuses attributes that do not exist, and those that copies would share."""
        for dimension, steps in enumerate(self._paths):
            owners = [self._owner(env, steps) for env in self._envs]
            for owner in owners:
                self._value(owner, steps[-1])
            shared = len({id(owner) for owner in owners}) < len(owners)
            if shared or isinstance(owners[0], ModuleType | type):
                raise self._wrong(
                    f"shares {self._adapter.paths[dimension]!r} between its instances, so a "
                    "context would leak from one to the others; set it by a function or the "
                    "constructor"
                )

    def _owner(self, env: Any, steps: list[str | tuple[int, ...]]) -> Any:
        owner = env.unwrapped
        for step in steps[:-1]:
            owner = self._value(owner, step)
        return owner

    def _value(self, owner: Any, step: str | tuple[int, ...]) -> Any:
        try:
            return getattr(owner, step) if isinstance(step, str) else owner[step]
        except AttributeError:
            numbers = (int, float, np.ndarray, np.number)
            public = [
                name
                for name in dir(owner)
                if not name.startswith("_") and isinstance(getattr(owner, name, None), numbers)
            ]
            raise self._wrong(
                f"has no attribute {step!r} to set a context by; {nearest(step, public)}"
            ) from None
        except (IndexError, TypeError) as error:
            raise self._wrong(f"cannot be indexed with {step}: {error}") from None

    def _by_name(self, context: list[float]) -> dict[str, float]:
        return dict(zip(self._adapter.paths, context, strict=True))

    def reset(self, indices: list[int], contexts: list[list[float]], seeds: list[int]) -> None:
        """Starts episodes."""
        rows = [
            self._reset_one(i, context, seed)
            for i, context, seed in zip(indices, contexts, seeds, strict=True)
        ]
        self._last.obs[indices] = rows
        self._return[indices], self._elapsed[indices] = 0.0, 0
        if len(self._watched) < len(self._envs):
            self._watched = sorted({*self._watched, *indices})

    def _reset_one(self, i: int, context: list[float], seed: int) -> Any:
        how, options = self._adapter.apply, None
        env = self._envs[i]
        if how == "constructor":
            env.close()
            env = self._envs[i] = self._make(self._by_name(context))
            self._steps[i] = env.step
            if env.observation_space != self._space:
                raise self._wrong("has another observation space under another context")
        elif how == "options":
            options = self._by_name(context)
        elif self._apply is not None:
            self._apply(env.unwrapped, dict(zip(self._setup.context_names, context, strict=True)))
        else:
            for steps, value in zip(self._paths, context, strict=True):
                owner, last = self._owner(env, steps), steps[-1]
                if isinstance(last, str):
                    setattr(owner, last, value)
                else:
                    owner[last] = value
        obs, _ = env.reset(seed=seed, options=options)
        if how == "attributes":
            self._check_kept(env, context)
        return obs if self._flat else spaces.flatten(self._space, obs)

    def _check_kept(self, env: Any, context: list[float]) -> None:
        for path, steps, value in zip(self._adapter.paths, self._paths, context, strict=True):
            kept = self._value(self._owner(env, steps), steps[-1])
            # Some keep single precision.
            if not math.isclose(float(kept), value, rel_tol=1e-6, abs_tol=1e-12):
                raise self._wrong(
                    f"changes {path!r} from {value:g} back to {float(kept):g} when it is reset; "
                    "set it by the constructor or a function"
                )

    def step(self, actions: Any) -> None:
        """Steps the copies that were not dismissed."""
        last, rows, chosen = self._last, self._watched, self._to_env(actions)
        if len(rows) == len(self._envs):
            stepped = [step(action) for step, action in zip(self._steps, chosen, strict=True)]
            at: Any = slice(None)
        else:
            stepped = [self._steps[i](chosen[i]) for i in rows]
            at = rows
        if not stepped:
            return
        obs, reward, terminated, truncated, infos = zip(*stepped, strict=True)
        if not self._flat:
            obs = tuple(spaces.flatten(self._space, one) for one in obs)
        last.obs[at] = obs
        last.reward[at] = reward
        last.terminated[at] = terminated
        last.truncated[at] = truncated
        if self._success_kind == "info":
            last.success[at] = [bool(info.get(self._success_value, False)) for info in infos]
        elif self._success_kind == "return":
            self._return[at] += last.reward[at]
            np.greater_equal(self._return, self._success_value, out=last.success)
        elif self._success_kind == "function":
            self._elapsed[at] += 1
            ended = last.terminated | last.truncated | (self._elapsed >= self._setup.horizon)
            last.success[:] = False
            for i in np.flatnonzero(ended).tolist():
                info = infos[rows.index(i)] if i in rows else {}
                last.success[i] = bool(self._success_value(self._envs[i].unwrapped, info))

    def dismiss(self, indices: list[int]) -> None:
        """Steps these copies no more until they are reset."""
        self._watched = [i for i in self._watched if i not in set(indices)]
        for flags in self._last[2:]:
            flags[indices] = False

    def render(self, index: int) -> Picture:
        """Returns a picture of one copy."""
        return np.asarray(self._envs[index].render(), dtype=np.uint8)

    def close(self) -> None:
        """Closes the instances."""
        for env in self._envs:
            env.close()


def _steps_of(path: str, setup: Setup) -> list[str | tuple[int, ...]]:
    """Returns `model.body_mass[1]` as [`model`, `body_mass`, (1,)]; other paths as they are."""
    assert setup.gymnasium is not None
    if setup.gymnasium.apply != "attributes":
        return [path]
    if not _PATH.fullmatch(path):
        raise SetupError(
            f"setup {setup.name!r}: {path!r} is no attribute; write it as in g, or "
            "model.body_mass[1]."
        )
    found = re.findall(r"([^\W\d]\w*)|\[([^\]]*)\]", path)
    return [name or tuple(int(n) for n in index.split(",")) for name, index in found]


def _flat_space(space: spaces.Space[Any], setup: Setup) -> spaces.Box:
    flat: spaces.Space[Any]
    try:
        flat = spaces.flatten_space(space)
    except NotImplementedError:
        flat = space
    if not isinstance(flat, spaces.Box):
        raise SetupError(
            f"setup {setup.name!r}: observations of {space} cannot be flattened into numbers."
        )
    return spaces.Box(flat.low.astype(np.float64), flat.high.astype(np.float64), dtype=np.float64)


def _action_space(
    space: spaces.Space[Any], setup: Setup
) -> tuple[spaces.Box | spaces.Discrete, Callable[[Any], Any]]:
    """Returns the action space of a batch, and what turns its actions into those of the copies."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return spaces.Discrete(int(space.n)), lambda actions: (actions + start).tolist()
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    if not isinstance(space, spaces.Box) or not bounded:
        raise SetupError(
            f"setup {setup.name!r}: actions of {space} are neither discrete nor of a bounded box; "
            "wrap the environment so that they are."
        )
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    shape, dtype = (-1, *space.shape), space.dtype
    box = spaces.Box(low, high, dtype=np.float64)
    return box, lambda actions: actions.astype(dtype).reshape(shape)
