"""What `envs.from_gymnasium` adds to an environment: its batches beside loops over the same one.

Each pair of programs does the same work: the same steps of the same copies with the same contexts,
actions and episode lengths. They run in turns, in one process, timed in processor time. The bare
loop calls the instances without any wrapper, counts steps for the horizon, resets with a seed, and
puts what steps return into arrays, as whoever trains on it must; beside it stand the same loop that
throws everything away, and one that calls what `gymnasium.make` returns. Printed is the median (and
range) of the ratios of neighbouring runs; the batch may take 15 % longer than the bare loop.

    python -m benchmarks.adapter
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.table import MISSED, row
from docs.examples import cartpole, hopper, pendulum
from pacebench import envs

Program = Callable[[Any], None]
# A batch of seeds trains in about this many; the share of what a batch adds falls with it.
COPIES = 128
ROUNDS = 15
SECONDS_PER_RUN = 0.3
LIMIT = 1.15
SETUPS = {spec.name: spec for spec in (pendulum.SETUP, cartpole.SETUP, hopper.SETUP)}


def adapted(setup: envs.Setup, contexts: np.ndarray) -> Program:
    """The batch that training uses."""
    batch = envs.make_batch(setup, len(contexts), 0, lambda i: contexts[i])
    batch.reset()

    def run(actions: Any) -> None:
        for step in actions:
            batch.step(step)

    return run


def loop(setup: envs.Setup, contexts: np.ndarray, *, wrapped: bool, keep: bool) -> Program:
    """A loop over the instances that `gymnasium.make` returns, or over the bare ones in them."""
    made = [gymnasium.make(setup.environment.removeprefix("gymnasium:")) for _ in contexts]
    copies: list[Any] = made if wrapped else [env.unwrapped for env in made]
    # A batch of one sets the context: how it does so is not what is measured.
    applied = [_apply(setup, env.unwrapped, c) for env, c in zip(made, contexts, strict=True)]
    rng = np.random.default_rng(0)
    for env in copies:
        env.reset(seed=int(rng.integers(2**31 - 1)))
    elapsed = [0] * len(copies)
    dtype = made[0].action_space.dtype
    n = len(copies)
    obs, reward = np.zeros((n, *made[0].observation_space.shape)), np.zeros(n)  # type: ignore[misc]
    ended, cut = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)

    def run(actions: Any) -> None:
        for step in actions:
            given = step.tolist() if step.ndim == 1 else step.astype(dtype)
            for i, env in enumerate(copies):
                one, gained, terminated, truncated, _ = env.step(given[i])
                if keep:
                    obs[i], reward[i], ended[i], cut[i] = one, gained, terminated, truncated
                elapsed[i] += 1
                if terminated or truncated or elapsed[i] >= setup.horizon:
                    applied[i]()
                    env.reset(seed=int(rng.integers(2**31 - 1)))
                    elapsed[i] = 0

    return run


def _apply(setup: envs.Setup, env: Any, context: np.ndarray) -> Callable[[], None]:
    if setup is pendulum.SETUP:

        def apply() -> None:
            env.g, env.m, env.l = context

    elif setup is cartpole.SETUP:

        def apply() -> None:
            cartpole.set_pole(env, dict(zip(setup.context_names, context.tolist(), strict=True)))

    else:

        def apply() -> None:
            env.model.body_mass[1], env.model.geom_friction[4, 0] = context

    apply()
    return apply


def seconds(program: Program, actions: Any) -> float:
    """Returns the processor time of the steps, without the set-up."""
    gc.collect()
    start = time.process_time()
    program(actions)
    return time.process_time() - start


def compare(setup: envs.Setup, label: str, *, wrapped: bool = False, keep: bool = True) -> bool:
    """Times the batch and a loop in turns; returns whether the batch is fast enough."""
    rng = np.random.default_rng(0)
    contexts = setup.sample("target", COPIES, rng).clip(setup.lower, setup.upper)
    batch = envs.make_batch(setup, COPIES, 0)
    actions = [batch.actions("random", rng) for _ in range(50)]
    batch.close()
    programs = [adapted(setup, contexts), loop(setup, contexts, wrapped=wrapped, keep=keep)]
    taken = max(seconds(program, actions) for program in programs)
    actions = actions * max(1, round(SECONDS_PER_RUN / taken))
    ratios = []
    for turn in range(ROUNDS):
        # Who comes first changes, so that a drift of the machine favours neither.
        order = programs if turn % 2 == 0 else programs[::-1]
        times = {id(program): seconds(program, actions) for program in order}
        ratios.append(times[id(programs[0])] / times[id(programs[1])])
    per_step = taken / 50 / COPIES * 1e6
    ratio = float(np.median(ratios))
    sides = f"{per_step:.1f} µs a step; {min(ratios):.2f} to {max(ratios):.2f}"
    most = LIMIT if label == "bare loop" else None
    return row(f"{setup.name}, {COPIES} copies: batch / {label}", sides, ratio, most=most)


def main() -> None:
    """Prints the ratios; fails where the batch takes more than the limit."""
    met = True
    for setup in SETUPS.values():
        compare(setup, "gymnasium.make loop", wrapped=True)
        compare(setup, "loop that keeps nothing", keep=False)
        met &= compare(setup, "bare loop")
    sys.exit(0 if met else MISSED)


if __name__ == "__main__":
    main()
