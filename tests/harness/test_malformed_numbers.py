"""Whatever is wrong with numbers, `analyse`, `export` and `merge` say it in a sentence."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from tests.harness.store.test_foreign_formats import EVENTS, TENSORBOARD

HEAD = "method,task,seed,score\n"
GOOD = HEAD + "a,t,0,0.1\na,t,1,0.2\nb,t,0,0.3\nb,t,1,0.4\n"
STEPS = "method,task,seed,step,score,success\n"
MONITOR = '#{"t_start": 0, "env_id": "X"}\n'


def npz(**arrays: object) -> Callable[[Path], None]:
    """Returns what writes arrays to a path."""
    return lambda path: np.savez(path, **arrays)  # type: ignore[arg-type]


def marl(run: object) -> str:
    return json.dumps({"env": {"task": {"method": {"seed_0": run}}}})


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../escape", "x")


# Name of the file, its content, the arguments (FILE stands for it), and what the sentence says.
CASES: list[tuple[str, str | bytes | Callable[[Path], None] | None, list[str], str]] = [
    ("x.csv", None, ["FILE"], "no such file"),
    ("x.csv", "", ["FILE"], "is empty"),
    ("x.csv", HEAD, ["FILE"], "holds no scores"),
    ("x.csv", "method,task,seed\na,t,0\n", ["FILE"], "no column 'score'"),
    ("x.csv", "method;task;seed;score\na;t;0;1\n", ["FILE"], "separate columns by commas"),
    ("x.csv", "algo,exp_name,task,seed,score\na,b,t,0,1\n", ["FILE"], "several columns"),
    ("x.csv", "method,task,seed,score,score\na,t,0,1,2\n", ["FILE"], "several columns"),
    ("x.csv", HEAD + "a,t,0\n", ["FILE"], "line 2: has 3 values"),
    ("x.csv", HEAD + "a,t,0,1,2\n", ["FILE"], "line 2: has 5 values"),
    ("x.csv", HEAD + "a,t,0,good\n", ["FILE"], "'good' is no number"),
    ("x.csv", HEAD + "a,t,0,inf\n", ["FILE"], "is infinite"),
    ("x.csv", HEAD + ",t,0,1\n", ["FILE"], "the method is empty"),
    ("x.csv", HEAD + "a,,0,1\n", ["FILE"], "the task is empty"),
    ("x.csv", HEAD + "a,t,,1\n", ["FILE"], "the seed is empty"),
    ("x.csv", HEAD + "a,t,0,1\na,t,0,2\n", ["FILE"], "line 3: 'a' on 't' has seed 0 twice"),
    ("x.csv", HEAD + '"a,t,0,1\n', ["FILE"], "is no CSV"),
    ("x.csv", b"\xff\xfe\x00", ["FILE"], "no text in UTF-8"),
    ("x.csv", HEAD + "a\u202eb,t,0,1\n", ["FILE"], "cannot be analysed"),
    ("x.csv", HEAD + f"{'a' * 81},t,0,1\n", ["FILE"], "cannot be analysed"),
    ("x.csv", GOOD.replace(",t,", ",suite,"), ["FILE"], "must not be called 'suite'"),
    ("x.csv", STEPS + "a,t,0,-5,1,\n", ["FILE"], "'-5' is no whole number"),
    ("x.csv", STEPS + "a,t,0,1.5,1,\n", ["FILE"], "'1.5' is no whole number"),
    ("x.csv", STEPS + "a,t,0,5,1,1.5\n", ["FILE"], "it is a share, 0 to 1"),
    ("x.csv", STEPS + "a,t,0,5,1,yes\n", ["FILE"], "'yes' is no number"),
    ("x.csv", GOOD, ["FILE", "--range", "0", "0.2"], "line 4: the score 0.3"),
    ("x.csv", GOOD, ["FILE", "--range", "1", "0"], "range 1 to 0 of 't' is none"),
    ("x.csv", GOOD, ["FILE", "--range", "nan", "1"], "is none"),
    ("x.csv", GOOD, ["FILE", "--task-range", "t=0"], "give TASK=LOW,HIGH"),
    ("x.csv", GOOD, ["FILE", "--task-range", "tt=0,1"], "no such task"),
    ("x.csv", GOOD, ["FILE", "--control", "aa"], "no method 'aa'"),
    ("x.csv", GOOD, ["FILE", "--compare", "a"], "give two methods"),
    ("x.csv", GOOD, ["FILE", "--compare", "a,c"], "no method 'c'"),
    ("x.csv", GOOD, ["FILE", "--compare", "a,a"], "with itself"),
    ("x.csv", GOOD, ["FILE", "--alpha", "0.9"], "statistics.alpha"),
    ("x.csv", GOOD, ["FILE", "--smallest-effect", "0"], "statistics.smallest_effect"),
    ("x.csv", GOOD, ["FILE", "--name", "../up"], "name"),
    ("x.csv", GOOD, ["FILE", "--suite"], "--suite"),
    ("x.csv", STEPS + "a,t,0,50,1,\n", ["FILE", "--step", "10"], "no score up to step 10"),
    ("x.csv", GOOD, ["FILE", "FILE"], "twice"),
    ("x.parquet", "PAR1", ["FILE"], "is no Parquet file"),
    ("x.txt", GOOD, ["FILE"], "no file of scores that we know"),
    ("x.pkl", b"\x80\x04N.", ["FILE"], "is a pickle"),
    ("x.json", "{", ["FILE"], "is no JSON"),
    ("x.json", "[" * 100_000, ["FILE"], "is no JSON"),
    ("x.json", "[1, 2]", ["FILE"], "is no dictionary"),
    ("x.json", "{}", ["FILE"], "is no dictionary"),
    ("x.json", '{"a": 3}', ["FILE"], "no matrix of runs and tasks"),
    ("x.json", '{"a": [[1, 2], [3]]}', ["FILE"], "is ragged"),
    ("x.json", '{"a": [[1, 2]], "b": [[1]]}', ["FILE"], "different numbers of tasks"),
    ("x.json", '{"a": [["x"]]}', ["FILE"], "'x' is no number"),
    ("x.json", '{"a": {"t": []}}', ["FILE"], "no list of scores"),
    ("x.json", marl({}), ["FILE"], "is no mapping"),
    ("x.json", marl({"absolute_metrics": {"return": [1]}}), ["FILE"], "has no step"),
    ("x.json", marl({"step_0": {"return": [1]}}), ["FILE"], "step_count"),
    ("x.json", marl({"step_0": {"step_count": 1, "p": [1], "q": [1]}}), ["FILE"], "it has p, q"),
    ("x.npz", b"PK\x03\x04", ["FILE"], "no file of plain arrays"),
    ("x.npz", npz(a=np.zeros(3)), ["FILE"], "no matrix of numbers"),
    ("x.npz", npz(a=np.array([["x"]])), ["FILE"], "no matrix of numbers"),
    ("evaluations.npz", npz(timesteps=[1], results=[[1.0]]), ["FILE"], "METHOD="),
    ("evaluations.npz", npz(results=[[1.0]]), ["a=FILE"], "no 'timesteps' and 'results'"),
    ("evaluations.npz", npz(timesteps=[1, 2], results=[[1.0]]), ["a=FILE"], "no matrix of"),
    ("evaluations.npz", npz(timesteps=[1], results=[[1.0]]), ["a/b/c/d=FILE"], "METHOD/TASK/SEED"),
    ("evaluations.npz", None, ["a=FILE"], "no such file"),
    ("monitor.csv", "r,l,t\n1,2,3\n", ["a=FILE"], "no comment in JSON"),
    ("monitor.csv", MONITOR + "x,y\n", ["a=FILE"], "no columns r, l and t"),
    ("monitor.csv", MONITOR + "r,l,t\n", ["a=FILE"], "holds no episode"),
    ("monitor.csv", MONITOR + "r,l,t\n1,,3\n", ["a=FILE"], "without return, length or time"),
    (EVENTS, b"not a log of anything", ["a=FILE"], "no TensorBoard event file"),
    (EVENTS, b"", ["a=FILE"], "holds no event"),
    (EVENTS, TENSORBOARD, ["a=FILE", "--metric", "x"], "no tag 'x' (it has eval/mean_reward"),
    ("folder", lambda path: path.mkdir(), ["FILE"], "holds no logs of runs"),
    ("folder", lambda path: (path / "manifest.json").mkdir(parents=True), ["FILE"], "report"),
]
OTHERS: list[tuple[str, str | bytes | Callable[[Path], None] | None, list[str], str]] = [
    ("x", None, ["export", "FILE"], "no such file"),
    ("x", lambda path: path.mkdir(), ["export", "FILE"], "no results here"),
    ("x", lambda path: path.mkdir(), ["export", "FILE", "--to", "excel"], "no format we know"),
    ("x", lambda path: path.mkdir(), ["export", "FILE", "--out", "FILE/.."], "is a folder with"),
    ("x.zip", None, ["merge", "FILE"], "no such file"),
    ("x.zip", b"no zip", ["merge", "FILE"], "is no packed study"),
    ("x.zip", zipped, ["merge", "FILE"], "is no packed study of ours"),
    ("x", lambda path: path.mkdir(), ["merge", "FILE"], "no packed study and no results folder"),
]


@pytest.mark.parametrize(
    ("name", "content", "arguments", "said"),
    [(n, c, ["analyse", *a, "--json"], s) for n, c, a, s in CASES] + OTHERS,
)
def test_bad_input_gets_a_sentence_and_exit_code_2(
    name: str,
    content: str | bytes | Callable[[Path], None] | None,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        content(path)
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(app, [a.replace("FILE", str(path)) for a in arguments])
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert lines[0].endswith((".", "?"))
    assert said in lines[0]
    assert len(lines) == 1
    assert sorted(tmp_path.rglob("*")) == before
