"""The batched environment: what all contextual environments share around their physics."""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from pacebench.envs.arrays import Actions, Bools, Floats, Indices, Picture
from pacebench.envs.checks import check_actions, check_contexts, check_indices, listed
from pacebench.envs.errors import PhysicsStateError, SetupError
from pacebench.envs.setup import Setup
from pacebench.envs.streams import Seed, spawn_streams

ContextSource = Callable[[Indices], ArrayLike]
StepResult = tuple[Floats, Floats, Bools, Bools, dict[str, Any]]


class BatchEnv(ABC):
    """N independent copies of one contextual environment, stepped in one call.

    A subclass brings the physics: it declares the class attributes below and implements
    `_reset_copies` and `_step_copies`, which write into the buffers that this class owns:

    - `_physics_obs` (N, k): the observation without the context; a view into `_obs`;
    - `_reward` (N,), `_terminated` (N,), `_success` (N,);
    - `_cut` (N,), where the physics truncate an episode before the horizon.

    Everything else is done here: validation, context clipping, the visible context, episode
    lengths, truncation at the horizon, same-step auto-reset and one random stream per copy
    (`_rngs[i]`). What copy i does depends on its stream, contexts and actions alone.

    Attributes:
        physics_space: Observation space of one copy without the context.
        action_box: Action space of one copy: a box, to which actions are clipped, or discrete.
        baseline_policy: The policy whose score is normalised to 0, `random` or `hold`.
        render_fps: Steps per second of simulated time, for animations.
        strobe: Whether a still should show the episode as a multiple exposure on a dark ground,
            rather than by its last picture.
    """

    physics_space: spaces.Box
    action_box: spaces.Box | spaces.Discrete
    baseline_policy: ClassVar[str] = "random"
    render_fps: int = 10
    strobe: ClassVar[bool] = False

    def __init__(
        self,
        setup: Setup,
        num_envs: int,
        seed: Seed | Sequence[Seed],
        contexts: ContextSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Prepares the buffers; the copies must be reset before the first step.

        Args:
            setup: The task.
            num_envs: Number of copies N.
            seed: See `envs.make_batch`.
            contexts: See `envs.make_batch`.
            render_mode: None or `rgb_array`; an environment may keep what drawing needs only then.
        """
        if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise SetupError(f"num_envs must be a positive integer, got {num_envs!r}.")
        if render_mode not in (None, "rgb_array"):
            raise SetupError(f"render_mode must be None or 'rgb_array', got {render_mode!r}.")
        self.setup = setup
        self.num_envs = n = int(num_envs)
        self.render_mode = render_mode
        # Each batch has its own: a space holds the generator that its `sample` draws from.
        self.action_space: Any = copy.deepcopy(self.action_box)
        self.observation_space = _observation_space(self.physics_space, setup)
        self._source = contexts
        self._rngs: list[Generator] = spawn_streams(seed, n)

        self._lower, self._upper = np.array(setup.lower), np.array(setup.upper)
        self._obs: Floats = np.zeros((n, *self.observation_space.shape))
        self._physics_obs: Floats = self._obs[:, : self.physics_space.shape[0]]
        self._reward: Floats = np.zeros(n)
        self._terminated: Bools = np.zeros(n, dtype=np.bool_)
        self._cut: Bools = np.zeros(n, dtype=np.bool_)
        self._success: Bools = np.zeros(n, dtype=np.bool_)
        self._elapsed: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        # Copies that must be reset before the next step.
        self._waiting: Bools = np.ones(n, dtype=np.bool_)
        self._dismissed: Bools = np.zeros(n, dtype=np.bool_)
        self._all: Indices = np.arange(n)
        self._context: Floats = _frozen(np.zeros((n, setup.dim)))
        self._clipped: Floats = _frozen(np.zeros((n, setup.dim)))

    @property
    def context(self) -> Floats:
        """The raw contexts (N, d) of the current episodes, read-only."""
        return self._context

    @property
    def clipped_context(self) -> Floats:
        """The contexts (N, d) that the physics uses, read-only."""
        return self._clipped

    @property
    def elapsed(self) -> NDArray[np.int64]:
        """Steps taken in each copy's current episode."""
        return self._elapsed.copy()

    def reset(self, contexts: ArrayLike | None = None, indices: ArrayLike | None = None) -> Floats:
        """Starts new episodes.

        Args:
            contexts: One context per copy to reset, (n, d); may be left out if the batch has a
                context source, which is then asked.
            indices: Which copies, in any order without repetition; all of them if left out.

        Returns:
            The first observations (n, obs_dim) of the copies that were reset, in the order asked.
        """
        chosen = self._all if indices is None else check_indices(indices, self.num_envs)
        if contexts is not None:
            self._begin(chosen, check_contexts(contexts, len(chosen), self.setup))
        else:
            order = np.argsort(chosen)
            drawn = np.empty((len(chosen), self.setup.dim))
            drawn[order] = self._ask_source(chosen[order])
            self._begin(chosen, drawn)
        return self._obs[chosen]

    def step(self, actions: ArrayLike) -> StepResult:
        """Steps every copy once.

        Returns:
            Observations (N, obs_dim), rewards (N,), terminated (N,), truncated (N,) and a dict of
            arrays: `final_obs` (the observation before any reset), `success` (meaningful where an
            episode ended), `context` and `clipped_context` of the episode just stepped, `elapsed`
            (its steps so far). An episode that terminates on its last possible step is terminated,
            not truncated.
        """
        if self._waiting.any():
            raise SetupError(
                f"copies {listed(np.flatnonzero(self._waiting))} must be reset before the next "
                "step; reset them, or give make_batch a context source that restarts finished "
                "copies by itself."
            )
        self._step_copies(check_actions(actions, self.num_envs, self.action_space))
        self._elapsed += 1
        terminated = self._terminated.copy()
        done = (self._elapsed >= self.setup.horizon) | self._cut
        truncated = done & ~terminated
        done |= terminated
        info: dict[str, Any] = {
            "final_obs": self._obs.copy(),
            "success": self._success.copy(),
            "context": self._context,
            "clipped_context": self._clipped,
            "elapsed": self._elapsed.copy(),
        }
        if done.any():
            finished = np.flatnonzero(done & ~self._dismissed)
            if self._source is None:
                self._waiting[finished] = True
            else:
                self._begin(finished, self._ask_source(finished))
        return self._obs.copy(), self._reward.copy(), terminated, truncated, info

    def _ask_source(self, indices: Indices) -> Floats:
        """Returns the context source's next contexts of these copies, given in ascending order."""
        if self._source is None:
            raise SetupError(
                "reset needs contexts, shape (copies, dimensions), or a batch made with a "
                "context source."
            )
        return check_contexts(self._source(indices), len(indices), self.setup)

    def _begin(self, indices: Indices, contexts: Floats) -> None:
        # Replaced rather than overwritten: `info` of earlier steps refers to the old arrays.
        raw, clipped = self._context.copy(), self._clipped.copy()
        raw[indices] = contexts
        used = np.minimum(np.maximum(contexts, self._lower), self._upper)
        clipped[indices] = used
        self._context, self._clipped = _frozen(raw), _frozen(clipped)
        self._elapsed[indices] = 0
        self._waiting[indices] = self._dismissed[indices] = False
        if self.setup.visible:
            # Scaled from its bounds to [−1, 1].
            scaled = 2.0 * (used - self._lower) / (self._upper - self._lower) - 1.0
            self._obs[indices, self._physics_obs.shape[1] :] = scaled
        self._reset_copies(indices, used)

    def render(self, index: int = 0) -> Picture:
        """Returns a picture (height, width, 3) of one copy; needs `render_mode="rgb_array"`."""
        if self.render_mode != "rgb_array":
            raise SetupError(
                f"{self.setup.name!r} was made without a render mode; make it with "
                "render_mode='rgb_array'."
            )
        return self._render_copy(index)

    @classmethod
    def has_reference(cls) -> bool:
        """Whether there is a scripted controller."""
        return cls._reference_actions is not BatchEnv._reference_actions

    @property
    def policies(self) -> tuple[str, ...]:
        """The scripted policies that `actions` knows."""
        hold = ("hold",) if isinstance(self.action_space, spaces.Box) else ()
        return ("random", *hold, *(("reference",) if self.has_reference() else ()))

    def actions(self, policy: str, rng: Generator | None = None) -> Actions:
        """Returns the actions of a scripted policy in the current states.

        They are of shape (N, act_dim), or integers (N,) where the action space is discrete.

        Args:
            policy: `random` (uniform over the action space, needs `rng`), `hold` (the zero action
                of a box) or `reference` (a scripted controller that may use the context and the
                full state; it shows what the task allows, not what a learner could observe).
            rng: Generator for the random policy.
        """
        if policy not in self.policies:
            raise SetupError(
                f"no policy is called {policy!r}; {self.setup.name!r} has: "
                f"{', '.join(self.policies)}."
            )
        if policy == "reference":
            return self._reference_actions()
        space = self.action_space
        if policy == "random" and rng is None:
            raise SetupError("the random policy needs a generator: pass rng.")
        if isinstance(space, spaces.Discrete):
            assert rng is not None
            return rng.integers(int(space.n), size=self.num_envs)
        if policy == "hold":
            return np.zeros((self.num_envs, *space.shape))
        assert rng is not None
        return rng.uniform(space.low, space.high, (self.num_envs, *space.shape))

    def set_stream(self, index: int, rng: Generator) -> None:
        """Lets copy `index` draw from `rng` from its next reset on."""
        self._rngs[index] = rng

    def dismiss(self, indices: Indices) -> bool:
        """Says that these copies' episodes are over and that no other follows.

        Stepping them would be in vain, so they may leave the batch, now or together with later
        ones.

        Returns:
            Whether all dismissed copies have left. The others are then numbered anew, in their
            order. Until then what dismissed copies return means nothing.
        """
        self._dismissed[indices] = True
        self._waiting[indices] = False
        kept = np.flatnonzero(~self._dismissed)
        # Moving the others costs as much as some steps of those that leave.
        if not 0 < len(kept) <= 0.75 * self.num_envs or not self._keep_copies(kept):
            return False
        self.num_envs = len(kept)
        self._rngs = [self._rngs[i] for i in kept]
        for name in ("_obs", "_reward", "_terminated", "_cut", "_success", "_elapsed", "_waiting"):
            setattr(self, name, getattr(self, name)[kept])
        self._physics_obs = self._obs[:, : self.physics_space.shape[0]]
        self._dismissed, self._all = self._dismissed[kept], np.arange(len(kept))
        self._context, self._clipped = _frozen(self._context[kept]), _frozen(self._clipped[kept])
        return True

    def _keep_copies(self, indices: Indices) -> bool:
        """Lets all other copies leave the physics, if they can; the buffers above follow."""
        return False

    def close(self) -> None:  # noqa: B027 - most physics have nothing to release
        """Releases what the physics or the renderer holds; nothing by default."""

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the future depends on, as plain values and arrays.

        Raises:
            SetupError: The physics engine cannot save its state.
        """
        streams = [rng.bit_generator.state for rng in self._rngs]
        return {"streams": streams, **self._state_without_streams()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `get_state` returned, into a batch of the same setup and size."""
        obs = np.asarray(state["obs"], dtype=np.float64)
        if obs.shape != self._obs.shape:
            raise SetupError(
                f"the saved state is of shape {obs.shape}, this batch of {self._obs.shape}; "
                "restore it into a batch of the same setup and size."
            )
        for rng, saved in zip(self._rngs, state["streams"], strict=True):
            rng.bit_generator.state = saved
        self._restore(state)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles as a fresh batch in the same state: views into buffers stay views.

        Where the physics cannot save their state, the copies must be reset, as in Gymnasium; their
        streams go on from where they are in any case.
        """
        state: dict[str, Any] = {"rngs": self._rngs}
        # A generator that someone else holds, too, stays shared in the copy: it is the same object.
        with contextlib.suppress(PhysicsStateError):
            state |= self._state_without_streams()
        args = (self.setup, self.num_envs, [0] * self.num_envs, self._source, self.render_mode)
        return type(self), args, state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._rngs = list(state["rngs"])
        if "physics" in state:
            self._restore(state)

    def _state_without_streams(self) -> dict[str, Any]:
        return {
            "physics": self._physics_state(),
            "obs": self._obs.copy(),
            "elapsed": self._elapsed.copy(),
            "waiting": self._waiting.copy(),
            "context": self._context.copy(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._obs[:] = np.asarray(state["obs"], dtype=np.float64)
        self._elapsed[:] = np.asarray(state["elapsed"])
        self._waiting[:] = np.asarray(state["waiting"])
        self._context = _frozen(np.array(state["context"], dtype=np.float64))
        self._clipped = _frozen(np.clip(self._context, self._lower, self._upper))
        self._load_physics_state(state["physics"])

    @abstractmethod
    def _reset_copies(self, indices: Indices, contexts: Floats) -> None:
        """Starts episodes: `indices` ascending or as asked, `contexts` (n, d) already clipped.

        Must write `_physics_obs[indices]` and draw from `_rngs[i]` only.
        """

    @abstractmethod
    def _step_copies(self, actions: Any) -> None:
        """Steps all copies with checked `actions` and fills the buffers.

        They are of shape (N, act_dim) and clipped, or integers (N,) of a discrete space.
        """

    def _reference_actions(self) -> Actions:
        """Returns the scripted controller's actions; optional."""
        raise NotImplementedError

    def _render_copy(self, index: int) -> Picture:
        raise SetupError(f"{self.setup.environment!r} cannot be rendered.")

    def _physics_state(self) -> dict[str, Any]:
        raise PhysicsStateError(
            f"the physics of {self.setup.environment!r} cannot save their state."
        )

    def _load_physics_state(self, state: Mapping[str, Any]) -> None:
        raise PhysicsStateError(
            f"the physics of {self.setup.environment!r} cannot restore a state."
        )


def _observation_space(physics: spaces.Box, setup: Setup) -> spaces.Box:
    """Returns the observation space of one copy: that of the physics, then a visible context."""
    extra = np.ones(setup.dim if setup.visible else 0)
    low = np.concatenate([physics.low, -extra]).astype(np.float64)
    high = np.concatenate([physics.high, extra]).astype(np.float64)
    return spaces.Box(low, high, dtype=np.float64)


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
