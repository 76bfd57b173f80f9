"""Storages: the journal, a real PostgreSQL server, and what is said when one does not answer."""

from __future__ import annotations

import inspect
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import optuna
import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.study.space import PRUNERS, SAMPLERS, sampler_names
from pacebench.harness.study.specs import digest
from pacebench.harness.tuning.launch import tune
from pacebench.harness.tuning.record import read_record
from pacebench.harness.tuning.storage import make_pruner, make_sampler, open_storage
from tests.harness.tuning.plans import load, plan
from tests.harness.tuning.substitutes import HERE

# Options of Optuna's that are left alone: functions and objects, what is deprecated, and warnings.
LEFT = {
    *("seed", "constraints_func", "warn_independent_sampling", "independent_sampler"),
    *("consider_prior", "prior_weight", "consider_magic_clip", "consider_endpoints"),
    *("gamma", "weights", "categorical_distance_func", "mutation", "crossover"),
    *("elite_population_selection_strategy", "child_generation_strategy", "after_trial_strategy"),
    *("x0", "sigma0", "restart_strategy", "popsize", "inc_popsize", "source_trials"),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_option_of_every_sampler_is_given_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option that a version of Optuna adds must be pinned too, or be known to be left alone."""
    kind = getattr(optuna.samplers, name)
    assert set(inspect.signature(kind).parameters) - LEFT == set(SAMPLERS[name])
    if name in sampler_names():
        given = mock.Mock(wraps=kind)
        monkeypatch.setattr(optuna.samplers, name, given)
        make_sampler(name, 7)
        assert given.call_args.kwargs == {"seed": 7, **SAMPLERS[name]}


def test_every_option_of_the_pruner_is_given_by_name() -> None:
    name, options = PRUNERS["wilcoxon"]
    assert set(inspect.signature(getattr(optuna.pruners, name)).parameters) == set(options)
    assert vars(make_pruner("wilcoxon")) == {f"_{k}": v for k, v in options.items()}


# What the samplers proposed under Optuna 4.9 and 5.0 alike, as a hash of 80 trials.
PROPOSED = {
    "TPESampler": "380cd97d7e6a6e8a",
    "RandomSampler": "32dba7f6a95ea3ae",
    "NSGAIISampler": "b6e46b0186a7060a",
    "CmaEsSampler": "45f222d45fc8b83e",
}


@pytest.mark.parametrize("name", sampler_names())
def test_searches_are_the_same_under_every_version_of_optuna(name: str) -> None:
    study = optuna.create_study(direction="maximize")
    kinds = optuna.distributions
    space: dict[str, Any] = {
        "epsilon": kinds.FloatDistribution(0.005, 0.24, log=True),
        "threshold": kinds.FloatDistribution(0.05, 0.9),
        "updates": kinds.IntDistribution(5, 103, log=True),
    }
    for number in range(80):
        study.sampler = make_sampler(name, 1000 + number)
        trial = study.ask(space)
        place = trial.params
        study.tell(trial, -abs(place["updates"] - 40) / 100 - (place["threshold"] - 0.3) ** 2)
    rounded = [
        {key: float(f"{value:.9g}") for key, value in trial.params.items()}
        for trial in study.get_trials(deepcopy=False)
    ]
    assert digest(rounded) == PROPOSED[name]


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


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?user=me&password=secret",
        "sqlite://me:secret@host/file.db",
    ],
)
def test_passwords_are_not_shown_nor_taken_from_the_command_line(tmp_path: Path, url: str) -> None:
    with pytest.raises(UserError) as caught:
        open_storage(tmp_path, url)
    assert "secret" not in str(caught.value)
    _, file = load(tmp_path, plan())
    result = CliRunner().invoke(app, ["tune", str(file), "--storage", url])
    assert result.exit_code == 2
    assert "PACEBENCH_STORAGE" in result.stderr
    assert "secret" not in result.output


def test_a_study_without_tuning_block(tmp_path: Path) -> None:
    data = plan()
    del data["tuning"]
    _, file = load(tmp_path, data)
    result = CliRunner().invoke(app, ["tune", str(file)])
    assert result.exit_code == 2
    assert "has no 'tuning:' block" in result.stderr


class Server(NamedTuple):
    """A PostgreSQL server: the URL with its password, and how to stop and start it."""

    url: str
    control: Callable[..., None]


@pytest.fixture
def postgresql() -> Iterator[Server]:
    """A server that runs for one test."""
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

        def control(*command: str) -> None:
            started = ["-l", str(data / "server.log"), "-o", where] if "start" in command else []
            subprocess.run(
                [*user, binaries / "pg_ctl", "-D", data / "db", *started, "-w", *command],
                check=True,
                cwd="/",
                stdout=subprocess.DEVNULL,
            )

        secret = data / "password"
        secret.write_text("swordfish")
        secret.chmod(0o644)
        initdb = [*user, binaries / "initdb", "-D", data / "db", "-U", "tuner", "-A", "md5"]
        subprocess.run(
            [*initdb, f"--pwfile={secret}"], check=True, cwd="/", stdout=subprocess.DEVNULL
        )
        control("start")
        try:
            yield Server(f"postgresql://tuner:swordfish@127.0.0.1:{port}/postgres", control)
        finally:
            control("-m", "immediate", "stop")


# The command line, training replaced by something slow enough to restart a server meanwhile.
SLOWLY = f"""
from dataclasses import replace
from pacebench.harness.cli import main
from pacebench.harness.tuning import launch
tune = launch.tune
def slowly(*arguments, options, **others):
    return tune(*arguments, options=replace(options, train="{HERE}:slow_hill"), **others)
launch.tune = slowly
main()
"""


@pytest.mark.slow
def test_postgresql_is_restarted_and_its_password_stays_secret(
    tmp_path: Path, postgresql: Server
) -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed")
    tuned = {"curricula": ["spgl"], "trials": 3, "rerank": 1}
    _, file = load(tmp_path / "study", plan(**tuned))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOWLY, "tune", file, "--results", file.parent / "results"],
        env={**os.environ, "PACEBENCH_STORAGE": postgresql.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    runs = file.parent / "results" / "tiny" / "tuning"
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(runs.glob("*/runs/*/run.json")):
        time.sleep(0.05)
    postgresql.control("-m", "immediate", "restart")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    artefacts = [path for path in file.parent.rglob("*") if path.is_file()]
    assert len(artefacts) > 20
    assert not [path for path in artefacts if b"swordfish" in path.read_bytes()]
    assert "swordfish" not in output + listed.stdout
    record = read_record(runs / "record.json")
    assert record.options["sampler"] == SAMPLERS["TPESampler"]
    calm, file = load(tmp_path / "journal", plan(**tuned))
    options = RunOptions(train=f"{HERE}:hill", workers=2)
    plain = tune(calm, file, results=tmp_path / "journal" / "results", options=options)
    assert record.searches[0].trials == plain.record.searches[0].trials
