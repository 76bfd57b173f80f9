"""Tuning from study file to tuned study: reproducible, fair, and honest about selection bias."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from pacebench import envs
from pacebench.harness import load_results, report
from pacebench.harness import run as run_study
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.study.load import load_study
from pacebench.harness.tuning import workers
from pacebench.harness.tuning.record import TuningRecord, read_record
from pacebench.harness.tuning.search import searches
from pacebench.harness.tuning.storage import open_storage
from tests.harness.tuning.plans import load, plan, run
from tests.harness.tuning.substitutes import HERE


def _points(record: TuningRecord) -> list[tuple[str, list[object]]]:
    return [(s.method, [(t.point, t.value) for t in s.trials]) for s in record.searches]


@pytest.mark.slow
def test_same_seed_same_trials_and_a_tuned_study_that_runs(tmp_path: Path) -> None:
    first = run(tmp_path / "a", "hill", workers=2)
    again = run(tmp_path / "b", "hill")
    assert _points(first.record) == _points(again.record)

    for search in first.record.searches:
        assert search.env_steps == search.budget == 3 * 3 * 40_000, "the same for every method"
        assert len(search.trials) == 3
        assert search.states() == {"COMPLETE": 3}
        assert len(search.candidates) == 3, "two of the search, and the study's own"

    tuned = load_study(first.study_file)
    assert tuned.name == "tiny.tuned"
    spgl = next(entry for entry in tuned.curricula if entry.shown == "spgl")
    (found,) = (s for s in first.record.searches if s.method == "spgl")
    # The study's own ε is where the hill is highest, so no trial is better.
    assert (found.chosen, found.point, found.gain) == (None, {}, 0)
    assert (spgl.on("point-mass-2").epsilon, found.own["epsilon"]) == (None, 0.05)
    assert spgl.tuned is not None
    pointed = first.study_file.parent / spgl.tuned.record
    assert read_record(pointed) == first.record
    options = RunOptions(train=f"{HERE}:hill", workers=1)
    summary = run_study(tuned, results=tmp_path / "a" / "results", options=options)
    assert summary.statuses == {"ok": 9}
    made = report(tmp_path / "a" / "results" / "tiny.tuned")
    assert made.view.tuning == first.record, "the report finds the record beside the results"
    assert (made.folder / "tables" / "tuning-choice.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_no_search_outlives_its_command(tmp_path: Path, number: int, code: int) -> None:
    _, file = load(tmp_path, plan(curricula=["linear"]) | {"budget": 400_000_000})
    command = [sys.executable, "-m", "pacebench.harness", "tune", str(file), "--workers", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    started = psutil.Process(process.pid)
    while not list(tmp_path.glob("results/tiny/tuning/*/leases/*")):
        assert process.poll() is None
        time.sleep(0.1)
    family = started.children(recursive=True)
    assert len(family) >= 2, "the search, and what trains for it"
    process.send_signal(number)  # to it alone, as a batch system does
    assert process.wait(120) == code
    assert psutil.wait_procs(family, timeout=60)[1] == []


@pytest.mark.slow
def test_resuming_makes_nothing_again(tmp_path: Path) -> None:
    first = run(tmp_path, "hill", curricula=["spgl"])
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("run.json")}
    second = run(tmp_path, "hill", curricula=["spgl"])
    after = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("run.json")}
    assert before == after
    assert _points(first.record) == _points(second.record)


@pytest.mark.slow
def test_methods_that_fail_score_the_floor_and_are_counted(tmp_path: Path) -> None:
    summary = run(tmp_path, "fragile", curricula=["spgl"], trials=6)
    (search,) = summary.record.searches
    failed = [t for t in search.trials if t.point["epsilon"] > 0.05]
    assert failed
    assert all(t.state == "COMPLETE" and t.value is not None and t.value < 0.1 for t in failed)
    assert search.states()["runs at the floor"] == 3 * len(failed)
    assert search.chosen is not None
    assert search.point["epsilon"] <= 0.05
    (spgl,) = (e for e in load_study(summary.study_file).curricula if e.shown == "spgl")
    assert spgl.on("point-mass-2").epsilon == search.point["epsilon"]


@pytest.mark.slow
def test_what_pruning_saves_goes_into_further_trials(tmp_path: Path) -> None:
    tuning = {"pruner": "wilcoxon", "seeds_per_trial": 8, "trials": 5, "sampler": "RandomSampler"}
    (search,) = run(tmp_path, "hill", curricula=["spgl"], **tuning).record.searches
    pruned = [trial for trial in search.trials if trial.state == "PRUNED"]
    assert pruned
    assert len(search.trials) > 5
    for trial in pruned:
        assert 4 <= len(trial.scores) < 8
        assert trial.env_steps == len(trial.scores) * 40_000
        assert trial.value == statistics.fmean(s for s in trial.scores if s is not None)
    assert search.budget - 8 * 40_000 < search.env_steps <= search.budget
    assert all(candidate.trial not in {t.number for t in pruned} for candidate in search.candidates)


@pytest.mark.slow
def test_two_workers_one_killed_exact_trial_count(tmp_path: Path) -> None:
    """A killed worker's search is finished by the other, to the trial."""
    study, _ = load(tmp_path, plan(trials=5))
    root = tmp_path / "results" / "tiny" / "tuning"
    options = RunOptions(train=f"{HERE}:slow_hill")
    victim, survivor = workers.start(study, root, None, options, 2)
    found = searches(study, root)
    storage = open_storage(root)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if all((search.folder / "runs").exists() for search in found):
            break
        time.sleep(0.05)
    victim.kill()
    victim.join()
    survivor.join()
    assert survivor.exitcode == 0
    for search in found:
        record = search.record()
        assert record is not None
        assert [trial.number for trial in record.trials] == list(range(5))
        assert record.states() == {"COMPLETE": 5}
        assert len(search.open(storage).get_trials()) == 5
    undisturbed = run(tmp_path / "calm", "slow_hill", trials=5)
    for search, calm in zip(found, undisturbed.record.searches, strict=True):
        disturbed = search.record()
        assert disturbed is not None
        assert [t.point for t in disturbed.trials] == [t.point for t in calm.trials]


@pytest.mark.slow
def test_pure_noise_canary(tmp_path: Path) -> None:
    """With nothing to find the search looks good, fresh seeds do not, and evaluation is fair."""
    summary = run(tmp_path, "noise", curricula=["spgl"], replicates=12, trials=4)
    gaps = [search.optimism for search in summary.record.searches]
    # The best of four means of three uniform draws exceeds 0.5 by 0.17 on average. Twelve searches
    # show it with a probability of 0.94, six with 0.72; the draws change with the cells' digests.
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    assert statistics.fmean(gaps) > 2 * error
    tuned = load_study(summary.study_file)
    assert sum(entry.tuned is not None for entry in tuned.curricula) == 12
    folder = tmp_path / "evaluated"
    run_study(
        tuned, results=folder, options=RunOptions(train=f"{HERE}:noise", workers=1, share=False)
    )
    results = load_results(folder / tuned.name)
    episodes = results.evaluations[results.evaluations["label"].str.startswith("spgl")]
    means = episodes.groupby("run_id", observed=True)["return"].mean().to_numpy(dtype=np.float64)
    anchors = envs.setup("point-mass-2").anchors
    assert anchors is not None
    scores = np.array([anchors.normalise(mean) for mean in means])
    # Searches that chose alike have seeds of their own all the same.
    assert len(scores) == 12 * 3
    # U(0, 1) draws: standard error 0.29/√36; four of them make a false alarm a rarity.
    assert abs(scores.mean() - 0.5) < 4 * 0.289 / len(scores) ** 0.5
