"""Storages: the journal, a real PostgreSQL server, and what is said when one does not answer."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.study.space import sampler_names
from pacebench.harness.tuning.launch import tune
from pacebench.harness.tuning.storage import make_sampler, open_storage
from tests.harness.tuning.plans import load, plan
from tests.harness.tuning.substitutes import HERE


@pytest.mark.parametrize("name", sampler_names())
def test_every_offered_sampler_can_be_made(name: str) -> None:
    assert make_sampler(name, 0) is not None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://nobody@127.0.0.1:1/none", "does not answer"),
        ("not a url", "not a storage URL"),
        ("nonsense://host/name", "does not answer .Can.t load plugin"),
    ],
)
def test_storages_that_do_not_answer(tmp_path: Path, url: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        open_storage(tmp_path, url)
    _, file = load(tmp_path, plan())
    result = CliRunner().invoke(
        app, ["tune", str(file), "--storage", url, "--results", str(tmp_path / "results")]
    )
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: --storage")
    assert "Traceback" not in result.output


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        open_storage(tmp_path, "postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


def test_a_study_without_tuning_block(tmp_path: Path) -> None:
    data = plan()
    del data["tuning"]
    _, file = load(tmp_path, data)
    result = CliRunner().invoke(app, ["tune", str(file)])
    assert result.exit_code == 2
    assert "has no 'tuning:' block" in result.stderr


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL server that runs for one test."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL's server is not installed (Debian's package: postgresql)")
    binaries = found[-1].parent
    # The server refuses to run as root, and pytest's own folders are closed to everybody else.
    user = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="pacebench-") as name, socket.socket() as probe:
        data = Path(name)
        if user:
            shutil.chown(data, "nobody")
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        where = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -F"
        control = [*user, binaries / "pg_ctl", "-D", data]
        for command in (
            [*user, binaries / "initdb", "-D", data, "-U", "tuner", "-A", "trust"],
            [*control, "-l", data / "server.log", "-o", where, "-w", "start"],
        ):
            subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)
        try:
            yield f"postgresql://tuner@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run(
                [*control, "-m", "immediate", "stop"],
                check=True,
                cwd="/",
                stdout=subprocess.DEVNULL,
            )


@pytest.mark.slow
def test_postgresql(tmp_path: Path, postgresql: str) -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed")
    study, file = load(tmp_path / "study", plan(curricula=["spgl"], trials=3))
    options = RunOptions(train=f"{HERE}:hill", workers=2)
    results = tmp_path / "study" / "results"
    summary = tune(study, file, results=results, storage=postgresql, options=options)
    journal, file = load(tmp_path / "journal", plan(curricula=["spgl"], trials=3))
    plain = tune(journal, file, results=tmp_path / "journal" / "results", options=options)
    assert [t.point for t in summary.record.searches[0].trials] == [
        t.point for t in plain.record.searches[0].trials
    ]
