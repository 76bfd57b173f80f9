"""How fast `ppo` is, beside a jitted, vmapped PPO in JAX of the same sizes, on one core.

Both train on `point-mass-2` from its initial distribution with the recorded settings, in turns, in
one process, in processor time: environment steps per second over all seeds, without compilation and
without evaluation. The mean reward at the end shows that both learn the same.

    pip install 'pacebench[peer]'
    python -m benchmarks.peer [--seeds 1 3 10 40] [--rounds 5]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time

from benchmarks.learners import THREADS, make_batch, steps_per_second
from benchmarks.table import row

FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
ITERATIONS = 3


def compare(seeds: int, rounds: int) -> None:
    """Prints one line."""
    import jax

    from benchmarks import jax_ppo

    ours = make_batch("point-mass-2", "ppo", seeds)
    params = ours.resolved.params
    init, iterate = jax_ppo.make(params)
    state = init(jax.random.split(jax.random.key(0, impl="unsafe_rbg"), seeds))
    state, _ = iterate(state)
    ours.advance()
    fast, slow = [], []
    for i in range(rounds):
        order = ("ours", "theirs") if i % 2 == 0 else ("theirs", "ours")
        for name in order:
            if name == "ours":
                fast.append(steps_per_second(ours, ITERATIONS))
                continue
            started = time.process_time()
            for _ in range(ITERATIONS):
                state, reward = jax.block_until_ready(iterate(state))
            spent = time.process_time() - started
            slow.append(ITERATIONS * ours.resolved.rollout_steps * seeds / spent)
    ratios = [a / b for a, b in zip(fast, slow, strict=True)]
    # Both with the value of what truncation cut off.
    rewards = ours.agents._rewards.mean()
    sides = f"{statistics.median(fast):,.0f} / {statistics.median(slow):,.0f} steps/s"
    sides += f"; rewards {rewards:.3f}, {float(reward.mean()):.3f}"
    # With few seeds within 1.2 times the peer's speed, with many at least as fast.
    least = 1 / 1.2 if seeds <= 3 else 1.0
    row(f"ppo, {seeds} seeds / jitted PPO in JAX", sides, statistics.median(ratios), least=least)


def main() -> None:
    """Prints one line per number of seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 3, 10, 40])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if importlib.util.find_spec("jax") is None:
        row("ppo / jitted PPO in JAX", "JAX is not installed: pip install 'pacebench[peer]'")
        return
    if os.environ.get("XLA_FLAGS") != FLAGS:
        # Read when the libraries are loaded, hence the fresh start.
        os.environ.update(dict.fromkeys(THREADS, "1"), XLA_FLAGS=FLAGS, JAX_PLATFORMS="cpu")
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.peer", *sys.argv[1:]])
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import torch

    torch.set_num_threads(1)
    for seeds in given.seeds:
        compare(seeds, given.rounds)


if __name__ == "__main__":
    main()
