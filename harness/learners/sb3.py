"""Learners `sb3-ppo` and `sb3-sac`: Stable-Baselines3 itself, one seed at a time."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from pacebench import envs
from pacebench.harness.learners.base import Learner, LearnerCapabilities, LearnerParams
from pacebench.harness.learners.ppo import PPO, Positive, Share
from pacebench.harness.learners.registry import register


class SACParams(LearnerParams):
    """Hyperparameters of SAC; names, defaults and meanings are those of Stable-Baselines3.

    There are two exceptions: `buffer_size` is a fifth of theirs, since runs are short and workers
    share a machine's memory; and `look_every` is ours: an iteration, after which the curriculum may
    be updated and the policy evaluated, is that many steps of each copy.
    """

    learning_rate: Positive = 3e-4
    n_envs: int = Field(default=1, ge=1)
    look_every: int = Field(default=2000, ge=1)
    buffer_size: int = Field(default=200_000, ge=1)
    learning_starts: int = Field(default=100, ge=0)
    batch_size: int = Field(default=256, ge=1)
    tau: float = Field(default=0.005, gt=0, le=1)
    gamma: Share = 0.99
    train_freq: int = Field(default=1, ge=1)
    gradient_steps: int = Field(default=1, ge=-1)
    ent_coef: Literal["auto"] | float = "auto"
    target_entropy: Literal["auto"] | float = "auto"
    net_arch: tuple[int, ...] = (256, 256)

    @model_validator(mode="after")
    def _whole(self) -> SACParams:
        # Otherwise Stable-Baselines3 would take more steps than are counted.
        if self.look_every % self.train_freq:
            raise ValueError(f"look_every ({self.look_every}) must be a multiple of train_freq")
        return self


@register("sb3-ppo")
class SB3PPO(PPO):
    """Stable-Baselines3's PPO on our batched environments: the reference for `ppo`."""

    doc: ClassVar[str] = "Stable-Baselines3's PPO, one seed at a time: the reference for 'ppo'."
    capabilities: ClassVar[LearnerCapabilities] = LearnerCapabilities(
        batched_seeds=False, critic=True, checkpoints=True, on_policy=True, discrete=True
    )
    agents: ClassVar[str] = "pacebench.harness.learners.sb3_agents:PPOAgent"

    @classmethod
    def defaults(cls, setup: str | envs.Setup) -> dict[str, Any]:
        """Returns the settings of `ppo`: the two are the same algorithm."""
        return PPO.defaults(setup)


@register("sb3-sac")
class SB3SAC(Learner):
    """Stable-Baselines3's SAC: an off-policy learner behind the same interface."""

    doc: ClassVar[str] = "Stable-Baselines3's SAC (off-policy), one seed at a time."
    Params: ClassVar[type[LearnerParams]] = SACParams
    # Its replay buffer would make every checkpoint hundreds of megabytes; and its Q-function is
    # not the state value that `value_signal: critic` means.
    capabilities: ClassVar[LearnerCapabilities] = LearnerCapabilities(
        batched_seeds=False, critic=False, checkpoints=False, on_policy=False
    )
    agents: ClassVar[str] = "pacebench.harness.learners.sb3_agents:SACAgent"

    @classmethod
    def rollout_steps(cls, params: SACParams) -> int:
        """Returns `look_every` × `n_envs`."""
        return params.look_every * params.n_envs
