"""Streams are disjoint by role and depend on nothing but root, role and index."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench.harness.seeding import RunRole, RunSeed, StudyRole, study_sequence


def _words(sequence: np.random.SeedSequence) -> tuple[int, ...]:
    return tuple(int(word) for word in sequence.generate_state(8, np.uint64))


def test_every_stream_of_every_role_is_its_own() -> None:
    streams = [
        _words(RunSeed(root=root, role=role, setup=setup, index=index).sequence(run_role))
        for root in (0, 1)
        for setup in ("", "point-mass-1", "point-mass-2")
        for role in (StudyRole.PILOT, StudyRole.TUNE, StudyRole.EVALUATE)
        for index in range(20)
        for run_role in RunRole
    ]
    streams += [
        _words(study_sequence(root, role, *key))
        for root in (0, 1)
        for role in (StudyRole.EPISODES, StudyRole.BOOTSTRAP)
        for key in [(), *((i,) for i in range(20)), *((i, j) for i in range(5) for j in range(5))]
    ]
    assert len(set(streams)) == len(streams)


def test_evaluation_seeds_are_never_tuning_or_pilot_seeds() -> None:
    """No first draw of an evaluation run is a first draw of a tuning or pilot run."""

    def draws(role: StudyRole) -> set[float]:
        return {
            float(RunSeed(root=3, role=role, index=i).generator(run_role).random())
            for i in range(200)
            for run_role in RunRole
        }

    evaluate, tune, pilot = map(draws, (StudyRole.EVALUATE, StudyRole.TUNE, StudyRole.PILOT))
    assert not evaluate & tune
    assert not evaluate & pilot
    assert not tune & pilot


def test_seed_zero_is_a_seed() -> None:
    a, b = (RunSeed(root=0, index=0).generator(RunRole.INIT).random(4) for _ in range(2))
    assert (a == b).all()


def test_run_branches_cannot_be_asked_for_as_study_branches() -> None:
    with pytest.raises(ValueError, match="belong to runs"):
        study_sequence(0, StudyRole.TUNE)
    with pytest.raises(ValueError, match="belong to the study"):
        RunSeed(root=0, role=StudyRole.EPISODES, index=0)
