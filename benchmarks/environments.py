"""How fast the batched environments are, beside plain loops over single ones, on one core.

Each pair of programs does the same work: the same steps of the same copies with the same random
streams, actions and contexts, hence the same episodes and resets. Both run in turns, in one
process, and are timed in processor time, which other programs on the machine disturb least.
Printed are steps per second, and the median of the ratios of neighbouring runs.

    python benchmarks/environments.py
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable

import mujoco
import numpy as np
from gymnasium.envs.box2d.lunar_lander import LunarLander

from benchmarks.table import MISSED, row
from pacebench import envs
from pacebench.envs.ball_catching.model import FREE_JOINTS, SUBSTEPS, load_model

Program = Callable[[np.ndarray], None]
Preparation = Callable[[str, np.ndarray], Program]

ROUNDS = 11
STEPS = 250
SECONDS_PER_RUN = 0.25
SIZES = (1, 8, 32, 160, 640)


def seeds(copies: int) -> list[np.random.SeedSequence]:
    """Returns the streams that `make_batch` gives to its copies."""
    return np.random.SeedSequence(0).spawn(copies)


def batched(name: str, contexts: np.ndarray) -> Program:
    """One call per step for all copies."""
    batch = envs.make_batch(name, len(contexts), 0, lambda i: contexts[i])
    batch.reset()

    def run(actions: np.ndarray) -> None:
        for step in actions:
            batch.step(step)

    return run


def singles(name: str, contexts: np.ndarray) -> Program:
    """A loop over `gymnasium.Env`s."""
    copies = [envs.make(name) for _ in contexts]
    for env, context, seed in zip(copies, contexts, seeds(len(copies)), strict=True):
        env.reset(seed=seed, options={"context": context})

    def run(actions: np.ndarray) -> None:
        for step in actions:
            for i, env in enumerate(copies):
                _, _, terminated, truncated, _ = env.step(step[i])
                if terminated or truncated:
                    env.reset(options={"context": contexts[i]})

    return run


def plain_point_mass(_: str, contexts: np.ndarray) -> Program:
    """The physics in Python floats, no checks and no observations: the fastest plain loop."""
    rngs = [np.random.default_rng(seed) for seed in seeds(len(contexts))]
    noise = [rng.standard_normal((100, 20)).tolist() for rng in rngs]
    states = [(0.0, 0.0, 3.0, 0.0)] * len(rngs)
    ages = [0] * len(rngs)
    gates = contexts.tolist()

    def run(actions: np.ndarray) -> None:
        for step in actions.tolist():
            for i, force in enumerate(step):
                states[i], crashed = plain_step(states[i], force, noise[i][ages[i]], gates[i])
                ages[i] += 1
                if crashed or ages[i] == 100:
                    states[i], ages[i] = (0.0, 0.0, 3.0, 0.0), 0
                    noise[i] = rngs[i].standard_normal((100, 20)).tolist()

    return run


def plain_step(
    state: tuple[float, ...], force: list[float], noise: list[float], context: list[float]
) -> tuple[tuple[float, ...], bool]:
    """One step of one mass; returns its state and whether it crashed."""
    x, vx, y, vy = state
    fx, fy = force
    gate, width, friction = context
    for k in range(10):
        ax = 1.5 * fx - friction * vx + 0.05 * noise[2 * k]
        ay = 1.5 * fy - friction * vy + 0.05 * noise[2 * k + 1]
        nx = min(max(x + 0.01 * vx, -4.0), 4.0)
        ny = min(max(y + 0.01 * vy, -4.0), 4.0)
        if (y > 0.0 >= ny) or (y < 0.0 <= ny):
            hit = x + y / (y - ny) * (nx - x)
            if abs(hit - gate) > width / 2:
                return (hit, 0.0, 0.0, 0.0), True
        x, y, vx, vy = nx, ny, vx + 0.01 * ax, vy + 0.01 * ay
    math.exp(-0.6 * math.hypot(x, y + 3.0))
    return (x, vx, y, vy), False


def bare_box2d(_: str, contexts: np.ndarray) -> Program:
    """Gymnasium's landers called directly, with the context as constructor arguments."""
    landers = [
        LunarLander(
            continuous=True,
            enable_wind=True,
            gravity=gravity,
            wind_power=wind,
            turbulence_power=turbulence,
        )
        for gravity, wind, turbulence in contexts.tolist()
    ]
    for lander, seed in zip(landers, seeds(len(landers)), strict=True):
        lander.np_random = np.random.Generator(np.random.PCG64(seed))
        lander.reset()

    def run(actions: np.ndarray) -> None:
        for step in actions:
            for i, lander in enumerate(landers):
                _, _, terminated, _, _ = lander.step(step[i])
                if terminated:
                    lander.reset()

    return run


def bare_mujoco(_: str, contexts: np.ndarray) -> Program:
    """MuJoCo's steps alone: no throws, contacts, rewards, observations or ends of episodes."""
    model = load_model()
    copies = [mujoco.MjData(model) for _ in contexts]

    def run(actions: np.ndarray) -> None:
        for t, step in enumerate(actions):
            # The ball in flight and above the floor for as long as an episode lasts.
            if t % 60 == 0:
                for data in copies:
                    mujoco.mj_resetData(model, data)
                    data.qvel[-1] = 6.0
            for data, control in zip(copies, step, strict=True):
                data.ctrl[list(FREE_JOINTS)] = control
                mujoco.mj_step(model, data, SUBSTEPS)

    return run


COMPARISONS: tuple[tuple[str, int, str, Preparation, float | None], ...] = (
    ("point-mass-2", 160, "loop of single environments", singles, 20.0),
    ("point-mass-2", 160, "loop in plain Python floats", plain_point_mass, None),
    ("lunar-lander", 32, "bare Box2D loop", bare_box2d, 0.9),
    ("lunar-lander", 160, "bare Box2D loop", bare_box2d, 0.9),
    ("lunar-lander", 32, "loop of single environments", singles, None),
    ("ball-catching", 32, "loop of single environments", singles, 1.0),
    ("ball-catching", 32, "bare mj_step loop (physics only)", bare_mujoco, None),
)


def inputs(name: str, copies: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns clipped target contexts (copies, d) and random actions (steps, copies, act)."""
    setup, box = envs.setup(name), envs.environment(name).action_box
    rng = np.random.default_rng(0)
    contexts = rng.normal(setup.target_mean, np.sqrt(setup.target_variance), (copies, setup.dim))
    contexts = contexts.clip(setup.lower, setup.upper)
    return contexts, 0.3 * rng.uniform(box.low, box.high, (steps, copies, *box.shape))


def seconds(prepare: Preparation, name: str, copies: int, steps: int) -> float:
    """Returns the processor time of so many steps of all copies, without the set-up."""
    contexts, actions = inputs(name, copies, steps)
    run = prepare(name, contexts)
    # Landers are freed by the collector only; nobody shall pay for those of the run before.
    gc.collect()
    start = time.process_time()
    run(actions)
    return time.process_time() - start


def steps_for(program: Preparation, name: str, copies: int) -> int:
    """Returns how many steps take about `SECONDS_PER_RUN`, at least half an episode."""
    steps = 60
    while True:
        taken = seconds(program, name, copies, steps)
        if taken > 0.02:
            return max(60, int(steps * SECONDS_PER_RUN / taken))
        steps *= 4


def compare(name: str, copies: int, label: str, other: Preparation, wanted: float | None) -> bool:
    """Times a batch and its rival in turns and prints both; returns whether it is fast enough."""
    work = STEPS * copies
    ratios, fast, slow = [], [], []
    for turn in range(ROUNDS):
        # Who comes first changes, so that a drift of the machine favours neither.
        for program in (batched, other) if turn % 2 == 0 else (other, batched):
            times = fast if program is batched else slow
            times.append(seconds(program, name, copies, STEPS) / work)
        ratios.append(slow[-1] / fast[-1])
    sides = f"{1 / np.median(fast):,.0f} / {1 / np.median(slow):,.0f} steps/s"
    text = f"{name}, {copies} copies: batch / {label}"
    return row(text, sides, float(np.median(ratios)), least=wanted)


def growth(name: str) -> None:
    """Prints the batch's speed against its number of copies."""
    speeds = []
    for copies in SIZES:
        steps = max(steps_for(batched, name, copies), 60)
        taken = [seconds(batched, name, copies, steps) for _ in range(3)]
        speeds.append(steps * copies / np.median(taken))
    cells = "   ".join(f"N={n} {s:>9,.0f}" for n, s in zip(SIZES, speeds, strict=True))
    print(f"{name:14} {cells}   steps/s")


def main() -> None:
    """Prints the comparisons, with the ratio that is asked for, and the growth with N."""
    print(f"Random actions, target contexts, one core, median (range) of {ROUNDS} rounds\n")
    met = [compare(*comparison) for comparison in COMPARISONS]
    print("\nGrowth with the number of copies\n")
    for name in ("point-mass-2", "lunar-lander", "ball-catching"):
        growth(name)
    sys.exit(0 if all(met) else MISSED)


if __name__ == "__main__":
    main()
