"""What `from pacebench import harness` offers."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacebench import envs, harness
from pacebench.harness.errors import UserError
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.training.evaluation import held_out_contexts
from tests.harness.report import synthetic

NAMES = ["analyse", "load_results", "load_study", "report", "run", "status", "verdicts"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = synthetic.study(synthetic.METHODS, ("point-mass-2",), 3)
    frames = synthetic.frames(synthetic.METHODS, study.setups, 3, updates=4, plan=study)
    root = tmp_path_factory.mktemp("results") / study.name
    synthetic.store(root, study, frames)
    return root


def test_it_shows_what_it_offers_and_says_what_each_does() -> None:
    assert dir(harness) == NAMES
    for name in NAMES:
        function = getattr(harness, name)
        assert inspect.isfunction(function)
        assert len(inspect.getdoc(function) or "") > 60


def test_context_vectors_are_columns(root: Path) -> None:
    results = harness.load_results(root)
    setup = envs.setup("point-mass-2")
    cell = next(iter(results.manifest.cells.values()))
    drawn = held_out_contexts(setup, cell.evaluation)
    columns = [f"context_{name}" for name in setup.context_names]
    last = results.evaluations.groupby("run_id", observed=True).tail(len(drawn))
    one = last[last["run_id"] == last["run_id"].iloc[0]]
    assert np.array_equal(one[columns].to_numpy(), drawn[one["context"].to_numpy()])
    for kind in ("mean", "std"):
        apart = results.updates[[f"{kind}_{name}" for name in setup.context_names]].to_numpy()
        assert np.array_equal(apart, np.array(results.updates[kind].tolist()))
    assert repr(results) == (
        f"<Results of synthetic: 9 runs, {len(results.evaluations):,} evaluations, 36 updates>"
    )


def test_verdicts_are_a_frame_and_looking_is_noted(root: Path) -> None:
    looks = len([e for e in Ledger(root).entries() if e["event"] == "report"])
    analysis = harness.analyse(root)
    assert len([e for e in Ledger(root).entries() if e["event"] == "report"]) == looks + 1
    found = harness.verdicts(analysis)
    assert isinstance(found, pd.DataFrame)
    assert list(zip(found["a"], found["b"], strict=True)) == [
        ("spdl", "default"),
        ("spgl", "default"),
    ]
    assert found["low"].tolist() == [v["low"] for v in analysis.verdicts()]
    assert len(repr(analysis)) < 80
    with pytest.raises(UserError, match="stands in their study"):
        harness.analyse(root, bounds=(0, 1))


def test_how_far_a_study_is(root: Path) -> None:
    study = synthetic.study(synthetic.METHODS, ("point-mass-2",), 3)
    by_study, by_folder = harness.status(study, results=root.parent), harness.status(root)
    assert by_study == by_folder
    assert (by_folder.whole.done, by_folder.whole.total, by_folder.complete) == (9, 9, True)
    with pytest.raises(UserError, match="no results here"):
        harness.status(root / "runs")
