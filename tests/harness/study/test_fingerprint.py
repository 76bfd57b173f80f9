"""Changed code never passes for the old: what is in a run id, and what is run again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pacebench.harness.study.expand import expand
from pacebench.harness.study.fingerprint import other_code, versions
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


def _install(site: Path, body: str, *, url: str | None = None, version: str = "1.0") -> None:
    """Lays a plugin out as pip would; with a URL it was installed from a folder."""
    (site / "my_plugin").mkdir(parents=True, exist_ok=True)
    (site / "my_plugin" / "__init__.py").write_text(PLUGIN.format(body=body))
    for old in site.glob("*.dist-info/*"):
        old.unlink()
    info = site / "my_plugin-0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: my-plugin\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[pacebench.curricula]\nmine = my_plugin:Mine\n")
    (info / "top_level.txt").write_text("my_plugin\n")
    if url is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {}}))


def _python(site: Path, *arguments: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def _fingerprint(site: Path) -> str:
    code = (
        "from pacebench.harness.study.fingerprint import versions; "
        "print(versions('mine', 'point-mass-1', 'ppo')['curriculum'])"
    )
    return _python(site, "-c", code, cwd=site)


def test_our_parts_are_known_by_their_numbers() -> None:
    found = versions("spgl", "lunar-lander", "ppo")
    assert set(found) == {"curriculum", "environment", "learner", "training"}
    assert all(re.fullmatch(r"pacebench \d+", code) for code in found.values())


def test_a_release_is_known_by_its_version(tmp_path: Path) -> None:
    _install(tmp_path, "x = 1")
    first = _fingerprint(tmp_path)
    assert first.startswith("my-plugin 1.0, on pacebench")
    _install(tmp_path, "x = 2")
    assert _fingerprint(tmp_path) == first
    _install(tmp_path, "x = 2", version="1.1")
    assert _fingerprint(tmp_path).startswith("my-plugin 1.1")


def test_a_package_installed_in_place_is_known_by_its_sources(tmp_path: Path) -> None:
    _install(tmp_path, "x = 1", url="file:///somewhere")
    first = _fingerprint(tmp_path)
    assert "sha256:" in first
    assert _fingerprint(tmp_path) == first
    (tmp_path / "my_plugin" / "helper.py").write_text("y = 1\n")
    assert _fingerprint(tmp_path) != first


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
def test_an_edited_plugin_is_run_again_and_nothing_else_is(tmp_path: Path) -> None:
    site = tmp_path / "site"
    _install(site, "x = 1", url="file:///somewhere")
    (tmp_path / "edited.yaml").write_text(json.dumps(STUDY))
    run = ("-m", "pacebench.harness", "run", "edited.yaml", "--workers", "1")
    assert "2 of them now" in _python(site, *run, cwd=tmp_path)
    assert "0 of them now" in _python(site, *run, cwd=tmp_path)
    _install(site, "x = 2", url="file:///somewhere")
    status = _python(site, "-m", "pacebench.harness", "status", "edited.yaml", cwd=tmp_path)
    assert "curriculum mine was my-plugin 1.0 sha256:" in status.replace("\n", " ")
    again = _python(site, *run, cwd=tmp_path)
    assert "1 of them now" in again
    assert "curriculum mine was my-plugin" in again


@pytest.mark.slow
def test_a_mistake_in_a_plugin_is_no_failure_of_its_method(tmp_path: Path) -> None:
    """Refused before it is run, or run and shown as broken; mended, it is run again by itself."""
    site, url = tmp_path / "site", "file:///somewhere"
    (tmp_path / "edited.yaml").write_text(json.dumps(STUDY))
    command = ("-m", "pacebench.harness")
    run = (*command, "run", "edited.yaml", "--workers", "1")
    _install(site, "def sample(self, n, rng): return self.tpyo", url=url)
    said = _python(site, *run, cwd=tmp_path, code=2)
    assert "mine on point-mass-2 cannot be trained: AttributeError: 'Mine' object has" in said
    assert "(__init__.py, line 7)" in said
    assert not (tmp_path / "results").exists()
    _install(site, "def _propose(self, contexts, values): return self.tpyo", url=url)
    said = _python(site, *run, cwd=tmp_path, code=1)
    assert "1 crashed-method" in said
    assert "2 of them now" in said
    assert "mine on point-mass-2 is broken: its only run crashed with AttributeError" in said
    assert "return self.tpyo" in said, "the last lines of the log"
    report = _python(site, *command, "report", "edited.yaml", "--json", cwd=tmp_path)
    (verdict,) = json.loads(report[: report.rindex("}") + 1])["verdicts"]
    assert verdict["verdict"] == "undecided"
    assert verdict["low"] is None
    assert not verdict["confirmatory"]
    assert verdict["sentence"] == (
        "On point-mass-2, mine and default are not compared: every run of mine on point-mass-2 "
        "crashed with AttributeError."
    )
    page = (tmp_path / "results/edited/report/index.html").read_text()
    assert "mine on point-mass-2 is broken" in page
    (tmp_path / "alone.yaml").write_text(
        json.dumps({**STUDY, "name": "alone", "curricula": ["mine"]})
    )
    alone = (*command, "run", "alone.yaml", "--workers", "1")
    assert "is broken" in _python(site, *alone, cwd=tmp_path, code=1)
    said = _python(site, *command, "report", "alone.yaml", cwd=tmp_path, code=2)
    assert "every run that ended crashed, mine on point-mass-2 with AttributeError" in said
    _install(site, "x = 1", url=url)
    assert "2 of 2 runs ended (2 ok), 1 of them now" in _python(site, *run, cwd=tmp_path)
