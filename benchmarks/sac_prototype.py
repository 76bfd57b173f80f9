"""SAC over many seeds at once: a prototype of its update beside Stable-Baselines3's, on one core.

The parameters of S seeds are stacked and every layer is one batched product; gradients come from
autograd, losses are summed over the seeds, and Adam works element by element, so seeds do not mix.
The other side is `SAC.train` of S separate models, one after the other, with the same sizes (two
layers of 256, minibatches of 256, 7 observations, 2 actions). Both get the same minibatches from
memory: sampling the replay buffer and stepping environments are on neither side. Before anything is
timed, a stack is given the parameters and the noise of S models, and both make some updates.
docs/design/sac-many-seeds.md says what follows from it.

    python -m benchmarks.sac_prototype
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor

from benchmarks.table import row

OBS, ACT, WIDTH, BATCH = 7, 2, 256, 256
GAMMA, TAU, RATE = 0.99, 0.005, 3e-4
SEEDS, CHECKED, UPDATES, ROUNDS = (1, 5, 10, 20), 5, 10, 5
EXACT = 1e-5


class Nowhere(gymnasium.Env[Any, Any]):
    """The spaces that a model is built for; nobody steps it."""

    observation_space = spaces.Box(-np.inf, np.inf, (OBS,))
    action_space = spaces.Box(-1.0, 1.0, (ACT,))


def model(seed: int, batch: ReplayBufferSamples) -> SAC:
    """Returns one of Stable-Baselines3's, which learns from one batch for ever."""
    made = SAC("MlpPolicy", Nowhere(), seed=seed, batch_size=BATCH, device="cpu")
    made.set_logger(configure(None, []))
    made.replay_buffer.sample = lambda *_, **__: batch  # type: ignore[union-attr,method-assign]
    return made


def minibatch(seed: int) -> ReplayBufferSamples:
    """Returns made-up transitions."""
    rng = torch.Generator().manual_seed(seed)
    shapes = ((BATCH, OBS), (BATCH, ACT), (BATCH, OBS), (BATCH, 1), (BATCH, 1))
    obs, actions, after, _, rewards = (torch.randn(shape, generator=rng) for shape in shapes)
    dones = (torch.rand((BATCH, 1), generator=rng) < 0.01).float()
    return ReplayBufferSamples(obs, torch.tanh(actions), after, dones, rewards, None)


def layers(*modules: torch.nn.Module) -> list[Tensor]:
    """Returns weights (in, out) and biases of linear layers, in order."""
    linear = [m for module in modules for m in module.modules() if isinstance(m, torch.nn.Linear)]
    return [p.detach().clone() for m in linear for p in (m.weight.T, m.bias[None])]


def forward(parameters: list[Tensor], x: Tensor) -> Tensor:
    """Applies three stacked layers, (seeds, batch, in) to (seeds, batch, out)."""
    for i in (0, 2, 4):
        x = torch.baddbmm(parameters[i + 1], x, parameters[i])
        x = torch.relu(x) if i < 4 else x
    return x


class Stack:
    """The actors, critics and temperatures of some models, updated together."""

    def __init__(self, models: list[SAC]) -> None:
        def stacked(of: list[list[Tensor]]) -> list[Tensor]:
            return [torch.stack(same).contiguous() for same in zip(*of, strict=True)]

        self.actor = stacked(
            [layers(m.actor.latent_pi, m.actor.mu, m.actor.log_std) for m in models]
        )
        self.critics = [stacked([layers(m.critic.q_networks[i]) for m in models]) for i in (0, 1)]
        self.targets = copy.deepcopy(self.critics)
        self.log_alpha = torch.stack([m.log_ent_coef.detach().clone() for m in models])[:, :, None]
        trained = (self.actor, [*self.critics[0], *self.critics[1]], [self.log_alpha])
        for parameter in (p for group in trained for p in group):
            parameter.requires_grad_()
        self.optimisers = [torch.optim.Adam(group, lr=RATE) for group in trained]

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns squashed actions and their log-probabilities."""
        hidden = obs
        for i in (0, 2):
            hidden = torch.relu(torch.baddbmm(self.actor[i + 1], hidden, self.actor[i]))
        mean = torch.baddbmm(self.actor[5], hidden, self.actor[4])
        log_std = torch.baddbmm(self.actor[7], hidden, self.actor[6]).clamp(-20, 2)
        action = torch.tanh(mean + log_std.exp() * noise)
        density = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        return action, (density - torch.log(1 - action**2 + 1e-6)).sum(2, keepdim=True)

    def value(self, critics: list[list[Tensor]], obs: Tensor, action: Tensor) -> list[Tensor]:
        """Returns what both critics say."""
        both = torch.cat([obs, action], 2)
        return [forward(critic, both) for critic in critics]

    def update(self, batch: ReplayBufferSamples, noise: tuple[Tensor, Tensor]) -> None:
        """Makes one gradient step of everything, in the order of `SAC.train`."""
        action, log_prob = self.act(batch.observations, noise[0])
        alpha = self.log_alpha.detach().exp()
        self._step(2, -(self.log_alpha * (log_prob - ACT).detach()).mean((1, 2)).sum())
        with torch.no_grad():
            following, log_next = self.act(batch.next_observations, noise[1])
            least = torch.min(*self.value(self.targets, batch.next_observations, following))
            goal = batch.rewards + (1 - batch.dones) * GAMMA * (least - alpha * log_next)
        found = self.value(self.critics, batch.observations, batch.actions)
        self._step(1, sum(0.5 * ((q - goal) ** 2).mean((1, 2)).sum() for q in found))
        least = torch.min(*self.value(self.critics, batch.observations, action))
        self._step(0, (alpha * log_prob - least).mean((1, 2)).sum())
        with torch.no_grad():
            for old, new in zip(self.targets, self.critics, strict=True):
                torch._foreach_lerp_(old, new, TAU)

    def _step(self, which: int, loss: Any) -> None:
        self.optimisers[which].zero_grad()
        loss.backward()
        self.optimisers[which].step()


def joined(batches: list[ReplayBufferSamples]) -> ReplayBufferSamples:
    """Returns the minibatches of all seeds as one, (seeds, batch, …)."""
    columns = [torch.stack(same) for same in zip(*(b[:5] for b in batches), strict=True)]
    return ReplayBufferSamples(*columns, None)


def apart() -> float:
    """Returns how far some updates of a stack lead from those of the same models, at most."""
    batches = [minibatch(seed) for seed in range(CHECKED)]
    models = [model(seed, batch) for seed, batch in enumerate(batches)]
    stack, whole = Stack(models), joined(batches)
    zeros, ones = torch.zeros(BATCH, ACT), torch.ones(BATCH, ACT)
    drawn = []
    for seed, one in enumerate(models):
        torch.manual_seed(seed)
        drawn.append([torch.normal(zeros, ones) for _ in range(2 * UPDATES)])
        torch.manual_seed(seed)
        one.train(UPDATES, BATCH)
    noise = [torch.stack(same) for same in zip(*drawn, strict=True)]
    for i in range(UPDATES):
        stack.update(whole, (noise[2 * i], noise[2 * i + 1]))
    after = Stack(models)
    pairs = zip(
        [*stack.actor, *stack.critics[0], *stack.critics[1], stack.log_alpha],
        [*after.actor, *after.critics[0], *after.critics[1], after.log_alpha],
        strict=True,
    )
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def compare(seeds: int) -> None:
    """Times both sides in turns."""
    batches = [minibatch(seed) for seed in range(seeds)]
    models = [model(seed, batch) for seed, batch in enumerate(batches)]
    stack, whole = Stack(models), joined(batches)
    shape = (seeds, BATCH, ACT)

    def together() -> None:
        for _ in range(UPDATES):
            stack.update(whole, (torch.randn(shape), torch.randn(shape)))

    def alone() -> None:
        for one in models:
            one.train(UPDATES, BATCH)

    together(), alone()
    taken: dict[Any, list[float]] = {together: [], alone: []}
    for i in range(ROUNDS):
        for program in (together, alone) if i % 2 == 0 else (alone, together):
            started = time.process_time()
            program()
            taken[program].append((time.process_time() - started) / UPDATES / seeds)
    ratio = statistics.median(a / b for a, b in zip(taken[alone], taken[together], strict=True))
    times = [statistics.median(taken[side]) * 1e3 for side in (alone, together)]
    sides = f"{times[0]:.2f} ms / {times[1]:.2f} ms an update and seed"
    row(f"SAC updates of {seeds} seeds: Stable-Baselines3 / stacked", sides, ratio)


def main() -> None:
    """Checks that both do the same, then prints one line per number of seeds."""
    torch.set_num_threads(1)
    far = apart()
    text = f"SAC, {UPDATES} updates of {CHECKED} seeds: largest difference of a parameter"
    row(text, f"{far:.1e} / {EXACT:.0e}", far / EXACT, most=1.0)
    for seeds in SEEDS:
        compare(seeds)


if __name__ == "__main__":
    main()
