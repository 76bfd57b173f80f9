"""Learner `ppo`: proximal policy optimisation over all seeds of a cell at once."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pacebench.harness.learners.base import Learner, LearnerCapabilities, LearnerParams
from pacebench.harness.learners.registry import register

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Width = Annotated[int, Field(ge=1, le=4096)]


class PPOParams(LearnerParams):
    """Hyperparameters of PPO; names, defaults and meanings are those of Stable-Baselines3.

    The exception is `n_steps`, theirs divided by `n_envs`: 2048 steps per rollout over all copies.
    `n_envs` is what a Stable-Baselines3 script passes to the vectorised environment, `net_arch` to
    `log_std_init` what it passes as `policy_kwargs` (`activation` names its `activation_fn`);
    `norm_obs` to `clip_reward` are `VecNormalize`'s.
    """

    learning_rate: Positive = 3e-4
    n_steps: int = Field(default=128, ge=1)
    n_envs: int = Field(default=16, ge=1)
    batch_size: int = Field(default=64, ge=2)
    n_epochs: int = Field(default=10, ge=1)
    gamma: Share = 0.99
    gae_lambda: Share = 0.95
    clip_range: Positive = 0.2
    clip_range_vf: Positive | None = None
    normalize_advantage: bool = True
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: Positive = 0.5
    target_kl: Positive | None = None
    net_arch: tuple[Width, ...] = Field(default=(64, 64), min_length=1)
    activation: Literal["tanh", "relu"] = "tanh"
    ortho_init: bool = True
    log_std_init: float = 0.0
    norm_obs: bool = False
    norm_reward: bool = False
    clip_obs: Positive = 10.0
    clip_reward: Positive = 10.0


@register("ppo")
class PPO(Learner):
    """Stable-Baselines3's PPO, rewritten to train many seeds in one program."""

    doc: ClassVar[str] = (
        "PPO with Stable-Baselines3's semantics; trains all seeds of a cell in one tensor program."
    )
    Params: ClassVar[type[LearnerParams]] = PPOParams
    capabilities: ClassVar[LearnerCapabilities] = LearnerCapabilities(
        batched_seeds=True,
        critic=True,
        checkpoints=True,
        on_policy=True,
        discrete=True,
        selective_gradients=True,
    )
    agents: ClassVar[str] = "pacebench.harness.learners.batched.agents:BatchedPPO"

    @classmethod
    def rollout_steps(cls, params: PPOParams) -> int:
        """Returns `n_steps` × `n_envs`."""
        return params.n_steps * params.n_envs
