"""Our results for other programs and back again, and results from other machines together."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pacebench import envs, harness
from pacebench.harness.analysis.tidy import TIDY_COLUMNS, tidy_scores
from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.records import EVALUATION_COLUMNS, RunResult, Status
from pacebench.harness.store.foreign.event_files import read_scalars
from pacebench.harness.store.foreign.sources import read_scores
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.merge import Merge
from pacebench.harness.store.pack import pack
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

SEEDS = 14
METHODS = (
    Method("default", 0.30, 0.05),
    Method("spgl", 0.85, 0.03, epsilon=0.05, status={2: "diverged", 6: "crashed-infrastructure"}),
)


def plan(**seeds: Any) -> Study:
    """Returns the study."""
    return synthetic.study(METHODS, ("point-mass-2",), **{"seeds": SEEDS, **seeds})


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results with a run that failed, one that was lost, and one that is not there yet."""
    study = plan()
    frames = synthetic.frames(METHODS, ("point-mass-2",), SEEDS, updates=2, plan=study)
    frames.runs.loc[(frames.runs.label == "default") & (frames.runs.seed == 12), "status"] = (
        "missing"
    )
    root = tmp_path_factory.mktemp("results") / study.name
    synthetic.store(root, study, frames)
    return root


def test_an_exported_table_gives_the_same_verdicts(root: Path, tmp_path: Path) -> None:
    ours = harness.analyse(root).verdicts()[0]
    setup = envs.setup("point-mass-2")
    assert setup.min_return is not None
    assert setup.max_return is not None
    effect = ours["beside"]["smallest_effect"] / (setup.max_return - setup.min_return)
    ends = (setup.min_return, setup.max_return)
    for form, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        path = tmp_path / f"out.{form}"
        call("export", root, "--to", form, "--out", path)
        table = read(path)
        assert tuple(table.columns) == TIDY_COLUMNS
        assert len(table) == 2 * SEEDS * 6
        pd.testing.assert_frame_equal(table, tidy_scores(root), check_dtype=False, rtol=0)
        (theirs,) = json.loads(
            call("analyse", path, "--range", *ends, "--smallest-effect", effect, "--json")
        )
        for name in ("task", "a", "b", "low", "high", "verdict", "n", "alpha"):
            assert theirs[name] == ours[name], name
        assert ours["n"] == 12  # up to the seed that is not there yet
        assert theirs["beside"]["lost"] == ours["beside"]["lost"] == 1


def test_other_programs_files_hold_the_scores(root: Path, tmp_path: Path) -> None:
    table = tidy_scores(root)
    last = table[table["step"] == table["step"].max()].set_index(["method", "seed"])
    call("export", root, "--to", "marl-eval", "--out", tmp_path / "marl.json")
    runs = json.loads((tmp_path / "marl.json").read_text())["synthetic"]["point-mass-2"]["spgl"]
    assert len(runs) == SEEDS - 1  # the lost run has no score
    assert runs["seed_3"]["absolute_metrics"]["return"] == [last.loc[("spgl", 3), "score"]]
    assert runs["seed_3"]["step_0"]["step_count"] == 10_000
    call("export", root, "--to", "tensorboard", "--out", tmp_path / "tb")
    scalars = read_scalars(next((tmp_path / "tb" / "spgl" / "point-mass-2" / "3").iterdir()))
    values = [s.value for s in scalars if s.tag == "eval/mean_reward"]
    own = table[(table["method"] == "spgl") & (table["seed"] == 3)]["score"]
    assert values == pytest.approx(own.to_numpy(), rel=1e-6)
    back = read_scores([tmp_path / "tb"]).rows
    assert len(back) == table["score"].notna().sum()
    call("export", root, "--to", "mlflow", "--out", tmp_path / "mlruns")
    metrics = list((tmp_path / "mlruns").glob("*/*/metrics/score"))
    assert len(metrics) == 2 * SEEDS - 2
    time, value, step = metrics[0].read_text().splitlines()[-1].split()
    assert (time, int(step)) == ("0", 60_000)
    assert float(value) in set(last["score"])
    result = CliRunner().invoke(app, ["export", str(root), "--to", "rliable", "--out", "x.json"])
    assert result.exit_code == 2
    assert "no score for every seed" in result.stderr


def test_a_complete_study_becomes_a_dictionary_of_rliables(tmp_path: Path) -> None:
    methods = tuple(Method(m.name, m.mean, m.spread, epsilon=m.epsilon) for m in METHODS)
    study = synthetic.study(methods, ("point-mass-1", "point-mass-2"), 4)
    frames = synthetic.frames(methods, study.setups, 4, updates=1, plan=study)
    root = tmp_path / study.name
    synthetic.store(root, study, frames)
    call("export", root, "--to", "rliable", "--out", tmp_path / "d.json")
    data = {k: np.array(v) for k, v in json.loads((tmp_path / "d.json").read_text()).items()}
    assert {name: matrix.shape for name, matrix in data.items()} == {
        "default": (4, 2),
        "spgl": (4, 2),
    }
    table = tidy_scores(root)
    one = table[(table["method"] == "spgl") & (table["task"] == "point-mass-2")].groupby("seed")
    assert data["spgl"][:, 1].tolist() == one["normalised"].last().tolist()


def machines(root: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Packs the even and the odd seeds of a study as two machines would have made them."""
    packed = []
    for parity in (0, 1):
        home = tmp_path / f"machine-{parity}" / root.name
        shutil.copytree(root, home)
        manifest = RunStore(home).manifest()
        assert manifest is not None
        for entry in manifest.entries:
            if entry.seed.index % 2 != parity:
                shutil.rmtree(home / "runs" / entry.run_id, ignore_errors=True)
        Ledger(home).append("finish", run="0" * 16, machine=parity)
        packed.append(pack(home, tmp_path / f"{parity}.zip"))
    return packed[0], packed[1]


def _records(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in root.glob("runs/*/run.json")}


def test_two_machines_runs_are_one_study_again(root: Path, tmp_path: Path) -> None:
    even, odd = machines(root, tmp_path)
    said = call("merge", even, odd, "--results", tmp_path / "all")
    merged = tmp_path / "all" / root.name
    assert f"{2 * SEEDS - 1} runs" in said
    assert _records(merged) == _records(root)
    assert tidy_scores(merged).equals(tidy_scores(root))
    entries = Ledger(merged).read()
    assert [e["machine"] for e in entries if "machine" in e] == [0, 1]
    assert [len(e["runs"]) for e in entries if e["event"] == "merge"] == [13, 14]
    # Once more: nothing is new.
    call("merge", even, odd, "--results", tmp_path / "all")
    assert _records(merged) == _records(root)
    assert len([e for e in Ledger(merged).read() if "machine" in e]) == 2


def test_what_does_not_belong_is_refused_and_nothing_is_written(root: Path, tmp_path: Path) -> None:
    even, _ = machines(root, tmp_path)
    results = tmp_path / "all"

    def refused(match: str, *sources: Path) -> None:
        with pytest.raises(UserError, match=match):
            list(Merge([even, *sources], results).write())
        assert not list(results.glob("*/manifest.json"))

    other = plan(smallest_effect=0.2)
    frames = synthetic.frames(METHODS, ("point-mass-2",), SEEDS, updates=1, plan=other)
    synthetic.store(tmp_path / "asked-otherwise" / other.name, other, frames)
    refused("another study", tmp_path / "asked-otherwise" / other.name)

    # The same plan, expanded by other code: other cells, other run ids.
    code = tmp_path / "other-code" / root.name
    store = RunStore(code)
    old = RunStore(root).manifest()
    assert old is not None
    runs = [
        run.model_copy(
            update={"cell": run.cell.model_copy(update={"versions": {"training": "another"}})}
        )
        for run in expand(plan())
    ]
    store.extend_manifest(old.study, old.plan, runs)
    refused("other code", code)

    # One run that both have, with other bytes.
    conflict = tmp_path / "conflict" / root.name
    shutil.copytree(root, conflict)
    changed = RunStore(conflict)
    run = next(run for run in expand(plan()) if run.label == "default" and run.seed.index == 4)
    found = synthetic.frames(METHODS, ("point-mass-2",), SEEDS, updates=3, plan=plan())
    one = found.runs[(found.runs.label == "default") & (found.runs.seed == 4)]["run_id"].iloc[0]
    episodes = found.evaluations[found.evaluations["run_id"] == one].copy()
    result = RunResult(
        seed=run.seed,
        status=Status.OK,
        reason="",
        env_steps=60_000,
        evaluations={name: episodes[name].tolist() for name in EVALUATION_COLUMNS},
        updates={},
        timings={},
        policy={},
    )
    shutil.rmtree(conflict / "runs" / run.run_id)
    changed.write(run, result, {"attempts": 1})
    refused(f"{run.run_id} is there already with other results", conflict)

    damaged = tmp_path / "damaged" / root.name
    shutil.copytree(root, damaged)
    (damaged / "runs" / run.run_id / "evaluations.parquet").write_bytes(b"torn")
    refused("is damaged", damaged)


def test_a_run_that_the_machine_failed_is_taken_from_where_it_was_made(
    root: Path, tmp_path: Path
) -> None:
    good = tmp_path / "good" / root.name
    methods = (METHODS[0], replace(METHODS[1], status={2: "diverged"}))
    frames = synthetic.frames(methods, ("point-mass-2",), SEEDS, updates=2, plan=plan())
    synthetic.store(good, plan(), frames)
    results = tmp_path / "all"
    shutil.copytree(root, results / root.name)
    list(Merge([pack(good, tmp_path / "good.zip")], results).write())
    statuses = harness.load_results(results / root.name).runs["status"].value_counts()
    assert statuses.to_dict() == {"ok": 27, "diverged": 1} | {
        k: v for k, v in statuses.items() if not v
    }
