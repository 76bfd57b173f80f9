"""How fast the batched environments are, beside plain loops over single ones, on one core.

Every pair of programs does the same work: the same number of steps in the same number of copies
with the same actions, and every finished episode is reset with the next context. Both run in
turns, in one process, and are timed in processor time, which other programs on the machine disturb
least. Printed are steps per second, and the median of the ratios of neighbouring runs.

    python benchmarks/environments.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import mujoco
import numpy as np
from gymnasium.envs.box2d.lunar_lander import LunarLander

import envs
from envs.ball_catching.model import FREE_JOINTS, SUBSTEPS, load_model

ROUNDS = 7
SECONDS_PER_RUN = 0.25
SIZES = (1, 8, 32, 160, 640)


def batched(name: str, contexts: np.ndarray, actions: np.ndarray) -> None:
    """One call per step for all copies."""
    batch = envs.make_batch(name, actions.shape[1], 0, lambda i: contexts[i])
    batch.reset()
    for step in actions:
        batch.step(step)


def singles(name: str, contexts: np.ndarray, actions: np.ndarray) -> None:
    """A loop over `gymnasium.Env`s."""
    copies = [envs.make(name) for _ in range(actions.shape[1])]
    for i, env in enumerate(copies):
        env.reset(seed=i, options={"context": contexts[i]})
    for step in actions:
        for i, env in enumerate(copies):
            _, _, terminated, truncated, _ = env.step(step[i])
            if terminated or truncated:
                env.reset(options={"context": contexts[i]})


def plain_point_mass(_: str, contexts: np.ndarray, actions: np.ndarray) -> None:
    """The physics in Python floats, no checks and no observations: the fastest plain loop."""
    rngs = [np.random.default_rng(i) for i in range(actions.shape[1])]
    noise = [rng.standard_normal((100, 20)).tolist() for rng in rngs]
    states = [(0.0, 0.0, 3.0, 0.0)] * len(rngs)
    ages = [0] * len(rngs)
    for step in actions.tolist():
        for i, (fx, fy) in enumerate(step):
            gate, width, friction = contexts[i]
            x, vx, y, vy = states[i]
            row = noise[i][ages[i]]
            crashed = False
            for k in range(10):
                ax = 1.5 * fx - friction * vx + 0.05 * row[2 * k]
                ay = 1.5 * fy - friction * vy + 0.05 * row[2 * k + 1]
                nx = min(max(x + 0.01 * vx, -4.0), 4.0)
                ny = min(max(y + 0.01 * vy, -4.0), 4.0)
                if (y > 0.0 >= ny) or (y < 0.0 <= ny):
                    hit = x + y / (y - ny) * (nx - x)
                    if abs(hit - gate) > width / 2:
                        crashed = True
                        break
                x, y, vx, vy = nx, ny, vx + 0.01 * ax, vy + 0.01 * ay
            math.exp(-0.6 * math.hypot(x, y + 3.0))
            states[i] = (x, vx, y, vy)
            ages[i] += 1
            if crashed or ages[i] == 100:
                states[i], ages[i] = (0.0, 0.0, 3.0, 0.0), 0
                noise[i] = rngs[i].standard_normal((100, 20)).tolist()


def bare_box2d(_: str, contexts: np.ndarray, actions: np.ndarray) -> None:
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
    for i, lander in enumerate(landers):
        lander.reset(seed=i)
    ages = [0] * len(landers)
    for step in actions:
        for i, lander in enumerate(landers):
            _, _, terminated, _, _ = lander.step(step[i])
            ages[i] += 1
            if terminated or ages[i] == 1000:
                lander.reset()
                ages[i] = 0


def bare_mujoco(_: str, contexts: np.ndarray, actions: np.ndarray) -> None:
    """MuJoCo's steps alone: no throws, contacts, rewards, observations or ends of episodes."""
    model = load_model()
    copies = [mujoco.MjData(model) for _ in contexts]
    for data in copies:
        # The ball in flight and above the floor for as long as an episode lasts.
        data.qvel[-1] = 6.0
    for t, step in enumerate(actions):
        if t % 60 == 0:
            for data in copies:
                mujoco.mj_resetData(model, data)
                data.qvel[-1] = 6.0
        for data, control in zip(copies, step, strict=True):
            data.ctrl[list(FREE_JOINTS)] = control
            mujoco.mj_step(model, data, SUBSTEPS)


COMPARISONS: tuple[tuple[str, int, str, Callable[..., None], float | None], ...] = (
    ("point-mass-2", 160, "loop of single environments", singles, 20.0),
    ("point-mass-2", 160, "loop in plain Python floats", plain_point_mass, None),
    ("lunar-lander", 32, "bare Box2D loop", bare_box2d, 0.9),
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


def seconds(program: Callable[..., None], name: str, copies: int, steps: int) -> float:
    """Returns the processor time of stepping: a longer run minus a shorter one, without set-up."""
    contexts, actions = inputs(name, copies, steps)
    start = time.process_time()
    program(name, contexts, actions[: steps // 10])
    middle = time.process_time()
    program(name, contexts, actions)
    end = time.process_time()
    return (end - middle) - (middle - start)


def steps_for(program: Callable[..., None], name: str, copies: int) -> int:
    """Returns how many steps take about `SECONDS_PER_RUN`, at least half an episode."""
    steps = 60
    while True:
        taken = seconds(program, name, copies, steps)
        if taken > 0.02:
            return max(60, int(steps * SECONDS_PER_RUN / taken))
        steps *= 4


def compare(name: str, copies: int, label: str, other: Callable[..., None]) -> list[float]:
    """Times a batch and its rival in turns, prints both and returns the ratios of speed."""
    ours, theirs = (steps_for(program, name, copies) for program in (batched, other))
    # Long enough that resets have their usual share on both sides.
    ours, theirs = max(ours, 200), max(min(theirs, ours), 100)
    ratios, fast, slow = [], [], []
    for _ in range(ROUNDS):
        fast.append(seconds(batched, name, copies, ours) / (0.9 * ours * copies))
        slow.append(seconds(other, name, copies, theirs) / (0.9 * theirs * copies))
        ratios.append(slow[-1] / fast[-1])
    print(
        f"{name:14} N={copies:<4} batch {1 / np.median(fast):>10,.0f} steps/s   "
        f"{label} {1 / np.median(slow):>9,.0f} steps/s   ratio {np.median(ratios):6.2f}   "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )
    return ratios


def growth(name: str) -> None:
    """Prints the batch's speed against its number of copies."""
    speeds = []
    for copies in SIZES:
        steps = max(steps_for(batched, name, copies), 60)
        taken = [seconds(batched, name, copies, steps) for _ in range(3)]
        speeds.append(0.9 * steps * copies / np.median(taken))
    cells = "   ".join(f"N={n} {s:>9,.0f}" for n, s in zip(SIZES, speeds, strict=True))
    print(f"{name:14} {cells}   steps/s")


def main() -> None:
    """Prints the comparisons, with the ratio that is asked for, and the growth with N."""
    print(f"Random actions, target contexts, one core, median (range) of {ROUNDS} rounds\n")
    missed = []
    for name, copies, label, other, wanted in COMPARISONS:
        ratio = float(np.median(compare(name, copies, label, other)))
        if wanted is not None and ratio < wanted:
            missed.append(f"{name}: {ratio:.2f} times the {label}, {wanted} wanted")
    print("\nGrowth with the number of copies\n")
    for name in ("point-mass-2", "lunar-lander", "ball-catching"):
        growth(name)
    print("\n" + ("; ".join(missed) if missed else "All wanted ratios are reached."))


if __name__ == "__main__":
    main()
