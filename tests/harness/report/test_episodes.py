"""Pictures of episodes and diagnostics of the learner, from runs that were really trained."""

from __future__ import annotations

import base64
import io
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pacebench.harness.report.document import Pictures, Text
from pacebench.harness.report.gather import gather
from pacebench.harness.report.render import page
from pacebench.harness.report.sections.episodes import episodes, film_episodes
from pacebench.harness.report.sections.learner import learner
from pacebench.harness.report.sections.order import document
from pacebench.harness.store.ledger import Ledger, now
from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import by_cell
from pacebench.harness.training import train


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two short runs, with their policies."""
    study = Study.model_validate(
        {
            "name": "tiny",
            "question": "What does an episode look like?",
            "curricula": ["spgl"],
            "setups": ["point-mass-2"],
            "seeds": {"count": 2, "root": 3},
            "budget": 1_000,
            "evaluation": {"points": 1, "contexts": 2},
        }
    )
    store = RunStore(tmp_path_factory.mktemp("results") / "tiny")
    planned = expand(study)
    store.extend_manifest(study.name, study.model_dump(mode="json"), planned)
    for runs in by_cell(planned):
        for run, result in zip(runs, train(runs[0].cell, [r.seed for r in runs]), strict=True):
            store.write(run, result, {"attempts": 1, "seconds": 1.0, "finished": now()})
    return store.root


def test_a_solved_and_a_failed_run_of_a_cell_are_filmed(root: Path) -> None:
    data = gather(root, load_results(root), Ledger(root))
    runs = data.runs.assign(solved=[1.0, 0.0])
    solved, failed = film_episodes(root, data.study, runs)
    assert solved.text.startswith("point-mass-2, seed 0: run solved; return ")
    assert failed.text.startswith("point-mass-2, seed 1: run not solved; return ")
    content = base64.b64decode(solved.source.removeprefix("data:image/png;base64,"))
    assert Image.open(io.BytesIO(content)).width == 168
    assert len(content) < 20_000


def test_the_page_holds_the_pictures_of_what_there_is(root: Path) -> None:
    data = gather(root, load_results(root), Ledger(root))
    # A thousand steps solve nothing: there is a run that failed, and none that solved the task.
    (picture,) = data.episodes
    assert "run not solved" in picture.text
    blocks = episodes(data).blocks
    assert any(isinstance(block, Pictures) for block in blocks)
    assert picture.source in page(document(data, [episodes]), data.styles)


def test_without_policies_a_sentence_says_so(root: Path, tmp_path: Path) -> None:
    # A copy: the other tests look at the policies, in whatever order.
    without = shutil.ignore_patterns("policy.safetensors")
    root = shutil.copytree(root, tmp_path / root.name, ignore=without)
    data = gather(root, load_results(root), Ledger(root))
    (block,) = episodes(data).blocks
    assert isinstance(block, Text)
    assert "hold no policies" in block.text


def test_the_learner_tells_of_its_policy_updates(root: Path) -> None:
    """Table and figures hold what the runs recorded."""
    data = gather(root, load_results(root), Ledger(root))
    recorded = [RunStore(root).diagnostics(run).to_pandas() for run in data.runs["run_id"]]
    told = learner(data)
    assert told is not None
    table, fold = told.blocks
    (row,) = table.rows
    ends = [run["entropy"].iloc[-1] for run in recorded]
    assert row["entropy"] == pytest.approx(np.median(ends))
    assert row["runs"] == 2
    names = {figure.name for figure in fold.blocks[0].figures}
    assert {"learner-entropy-point-mass-2", "learner-gradient_norm-point-mass-2"} <= names
    # Runs from before there were diagnostics have no such section.
    assert learner(replace(data, diagnostics=data.diagnostics.iloc[:0])) is None
