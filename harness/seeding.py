"""Every random stream of a study, named by its role and disjoint from every other by construction.

A stream is a `SeedSequence` whose spawn key spells its role, so it depends on the root seed and the
role alone: not on the order of creation, the batch of seeds a run is in, or the executor.
"""

from __future__ import annotations

import zlib
from enum import IntEnum

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator


class StudyRole(IntEnum):
    """What a branch of a study's seeds is for; no branch is ever used for another purpose."""

    PILOT = 0
    TUNE = 1
    EVALUATE = 2
    EPISODES = 3
    BOOTSTRAP = 4


# A run's key and a study's key could spell the same stream, so no role serves both.
_STUDY_ONLY = (StudyRole.EPISODES, StudyRole.BOOTSTRAP)


class RunRole(IntEnum):
    """The streams inside one training run."""

    INIT = 0
    ENVIRONMENT = 1
    POLICY = 2
    MINIBATCH = 3
    CURRICULUM = 4
    EVALUATION = 5


class RunSeed(BaseModel):
    """The seed of one training run: which root, which role, which setup, which number.

    Methods share the seeds of a setup. Setups do not: runs that share their randomness are not
    independent, and the suite's intervals take the runs of different setups to be.

    Attributes:
        root: The study's root seed.
        role: The branch the run belongs to.
        setup: The setup it is for.
        index: The run's number within the branch; tuning uses it for replicates and trials too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: int = Field(ge=0)
    role: StudyRole = StudyRole.EVALUATE
    setup: str = ""
    index: int = Field(ge=0)

    @field_validator("role")
    @classmethod
    def _of_runs(cls, role: StudyRole) -> StudyRole:
        if role in _STUDY_ONLY:
            raise ValueError(f"{role.name} seeds belong to the study: use study_sequence")
        return role

    def sequence(self, role: RunRole, *child: int) -> np.random.SeedSequence:
        """Returns the stream of one role inside this run, or a child of that stream."""
        key = (self.role, zlib.crc32(self.setup.encode()), self.index, role, *child)
        return np.random.SeedSequence(self.root, spawn_key=key)

    def generator(self, role: RunRole, *child: int) -> np.random.Generator:
        """Returns a generator on the stream that `sequence` returns."""
        return np.random.default_rng(self.sequence(role, *child))


def study_sequence(root: int, role: StudyRole, *key: int) -> np.random.SeedSequence:
    """Returns a stream that belongs to the study rather than to a run.

    The held-out evaluation contexts and the resamples of the statistics come from such streams.
    """
    if role not in _STUDY_ONLY:
        raise ValueError(f"{role.name} seeds belong to runs: use RunSeed.")
    return np.random.SeedSequence(root, spawn_key=(role, *key))
