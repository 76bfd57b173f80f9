"""Results of strangers, of other versions and of broken disks: refused, or made again.

Every damage goes through `load_results`, `status`, `report` and `run`. None may end in a traceback,
wait for ever, or be taken for data.
"""

from __future__ import annotations

import functools
import shutil
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli.app import app
from pacebench.harness.errors import UserError
from pacebench.harness.runner import launch
from pacebench.harness.runner.local import kept_workers
from pacebench.harness.store.load import load_results
from tests.harness.runner.plans import REPOSITORY, TRAIN, digests
from tests.harness.store.damages import DAMAGES, Damage

pytestmark = pytest.mark.slow

STUDY = """
name: tiny
question: Does it hold?
curricula: [default, spgl]
setups: [point-mass-2]
learner: ppo
seeds: {count: 2, root: 1}
budget: 8_192
evaluation: {points: 2, contexts: 20}
"""


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pacebench run` with the substitutes in the place of training."""
    cheap = functools.partial(launch.RunOptions, train=TRAIN, batched=lambda _: True)
    monkeypatch.setattr(launch, "RunOptions", cheap)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture(autouse=True, scope="module")
def _kept() -> Iterator[None]:
    with kept_workers():
        yield


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(180)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def call(*arguments: object) -> tuple[int, str]:
    """Calls the command line in this process; returns its exit code and what it said."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done.exit_code, done.output + done.stderr


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four runs, whole and undamaged."""
    folder = tmp_path_factory.mktemp("valid")
    (folder / "tiny.yaml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        cheap = functools.partial(launch.RunOptions, train=TRAIN, batched=lambda _: True)
        patch.setattr(launch, "RunOptions", cheap)
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        code, said = run(folder)
    assert code == 0, said
    assert len(digests(folder / "tiny")) == 4
    return folder


def run(folder: Path) -> tuple[int, str]:
    return call(
        *("run", folder / "tiny.yaml", "--results", folder, "--workers", 1),
        *("--heartbeat", 0.1, "--expiry", 1, "--no-share"),
    )


def load(root: Path) -> set[str]:
    """Returns how `load_results` judges the runs; refusals pass through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return set(load_results(root).runs["status"])


def test_there_are_many() -> None:
    names = [damage.name for damage in DAMAGES]
    assert len(names) == len(set(names)) >= 100


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_refused_or_made_good(damage: Damage, valid: Path, tmp_path: Path) -> None:
    shutil.copytree(valid, tmp_path, dirs_exist_ok=True)
    root = tmp_path / "tiny"
    before = digests(root)
    damage.mutate(root)

    if "load" in damage.refused_by:
        with pytest.raises(UserError):
            load(root)
    else:
        assert load(root) == ({"ok", "missing"} if damage.lost else {"ok"})

    # What is lost looks the same to every report, so a tenth of them will do.
    reported = "report" in damage.refused_by or DAMAGES.index(damage) % 10 == 0
    for command in ("status", "report") if reported else ("status",):
        code, said = call(command, root)
        assert "Traceback" not in said
        if command in damage.refused_by:
            assert code == 2, said
            assert said.startswith("error: "), said

    code, said = run(tmp_path)
    assert "Traceback" not in said
    if "run" in damage.refused_by:
        assert code == 2, said
        assert "error: " in said
    else:
        assert code == 0, said
        assert ("1 of them now" in said) or ("2 of them now" in said) or not damage.lost
        assert load(root) == {"ok"}
        loose = digests(root) if (root / "runs").exists() else {}
        assert loose.items() <= before.items()
