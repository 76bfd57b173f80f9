"""Changed code never passes for the old: what is in a run id, and what is run again."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench import curricula
from pacebench.curricula.registry import _REGISTRY
from pacebench.harness.cli import app
from pacebench.harness.study.expand import expand
from pacebench.harness.study.fingerprint import _outside, other_code, versions
from pacebench.harness.study.models import Study

PLUGIN = """
from pacebench import curricula

@curricula.register("mine")
class Mine(curricula.get("initial")):
    '''Never moves.'''
    {body}
"""
STUDY = {
    "name": "edited",
    "question": "Is an edited plugin run again?",
    "curricula": ["default", "mine"],
    "setups": ["point-mass-2"],
    "seeds": {"count": 1},
    "budget": 2048,
    "evaluation": {"points": 1, "contexts": 3},
    "learner": {"name": "ppo", "params": {"n_steps": 64}},
}


class Site:
    """A site-packages with one plugin, which this process and its workers find."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        patch.chdir(folder.parent)
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder))
        # Two edits within a second would share their bytecode.
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def install(self, body: str, *, url: str | None = None, version: str = "1.0") -> None:
        """Lays the plugin out as pip would; with a URL it was installed from a folder."""
        (self.folder / "my_plugin").mkdir(exist_ok=True)
        (self.folder / "my_plugin" / "__init__.py").write_text(PLUGIN.format(body=body))
        info = self.folder / "my_plugin-0.dist-info"
        shutil.rmtree(info, ignore_errors=True)
        info.mkdir()
        named = f"Metadata-Version: 2.1\nName: my-plugin\nVersion: {version}\n"
        (info / "METADATA").write_text(named)
        (info / "entry_points.txt").write_text("[pacebench.curricula]\nmine = my_plugin:Mine\n")
        (info / "top_level.txt").write_text("my_plugin\n")
        if url is not None:
            (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {}}))
        self.forget()

    def forget(self) -> None:
        """Makes this process look for the plugin again, as one that starts does."""
        sys.modules.pop("my_plugin", None)
        curricula.unregister("mine")
        vars(_REGISTRY).pop("_points", None)
        _outside.cache_clear()
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with monkeypatch.context() as patch:
        found = Site(tmp_path / "site", patch)
        yield found
    found.forget()


def _pacebench(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output
    return done.output


def _fingerprint() -> str:
    return versions("mine", "point-mass-1", "ppo")["curriculum"]


def test_our_parts_are_known_by_their_numbers() -> None:
    found = versions("spgl", "lunar-lander", "ppo")
    assert set(found) == {"curriculum", "environment", "learner", "training"}
    assert all(re.fullmatch(r"pacebench \d+", code) for code in found.values())


def test_a_release_is_known_by_its_version(site: Site) -> None:
    site.install("x = 1")
    first = _fingerprint()
    assert first.startswith("my-plugin 1.0, on pacebench")
    site.install("x = 2")
    assert _fingerprint() == first
    site.install("x = 2", version="1.1")
    assert _fingerprint().startswith("my-plugin 1.1")


def test_a_package_installed_in_place_is_known_by_its_sources(site: Site) -> None:
    site.install("x = 1", url="file:///somewhere")
    first = _fingerprint()
    assert "sha256:" in first
    site.forget()
    assert _fingerprint() == first
    (site.folder / "my_plugin" / "helper.py").write_text("y = 1\n")
    site.forget()
    assert _fingerprint() != first


def test_what_no_result_depends_on_changes_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """V₋ is a parameter of self-paced curricula; a control that ignores it keeps its runs."""
    from dataclasses import replace

    from pacebench import envs
    from pacebench.envs import registry

    study = Study.model_validate({**STUDY, "curricula": ["default", "spgl"]})
    before = [run.run_id for run in expand(study)]
    spec = envs.setup("point-mass-2")
    changed = replace(spec, threshold=spec.threshold + 1, max_return=1e9, doc="Other words.")
    monkeypatch.setitem(registry._setups._items, "point-mass-2", changed)
    after = [run.run_id for run in expand(study)]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False]


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("curriculum", "curriculum default was theirs 2 and is now pacebench 1"),
        ("environment", "environment of point-mass-2 was theirs 2 and is now pacebench 1"),
        ("learner", "learner ppo was theirs 2"),
        ("training", "training was theirs 2"),
    ],
)
def test_other_code_is_named(part: str, sentence: str) -> None:
    cell = expand(Study.model_validate({**STUDY, "curricula": ["default"]}))[0].cell
    assert other_code([cell]) == []
    changed = cell.model_copy(update={"versions": {**cell.versions, part: "theirs 2"}})
    (said,) = other_code([changed, changed])
    assert said.startswith(sentence)


def test_early_results_and_absent_parts_are_named() -> None:
    cell = expand(Study.model_validate({**STUDY, "curricula": ["default"]}))[0].cell
    early = cell.model_copy(update={"versions": {"curricula": "1", "envs": "1", "training": "1"}})
    assert "early pacebench" in other_code([early])[0]
    gone = cell.curriculum.model_copy(update={"name": "nobodys"})
    assert "not installed" in other_code([cell.model_copy(update={"curriculum": gone})])[0]
    moved = cell.model_copy(update={"setup_digest": "0"})
    assert other_code([moved]) == ["the figures of setup point-mass-2 have changed"]


@pytest.mark.slow
def test_an_edited_plugin_is_run_again_and_nothing_else_is(site: Site) -> None:
    site.install("x = 1", url="file:///somewhere")
    Path("edited.yaml").write_text(json.dumps(STUDY))
    run = ("run", "edited.yaml", "--workers", "1")
    assert "2 of them now" in _pacebench(*run)
    site.forget()
    assert "0 of them now" in _pacebench(*run)
    site.install("x = 2", url="file:///somewhere")
    status = _pacebench("status", "edited.yaml")
    assert "curriculum mine was my-plugin 1.0 sha256:" in status.replace("\n", " ")
    again = _pacebench(*run)
    assert "1 of them now" in again
    assert "curriculum mine was my-plugin" in again


@pytest.mark.slow
def test_a_mistake_in_a_plugin_is_no_failure_of_its_method(site: Site) -> None:
    """Refused before it is run, or run and shown as broken; mended, it is run again by itself."""
    url = "file:///somewhere"
    Path("edited.yaml").write_text(json.dumps(STUDY))
    run = ("run", "edited.yaml", "--workers", "1")
    site.install("def sample(self, n, rng): return self.tpyo", url=url)
    said = _pacebench(*run, code=2)
    assert "mine on point-mass-2 cannot be trained: AttributeError: 'Mine' object has" in said
    assert "(__init__.py, line 7)" in said
    site.install("def sample(self, n, rng): import os; os.kill(os.getpid(), 11)", url=url)
    said = _pacebench(*run, code=2)
    assert "cannot be made: the worker was killed by SIGSEGV." in said
    assert not Path("results").exists()
    site.install("def _propose(self, contexts, values): return self.tpyo", url=url)
    said = _pacebench(*run, code=1)
    assert "1 crashed-method" in said
    assert "2 of them now" in said
    assert "mine on point-mass-2 is broken: its only run crashed with AttributeError" in said
    assert "return self.tpyo" in said, "the last lines of the log"
    report = _pacebench("report", "edited.yaml", "--json")
    (verdict,) = json.loads(report[: report.rindex("}") + 1])["verdicts"]
    assert verdict["verdict"] == "undecided"
    assert verdict["low"] is None
    assert not verdict["confirmatory"]
    assert verdict["sentence"] == (
        "On point-mass-2, mine and default are not compared: every run of mine on point-mass-2 "
        "crashed with AttributeError."
    )
    page = Path("results/edited/report/index.html").read_text()
    assert "mine on point-mass-2 is broken" in page
    Path("alone.yaml").write_text(json.dumps({**STUDY, "name": "alone", "curricula": ["mine"]}))
    assert "is broken" in _pacebench("run", "alone.yaml", "--workers", "1", code=1)
    said = _pacebench("report", "alone.yaml", code=2)
    assert "every run that ended crashed, mine on point-mass-2 with AttributeError" in said
    site.install("x = 1", url=url)
    assert "2 of 2 runs ended (2 ok), 1 of them now" in _pacebench(*run)
