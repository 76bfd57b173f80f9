"""The command line: quick to answer, plain outside a terminal, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.cli.app import COMMANDS as FUNCTIONS
from pacebench.harness.study.schema import schema_text

ROOT = Path(__file__).parents[2]
COMMANDS = [function.__name__.rstrip("_") for function in FUNCTIONS]
HEAVY = (
    "torch",
    "pandas",
    "matplotlib",
    "numpy",
    "scipy",
    "mujoco",
    "gymnasium",
    "stable_baselines3",
)


def _pacebench(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pacebench.harness", *arguments],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from pacebench.harness.cli import app\n"
        "try:\n"
        "    app(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"pacebench {name}" in re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    assert "Example:" in result.output


def test_no_colour_outside_a_terminal() -> None:
    done = _pacebench("list")
    assert done.returncode == 0, done.stderr
    assert "\x1b[" not in done.stdout


def test_list_names_everything_registered() -> None:
    from pacebench import curricula, envs
    from pacebench.harness import learners

    listed = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)
    for kind, names in (
        ("curricula", curricula.names()),
        ("setups", envs.names()),
        ("learners", learners.names()),
    ):
        assert [entry["name"] for entry in listed[kind]] == names
        assert all(len(entry["doc"]) > 20 for entry in listed[kind])


def test_unknown_command_and_option_exit_with_2() -> None:
    assert CliRunner().invoke(app, ["chekc"]).exit_code == 2
    assert CliRunner().invoke(app, ["list", "--jsn"]).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("verify", "spgll"), "error: no curriculum is called 'spgll'; did you mean 'spgl'?\n"),
        (("anchors", "moon"), "error: no setup is called 'moon'; known: "),
        (("render", "point-mass-2", "--out", "x.png", "--context", "1,2"), "error: "),
        (("check", "none.yaml"), "error: none.yaml: no such file; "),
        (("check", "no\x1b[2Jne.yaml"), "error: no\\u001b[2Jne.yaml: no such file; "),
        (("run", "quick", "--results", "README.md"), "error: "),
        (("run", "quick", "--memory-limit", "1e400"), "error: --memory-limit inf: is no number"),
        (("overhead", "--compare", "no/folder"), "error: no/folder/summary.json is missing"),
        (("check", "quick", "--only", "spg"), "error: --only spg: not in the study; did you mean"),
    ],
)
def test_mistakes_get_a_sentence_and_exit_with_2(arguments: tuple[str, ...], sentence: str) -> None:
    """Whether a curriculum, an environment or the harness noticed the mistake."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(sentence)


def test_the_committed_schema_is_the_generated_one() -> None:
    committed = ROOT / "docs/study.schema.json"
    assert committed.read_text() == schema_text(), "run `make derived`"


def test_check_shows_cells_runs_and_what_can_be_detected() -> None:
    check = ["check", str(ROOT / "studies/quick.yaml"), "--no-estimate"]
    done = CliRunner().invoke(app, [*check, "--json"])
    assert done.exit_code == 0, done.stderr
    plan = json.loads(done.stdout)
    assert [cell["curriculum"] for cell in plan["cells"]] == ["default", "initial", "spgl"]
    assert plan["runs"] == sum(cell["runs"] for cell in plan["cells"])
    assert plan["env_steps"] == sum(cell["env_steps"] for cell in plan["cells"])
    clear, equal = plan["fewest"]
    assert 5 < clear < equal
    text = CliRunner().invoke(app, check).stdout
    assert "point-mass-2" in text
    assert "the clearest difference takes" in " ".join(text.split())


@pytest.mark.slow
def test_check_estimates_the_time_by_training() -> None:
    done = CliRunner().invoke(app, ["check", str(ROOT / "studies/quick.yaml"), "--json"])
    assert done.exit_code == 0, done.stderr
    assert 0 < json.loads(done.stdout)["seconds"] < 3600


def _wait_for_training(pid: int) -> None:
    """Waits until a process has loaded torch, and then a little: it trains by then."""
    maps = Path(f"/proc/{pid}/maps")
    end = time.monotonic() + 120
    while time.monotonic() < end and maps.exists() and "libtorch" not in maps.read_text():
        time.sleep(0.05)
    time.sleep(0.3)


def test_interrupt_leaves_no_traceback() -> None:
    # Each training is short, and all together take so long that the signal never comes too late.
    setups = ("--only", "point-mass-1", "--only", "point-mass-2", "--only", "lunar-lander")
    process = subprocess.Popen(
        [sys.executable, "-m", "pacebench.harness", "check", "studies/paper.yaml", *setups],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    _wait_for_training(process.pid)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert "Traceback" not in stderr
    # With `-m`, CPython ends by the signal itself, which shells show as 130 too, if the signal came
    # inside exec() of a string (importing a dataclass runs one), although the exception was caught.
    assert process.returncode in (130, -signal.SIGINT)


def test_completion_knows_the_commands() -> None:
    done = _pacebench(
        _PACEBENCH_COMPLETE="complete_bash", COMP_WORDS="pacebench che", COMP_CWORD="1"
    )
    # `python -m pacebench.harness` is known to the shell as `pacebench` once installed.
    installed = subprocess.run(
        [Path(sys.executable).parent / "pacebench"],
        env={
            **os.environ,
            "_PACEBENCH_COMPLETE": "complete_bash",
            "COMP_WORDS": "pacebench che",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "check" in installed.stdout, (done.stdout, installed.stderr)


def test_the_version() -> None:
    asked, command = (CliRunner().invoke(app, [word]) for word in ("--version", "version"))
    assert asked.exit_code == 0
    assert asked.output == command.output
    assert re.fullmatch(r"pacebench \d+\.\d+.*\n", asked.output)


def test_help_can_be_read_on_80_columns() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "80"}).output
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("Seconds of training that a " in line for line in lines)
    assert any("--share" in line and "--no-share" in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("check", "quick", "--no-estimate"),
        ("plan", "--help"),
        ("status", "results/point-mass"),
    ],
)
def test_terminals_without_unicode(arguments: tuple[str, ...]) -> None:
    """Also of what a report prints: the commands print by way of the same two functions."""
    plain = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = _pacebench(*arguments, **plain)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    if arguments[0] == "check":
        assert "epsilon" in done.stdout
        assert "V-" in done.stdout


def test_what_others_wrote_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pacebench.harness.cli.output import console, say_json

    evil = "a\x1b[31mb\u202ec\x9b2Jd\x07e"
    table = Table("label")
    table.add_row(Text(evil))
    console().print(table)
    console().print(f"Note: {evil}", markup=False)
    say_json({"label": evil})
    shown = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert json.loads(shown[shown.index("{") :]) == {"label": evil}
