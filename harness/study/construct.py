"""From a setup and the options of a study to a curriculum that can be asked for contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacebench import curricula, envs
from pacebench.envs.arrays import Floats
from pacebench.harness import learners
from pacebench.harness.study.specs import CurriculumCell

# What training tells of every episode, whatever the learner; a critic adds the rest.
_ALWAYS_FED = {"contexts", "values", "returns", "discounted_returns", "success", "lengths"}
_CRITIC_FEEDS = {"start_values", "value_errors"}


@dataclass(frozen=True)
class SampledContexts:
    """A setup's own sampler of contexts, with the moments that the setup gives for it."""

    spec: envs.SamplerSpec
    mean: Floats
    covariance: Floats

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return len(self.mean)

    @property
    def std(self) -> Floats:
        """The marginal standard deviations."""
        return np.sqrt(self.covariance)

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws `n` contexts, (n, d)."""
        return self.spec.sample(n, rng)


def distributions(setup: envs.Setup) -> tuple[curricula.Distribution, curricula.Distribution]:
    """Returns the target and the initial distribution of a setup."""
    target, initial = stand_ins(setup)
    return _stated(setup.target, target), _stated(setup.initial, initial)


def stand_ins(setup: envs.Setup) -> tuple[curricula.Gaussian, curricula.Gaussian]:
    """Returns the Gaussians of a setup, which stand in for its distributions if they are others."""
    return (
        curricula.Gaussian(setup.target_mean, setup.target_variance),
        curricula.Gaussian(setup.initial_mean, setup.initial_variance),
    )


def _stated(spec: envs.ContextSpec | None, gaussian: curricula.Gaussian) -> curricula.Distribution:
    if spec is None:
        return gaussian
    if isinstance(spec, envs.MixtureSpec):
        parts = zip(spec.means, spec.variances, strict=True)
        return curricula.Mixture([curricula.Gaussian(*part) for part in parts], spec.weights)
    if isinstance(spec, envs.UniformSpec):
        return curricula.UniformBox(spec.lower, spec.upper)
    return SampledContexts(spec, gaussian.mean, gaussian.variance)


def make_curriculum(
    chosen: CurriculumCell, setup: envs.Setup, *, seed: int = 0, record_every: int = 1
) -> curricula.Curriculum:
    """Returns a fresh curriculum on a setup; `seed` is that of what its updates draw.

    Raises:
        CurriculumError: An option has a value that does not fit; outside packages may raise others.
    """
    target, initial = distributions(setup)
    said = curricula.get(chosen.name).capabilities
    if said.needs_gaussian or said.has_budget:
        # Where a method begins is the setup's to say; that it aims at a fit, the study's.
        initial = stand_ins(setup)[1]
    given = {"epsilon": chosen.epsilon, "threshold": chosen.threshold}
    return curricula.make(
        chosen.name,
        target=target,
        initial=initial,
        bounds=(np.array(setup.lower), np.array(setup.upper)),
        seed=seed,
        record_every=record_every,
        **{name: value for name, value in given.items() if value is not None},
        **chosen.options,
    )


def blind_critic(setup: envs.Setup) -> str:
    """Returns the sentence about a setup in which `value_signal: critic` means nothing, if so."""
    if setup.visible:
        return ""
    return (
        f"'critic' needs a visible context, but '{setup.name}' hides it: the critic's value would "
        "not depend on it; use 'return'."
    )


def unfed(
    kind: type[curricula.Curriculum], learner: type[learners.Learner], options: dict[str, Any]
) -> str:
    """Returns the sentence about what a curriculum needs and a learner cannot do, or nothing."""
    for ability in sorted(kind.asks(options)):
        if not getattr(learner.capabilities, ability, False):
            return (
                f"'{kind.name}' with these options needs a learner with {ability}, and "
                f"'{learner.name}' has none; change the options or the learner."
            )
    fed = _ALWAYS_FED | (_CRITIC_FEEDS if learner.capabilities.critic else set())
    if lacking := sorted(kind.reads - fed):
        return (
            f"'{kind.name}' reads {', '.join(lacking)} of each episode, which learner "
            f"'{learner.name}' cannot tell; use a learner with a critic of states."
        )
    return ""
