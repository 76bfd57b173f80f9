"""How fast `ppo` is, beside Stable-Baselines3's PPO with the same hyperparameters, on one core.

Both learners train in the same batched environment with the same curriculum loop around them; they
run in turns, in one process, timed in processor time, which other programs on the machine disturb
least. Printed are environment steps per second over all seeds (rollout, policy and curriculum
updates, no evaluation) and the median of the ratios of neighbouring runs.

    python -m benchmarks.learners                  # the ratio, on three setups
    python -m benchmarks.learners --only seeds     # or memory, kernels: some minutes
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces

from benchmarks.table import row
from pacebench.harness import learners
from pacebench.harness.learners.batched.heads import head_of
from pacebench.harness.learners.batched.network import Layout, StackedPolicy
from pacebench.harness.learners.batched.update import Rollout, Updater
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.records import Hooks
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import (
    Cell,
    CurriculumCell,
    EvaluationCell,
    LearnerCell,
    ScheduleCell,
)
from pacebench.harness.training.loop import TrainingBatch
from pacebench.harness.training.resolved import ResolvedCell

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SETUPS = ("point-mass-2", "ball-catching", "lunar-lander")
ROUNDS = 5
BOX = spaces.Box(-1.0, 1.0, (2,))
SEEDS = (1, 2, 5, 10, 20, 40)


def make_batch(setup: str, learner: str, seeds: int) -> TrainingBatch:
    """A batch that never gets as far as an evaluation."""
    params = learners.get(learner).Params.model_validate(learners.get(learner).defaults(setup))
    budget = 10**12
    cell = Cell(
        curriculum=CurriculumCell(name="initial", epsilon=None, threshold=None),
        setup=setup,
        setup_digest="",
        learner=LearnerCell(name=learner, params=params.model_dump(mode="json")),
        schedule=ScheduleCell(),
        budget=budget,
        evaluation=EvaluationCell(steps=(budget,), contexts=1, root=0),
        versions={},
    )
    chosen = [RunSeed(root=0, index=i) for i in range(seeds)]
    return TrainingBatch(ResolvedCell.of(cell), chosen, [None] * seeds, Hooks())


def steps_per_second(batch: TrainingBatch, iterations: int) -> float:
    """Environment steps per second of processor time, over all seeds."""
    started = time.process_time()
    for _ in range(iterations):
        batch.advance()
    spent = time.process_time() - started
    return iterations * batch.resolved.rollout_steps * len(batch.seeds) / spent


def compare_with_sb3(setup: str, seeds: int = 10) -> None:
    """`ppo` over `seeds` seeds against `sb3-ppo`, interleaved."""
    ours, theirs = make_batch(setup, "ppo", seeds), make_batch(setup, "sb3-ppo", 1)
    ours.advance(), theirs.advance()
    fast, slow, shares = [], [], []
    for i in range(ROUNDS):
        # In turns of ABBA, so that a drift of the machine favours neither.
        order = [(ours, fast), (theirs, slow)]
        for batch, found in order if i % 2 == 0 else order[::-1]:
            found.append(steps_per_second(batch, 2))
    for batch in (ours, theirs):
        total = sum(batch.clock.seconds.values())
        shares.append(
            ", ".join(f"{k} {v / total:.0%}" for k, v in batch.clock.seconds.items() if v)
        )
    ratio = statistics.median(a / b for a, b in zip(fast, slow, strict=True))
    sides = f"{statistics.median(fast):,.0f} / {statistics.median(slow):,.0f} steps/s"
    row(f"{setup}: ppo, {seeds} seeds / sb3-ppo, one seed", sides, ratio)
    print(f"  time of ppo: {shares[0]}\n  time of sb3-ppo: {shares[1]}")


def grow_with_seeds(setup: str) -> None:
    """How the cost of an iteration grows with the number of seeds."""
    batches = {seeds: make_batch(setup, "ppo", seeds) for seeds in SEEDS}
    found: dict[int, list[float]] = {seeds: [] for seeds in SEEDS}
    for batch in batches.values():
        batch.advance()
    for _ in range(3):
        for seeds, batch in batches.items():
            found[seeds].append(steps_per_second(batch, 1))
    alone = statistics.median(found[1])
    print(f"{setup}: seeds, steps/s over all seeds, cost per seed relative to one seed alone")
    for seeds, speeds in found.items():
        speed = statistics.median(speeds)
        print(f"  {seeds:>3} {speed:>10,.0f} {alone / speed:>6.2f}")


def memory_per_seed(setup: str) -> None:
    """Peak memory of processes with few and with many seeds."""
    peaks = {}
    for seeds in (1, 40):
        command = [sys.executable, "-m", "benchmarks.learners", "--peak", setup, str(seeds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks[seeds] = float(done.stdout)
    each = (peaks[40] - peaks[1]) / 39
    print(f"{setup}: peak memory {peaks[1]:.0f} MB with 1 seed, {peaks[40]:.0f} MB with 40")
    print(f"  {each:.2f} MB per further seed")


class TorchStack:
    """The same update in plain PyTorch: stacked products, autograd, fused Adam.

    `fused` puts actor and critic into one product per layer; without, each has its own.
    """

    def __init__(self, policy: StackedPolicy, params: PPOParams, *, fused: bool) -> None:
        self.params, self.layout, self.fused = params, policy.layout, fused
        self.flat = policy.params.clone().requires_grad_()
        self.optimiser = torch.optim.Adam(
            [self.flat], lr=params.learning_rate, eps=1e-5, fused=True
        )

    def loss(self, flat: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Sum of the agents' losses."""
        p, (d, a) = self.params, (self.layout.observation, self.layout.action)
        views, start = [], 0
        for shape in self.layout.shapes:
            stop = start + int(np.prod(shape))
            views.append(flat[:, start:stop].reshape(len(flat), *shape))
            start = stop
        out = self.heads(views, batch[:, :, :d])
        actions = batch[:, :, d : d + a]
        old, advantages, returns = (batch[:, :, d + a + i] for i in range(3))
        log_std = views[-1][:, None]
        z = (actions - out[0]) * torch.exp(-log_std)
        log_prob = (-0.5 * z * z - log_std - 0.5 * np.log(2 * np.pi)).sum(2)
        ratio = torch.exp(log_prob - old)
        mean, std = advantages.mean(1, keepdim=True), advantages.std(1, keepdim=True)
        advantages = (advantages - mean) / (std + 1e-8)
        clipped = advantages * ratio.clamp(1 - p.clip_range, 1 + p.clip_range)
        gain = torch.min(advantages * ratio, clipped)
        error = (out[1][:, :, 0] - returns) ** 2
        return (-gain.mean(1) + p.vf_coef * error.mean(1)).sum()

    def heads(self, views: list[torch.Tensor], obs: torch.Tensor) -> list[torch.Tensor]:
        """Action means and values."""
        s, size, _ = obs.shape
        weights, biases = views[:-1:2], views[1:-1:2]
        last = len(weights) - 1
        if self.fused:
            h = obs[:, None].expand(s, 2, size, obs.shape[2]).reshape(2 * s, size, -1)
            for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
                h = torch.baddbmm(b.reshape(2 * s, 1, -1), h, w.reshape(2 * s, *w.shape[2:]))
                h = torch.tanh(h) if i < last else h
            both = h.reshape(s, 2, size, -1)
            return [both[:, 0], both[:, 1]]
        out = []
        for net in (0, 1):
            h = obs
            for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
                h = torch.baddbmm(b[:, net], h, w[:, net])
                h = torch.tanh(h) if i < last else h
            out.append(h)
        return out

    def epoch(
        self, packed: torch.Tensor, orders: list[np.ndarray], loss: Callable[..., torch.Tensor]
    ) -> None:
        """Goes once through the rollout."""
        index = torch.from_numpy(np.stack(orders))
        shuffled = torch.take_along_dim(packed, index[:, :, None], 1)
        for batch in shuffled.split(self.params.batch_size, dim=1):
            self.optimiser.zero_grad()
            loss(self.flat, batch).backward()
            norms = self.flat.grad.norm(dim=1, keepdim=True)
            self.flat.grad *= torch.clamp(self.params.max_grad_norm / (norms + 1e-6), max=1.0)
            self.optimiser.step()


def compare_kernels(seeds: int = 10, transitions: int = 2000) -> None:
    """What each idea is worth: one epoch over the same rollout, in turns."""
    rng = np.random.default_rng(0)
    d, a = 7, 2
    packed = rng.standard_normal((seeds, transitions, d + a + 4), dtype=np.float32)
    programs: dict[str, Callable[[], None]] = {}
    after: dict[str, np.ndarray] = {}
    orders = [rng.permutation(transitions) for _ in range(seeds)]

    def fresh() -> StackedPolicy:
        policy = StackedPolicy(Layout(d, a, (64, 64)), seeds, "tanh")
        for k in range(seeds):
            policy.initialise(k, np.random.SeedSequence(k), True, 0.0)
        return policy

    for size in (100, 500):
        params = PPOParams(batch_size=size)
        for name, fused, compiled in (
            ("PyTorch, two products", False, False),
            ("PyTorch, one product", True, False),
            ("PyTorch, one product, torch.compile", True, True),
        ):
            stack = TorchStack(fresh(), params, fused=fused)
            loss = torch.compile(stack.loss, dynamic=False) if compiled else stack.loss
            tensor = torch.from_numpy(packed)

            def torch_epoch(stack=stack, loss=loss, tensor=tensor) -> None:
                stack.epoch(tensor, orders, loss)

            torch_epoch()
            after[f"{name} {size}"] = stack.flat.detach().numpy().copy()
            programs[f"{name}, minibatches of {size}"] = torch_epoch
        policy = fresh()
        updater = Updater(policy, head_of(BOX, policy, params.ent_coef), params)
        rollout, alive = Rollout(packed, d, a), np.ones(seeds, dtype=np.bool_)

        def our_epoch(updater=updater, rollout=rollout, alive=alive) -> None:
            updater.epoch(rollout, orders, alive, alive.copy())

        our_epoch()
        ours = policy.params.numpy().copy()
        for name in [key for key in after if key.endswith(str(size))]:
            # One epoch of each led to the same parameters: the programs do the same work.
            np.testing.assert_allclose(after[name], ours, atol=2e-4)
        programs[f"ours, minibatches of {size}"] = our_epoch
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, program in programs.items():
            started = time.process_time()
            program()
            found[name].append(time.process_time() - started)
    print(f"one epoch over {seeds} × {transitions} transitions")
    for name, seconds in found.items():
        print(f"  {statistics.median(seconds) * 1e3:>7.1f} ms  {name}")


def main() -> None:
    """Prints what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["ratio", "seeds", "memory", "kernels"], default="ratio")
    parser.add_argument("--setup", choices=SETUPS)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if any(os.environ.get(variable) != "1" for variable in THREADS):
        # Read when the libraries are loaded, hence the fresh start.
        os.environ.update(dict.fromkeys(THREADS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.learners", *sys.argv[1:]])
    torch.set_num_threads(1)
    if given.peak:
        batch = make_batch(given.peak[0], "ppo", int(given.peak[1]))
        batch.advance()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    setups = (given.setup,) if given.setup else SETUPS
    if given.only == "ratio":
        for setup in setups:
            compare_with_sb3(setup)
    if given.only == "seeds":
        grow_with_seeds(setups[0])
    if given.only == "memory":
        memory_per_seed(setups[0])
    if given.only == "kernels":
        compare_kernels()


if __name__ == "__main__":
    main()
