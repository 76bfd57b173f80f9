"""Adaptive studies: which seeds are made is a function of the records alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pacebench import harness
from pacebench.harness.analysis.waves import DECIDED, open_questions, planned_counts, scored_table
from pacebench.harness.runner import local
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.runner.process import WorkerProcess
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Seeds, Study
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

ONE = ("point-mass-1",)


def adaptive(
    start: int, step: int, most: int, methods: tuple[Method, ...], setups: tuple[str, ...] = ONE
) -> Study:
    plan = synthetic.study(methods, setups, most, smallest_effect=0.05)
    data = plan.model_dump(mode="json")
    return Study.model_validate({**data, "seeds": {"start": start, "step": step, "max": most}})


def stored(
    root: Path,
    study: Study,
    methods: tuple[Method, ...],
    seeds: int,
    setups: tuple[str, ...] = ONE,
) -> None:
    """Writes the first seeds of every cell, as a runner would have."""
    frames = synthetic.frames(methods, setups, study.seeds.count, plan=study, updates=1)
    later = frames.runs["seed"] >= seeds
    frames.runs.loc[later, "status"] = "missing"
    synthetic.store(root, study, frames)


CLEAR = (Method("default", 0.0, 0.0), Method("spgl", 1.0, 0.0, epsilon=0.05))
ALIKE = (Method("default", 0.5, 0.1), Method("spgl", 0.5, 0.1, epsilon=0.05))


def test_a_study_begins_with_its_first_wave(tmp_path: Path) -> None:
    study = adaptive(4, 3, 10, ALIKE)
    assert set(planned_counts(study, tmp_path).values()) == {4}
    assert len(expand(study, planned_counts(study, tmp_path))) == 8
    assert len(expand(study)) == 20


@pytest.mark.parametrize(("there", "wanted"), [(2, 4), (4, 7), (7, 10), (10, 10)])
def test_the_next_wave_follows_from_the_records(tmp_path: Path, there: int, wanted: int) -> None:
    study = adaptive(4, 3, 10, ALIKE)
    stored(tmp_path, study, ALIKE, there)
    assert set(planned_counts(study, tmp_path).values()) == {wanted}


def test_a_costly_setup_may_have_fewer_seeds(tmp_path: Path) -> None:
    data = adaptive(4, 3, 10, ALIKE).model_dump(mode="json")
    data["seeds"]["at_most"] = {"point-mass-1": 5}
    study = Study.model_validate(data)
    assert len(expand(study)) == 10
    stored(tmp_path, study, ALIKE, 5)
    assert set(planned_counts(study, tmp_path).values()) == {5}


def test_a_decided_question_asks_for_no_more(tmp_path: Path) -> None:
    study = adaptive(10, 10, 60, CLEAR)
    stored(tmp_path, study, CLEAR, 60)
    counts = planned_counts(study, tmp_path)
    (n,) = set(counts.values())
    assert 10 < n < 60
    # All sixty are on disk, but the study is the one that stopped when it was decided.
    (found,) = open_questions(scored_table(study, tmp_path))
    assert found.verdict in DECIDED
    assert "better" in found.progress(60)


def test_a_verdict_that_does_not_hold_at_every_look_stops_no_study(tmp_path: Path) -> None:
    """Returns of Lunar Lander have no proven range: Welch's interval would decide at a glance."""
    setup = ("lunar-lander",)
    clear = (Method("default", 0.0, 0.01), Method("spgl", 1.0, 0.01, epsilon=0.05))
    study = adaptive(4, 3, 10, clear, setup)
    stored(tmp_path, study, clear, 4, setup)
    (found,) = open_questions(scored_table(study, tmp_path))
    assert found.verdict in DECIDED
    assert found.interval is None
    assert "by a t-test, which decides after the last seed alone" in found.progress(10)
    assert set(planned_counts(study, tmp_path).values()) == {7}
    assert "t-test" not in found.progress(4)
    assert "t-test" not in replace(found, seeds=0).progress(10)


def test_what_is_undecided_says_how_far_it_is(tmp_path: Path) -> None:
    study = adaptive(4, 4, 12, ALIKE)
    stored(tmp_path, study, ALIKE, 4)
    (found,) = open_questions(scored_table(study, tmp_path))
    assert "undecided after 4 of at most 12 seeds, wealth" in found.progress(12)


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        ({"max": 10}, "needs 'start'"),
        ({"start": 20, "max": 10}, "must not exceed"),
        ({"count": 10, "max": 10, "start": 1}, "give 'count' for a fixed study"),
        ({"start": 4, "max": 10, "at_most": {"a": 3}}, "at_most: a: must lie between"),
        ({"count": 10, "step": 2}, "belongs to an adaptive study"),
    ],
)
def test_mistakes_are_named(seeds: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Seeds.model_validate(seeds)


@pytest.mark.slow
def test_waves_are_run_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study.model_validate(
        {
            "name": "waves",
            "question": "Does it end?",
            "curricula": ["default", "initial"],
            "setups": ["point-mass-2"],
            "seeds": {"start": 1, "step": 1, "max": 3, "root": 5},
            "budget": 2048,
            "evaluation": {"points": 1, "contexts": 3},
            "learner": {"name": "ppo", "params": {"n_steps": 64}},
        }
    )
    options = RunOptions(workers=1, display=Display())
    first = harness.run(study, results=tmp_path, options=options, until_decided=False)
    assert (first.made, first.total) == (2, 2)
    started: list[WorkerProcess] = []

    class Counted(WorkerProcess):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    monkeypatch.setattr(local, "WorkerProcess", Counted)
    rest = harness.run(study, results=tmp_path, options=options)
    assert (rest.made, rest.total) == (4, 6)
    assert len(started) == 1, "two waves, one worker"
    assert not psutil.pid_exists(started[0]._watched.pid), "and none is left behind"
    assert harness.run(study, results=tmp_path, options=options).made == 0
    runs = harness.load_results(tmp_path / "waves").runs
    assert runs["current"].all()
    assert sorted(runs["seed"]) == [0, 0, 1, 1, 2, 2]
