"""From a setup and the options of a study to a curriculum that can be asked for contexts."""

from __future__ import annotations

import numpy as np

from pacebench import curricula, envs
from pacebench.harness.study.specs import CurriculumCell


def distributions(setup: envs.Setup) -> tuple[curricula.Gaussian, curricula.Gaussian]:
    """Returns the target and the initial distribution of a setup."""
    return (
        curricula.Gaussian(setup.target_mean, setup.target_variance),
        curricula.Gaussian(setup.initial_mean, setup.initial_variance),
    )


def make_curriculum(
    chosen: CurriculumCell, setup: envs.Setup, *, seed: int = 0, record_every: int = 1
) -> curricula.Curriculum:
    """Returns a fresh curriculum on a setup.

    Args:
        chosen: The curriculum with its parameters.
        setup: The task.
        seed: Of what its updates draw.
        record_every: Updates between two records of what only readers need.

    Raises:
        CurriculumError: An option has a value that does not fit; outside packages may raise others.
    """
    target, initial = distributions(setup)
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
