"""Two processes that share a database, and no folder, never make one trial twice."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import optuna
import pytest
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from pacebench.harness.errors import UserError
from pacebench.harness.runner.attempt import Limits
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.runner.leases import LeaseLostError, Leases
from pacebench.harness.tuning import learner_settings, workers
from pacebench.harness.tuning import storage as storages
from pacebench.harness.tuning.claims import SearchClaims, kept
from pacebench.harness.tuning.record import read_record, read_search
from pacebench.harness.tuning.search import searches
from pacebench.harness.tuning.storage import open_storage, patiently
from pacebench.harness.tuning.trials import advance
from tests.harness.tuning.plans import load, plan
from tests.harness.tuning.substitutes import HERE

QUICK = Limits(heartbeat=0.5, expiry=3.0)


def test_a_claim_on_sqlite_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process that claims between the first one's look and its claim gets nothing."""
    url = f"sqlite:///{tmp_path}/trials.db"
    one, other = (open_storage(tmp_path, url) for _ in range(2))
    optuna.create_study(storage=one, study_name="batons").enqueue_trial({})
    got: list[bool] = []

    def claim(storage: BaseStorage) -> None:
        got.append(storage.set_trial_state_values(1, TrialState.RUNNING))

    rival = threading.Thread(target=claim, args=(other,))

    def meanwhile(*_: object) -> None:
        rival.start()
        rival.join(0.5)

    monkeypatch.setattr(one, "check_trial_is_updatable", meanwhile)
    claim(one)
    rival.join()
    assert sorted(got) == [False, True]


@pytest.mark.slow
def test_two_processes_without_a_shared_folder(tmp_path: Path) -> None:
    """One is killed; the other makes exactly what is left, and the first need not train again."""
    study, _ = load(tmp_path, plan(curricula=["spgl"], rerank=1))
    url = f"sqlite:///{tmp_path}/trials.db"
    options = RunOptions(train=f"{HERE}:slow_hill", limits=QUICK)
    here, there = tmp_path / "here", tmp_path / "there"
    (victim,) = workers.start(study, here, url, options, 1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(here.glob("*/leases/*")):
        time.sleep(0.02)
    # The second comes while the first is at its first trial.
    (survivor,) = workers.start(study, there, url, options, 1)
    while time.monotonic() < deadline and len(list(here.glob("*/runs/*/run.json"))) < 3:
        time.sleep(0.02)
    victim.kill()
    victim.join()
    survivor.join()
    assert survivor.exitcode == 0
    trained = [path.parent.name for path in tmp_path.glob("*/*/runs/*/run.json")]
    (again,) = workers.start(study, here, url, options, 1)
    again.join()
    assert again.exitcode == 0
    assert trained == [path.parent.name for path in tmp_path.glob("*/*/runs/*/run.json")]
    first, second = (searches(study, root)[0].record() for root in (here, there))
    assert first is not None
    assert first == second
    assert [trial.number for trial in first.trials] == [0, 1, 2]
    assert first.states() == {"COMPLETE": 3}
    twice = {name for name in trained if trained.count(name) > 1}
    assert len(twice) <= 3, "more than the trial that the victim could not tell of any more"


def test_a_claim_that_expired_is_lost(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/trials.db"
    short = Limits(heartbeat=1.0, expiry=1.0)
    first = SearchClaims(open_storage(tmp_path, url, short), Leases(tmp_path))
    second = SearchClaims(open_storage(tmp_path, url, short), Leases(tmp_path))
    claim = first.acquire("search")
    assert claim is not None
    assert second.acquire("search") is None
    time.sleep(2.1)
    taken = second.acquire("search")
    assert taken is not None
    taken.check()
    with pytest.raises(LeaseLostError), kept(claim, 60.0):
        claim.check()
    assert first.acquire("search") is None, "giving back what was lost frees nothing"
    taken.release()
    assert first.acquire("search") is not None


def test_a_search_that_was_begun_otherwise_is_refused(tmp_path: Path) -> None:
    study, _ = load(tmp_path, plan())
    opened = open_storage(tmp_path)
    search = searches(study, tmp_path)[0]
    search.open(opened)
    other, _ = load(
        tmp_path, plan(sampler="RandomSampler", space={"spgl": {"epsilon": [0.1, 0.2]}})
    )
    with pytest.raises(UserError, match="begun with another space and sampler; give"):
        searches(other, tmp_path)[0].open(opened)
    more, _ = load(tmp_path, plan(trials=9))
    searches(more, tmp_path)[0].open(opened)


def test_a_database_that_stays_away_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from optuna.exceptions import StorageInternalError

    monkeypatch.setattr(storages, "PATIENCE", 0.1)
    monkeypatch.setattr(storages, "_PAUSE", 0.02)
    calls = []

    def away() -> None:
        calls.append(1)
        raise StorageInternalError

    with pytest.raises(UserError, match=r"does not answer any more .* tune again"):
        patiently(away)
    assert len(calls) > 2


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', "[" * 100_000, '{"format": 1}'])
def test_records_of_strangers_get_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"record\.json: "):
        read_record(path)
    if "99" not in text:
        with pytest.raises(UserError, match=r"record\.json: "):
            read_search(path, 1)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "elsewhere.json").write_text(json.dumps({}))
    with pytest.raises(UserError, match="symbolic link"):
        read_record(path)


def test_a_process_that_dies_while_it_asks_leaves_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial with some of its parameters would be run with the study's own for the rest."""
    study, _ = load(tmp_path, plan(sampler="RandomSampler"))
    search = searches(study, tmp_path)[0]
    trials = search.open(open_storage(tmp_path))
    asked: list[str] = []

    def die(*arguments: object) -> float:
        asked.append(str(arguments[3]))
        if len(asked) > 1:
            raise KeyboardInterrupt
        return 0.1

    with monkeypatch.context() as patch:
        patch.setattr(optuna.samplers.RandomSampler, "sample_independent", die)
        with pytest.raises(KeyboardInterrupt):
            advance(search, trials, RunOptions(), lambda: None)
    assert asked == ["epsilon", "threshold"]
    assert trials.get_trials() == []


def test_candidate_settings_of_an_unknown_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_settings, "GRIDS", {})
    with pytest.raises(UserError, match="no candidates are declared for the environment 'point"):
        learner_settings.select("point-mass-1", 1, 0, Path("unused.json"))
