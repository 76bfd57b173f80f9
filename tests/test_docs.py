"""The documents: links lead somewhere, the tutorial and the notebook run as they are printed."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "results/README.md"])
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NOTEBOOK = ROOT / "docs/notebook.ipynb"


def _anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub and the site name them."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def _dead_links(text: str, folder: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\((?![a-z]+:)([^)\s]*)\)", FENCE.sub("", text)):
        name, _, anchor = link.partition("#")
        there = folder / name
        if name and not there.exists():
            dead.append(link)
        elif anchor:
            target = there.read_text(encoding="utf-8") if name else text
            if anchor not in _anchors(target):
                dead.append(link)
    return dead


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert _dead_links(path.read_text(encoding="utf-8"), path.parent) == []


def test_dead_links_are_seen() -> None:
    text = "# A head\n[good](#a-head) [bad](#a-tail) [gone](docs/gone.md) [README](README.md#gone)"
    assert _dead_links(text, ROOT) == ["#a-tail", "docs/gone.md", "README.md#gone"]


def test_every_page_is_in_the_site() -> None:
    site = (ROOT / "docs/site/conf.py").read_text(encoding="utf-8")
    pages = {f"docs/{path.stem}" for path in [*ROOT.glob("docs/*.md"), NOTEBOOK]}
    assert pages == set(re.findall(r"^docs/[\w-]+$", site, re.MULTILINE))


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed, from an empty folder; only the sizes are smaller."""
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    study = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    assert len(study.splitlines()) <= 15
    for printed, smaller in {
        "{start: 10, step: 5, max: 20}": "{count: 2}",
        "81_920": "4_096\nevaluation: {points: 2, contexts: 4}",
    }.items():
        assert printed in study
        study = study.replace(printed, smaller)
    monkeypatch.chdir(tmp_path)
    Path("pendulum.yaml").write_text(study, encoding="utf-8")
    commands = re.findall(r"^\$ pacebench (.*)$", text, re.MULTILINE)
    said = {}
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command, comments=True))
        assert done.exit_code == 0, (command, done.output)
        said[command.split()[0]] = done.output
    assert list(said) == ["check", "freeze", "run", "status", "report"]
    assert "6 runs" in said["check"]
    assert "? undecided" in said["report"]
    # What the tutorial says where to find.
    summary = json.loads(Path("results/pendulum/report/summary.json").read_text(encoding="utf-8"))
    assert {entry["verdict"] for entry in summary["verdicts"]} == {"undecided"}
    assert "Exploratory" not in said["report"]
    for name in re.findall(r"`(results/pendulum/[^`]+)`", text):
        assert Path(name).exists(), name


def _execute(source: str, names: dict[str, Any]) -> str:
    """Runs a cell and returns what a notebook would show of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), names)
    if last is None:
        return ""
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
    return "" if value is None else repr(value)


def _but_for_numbers(text: str) -> list[str]:
    return re.sub(r"[-−]?\b\d[\d.]*(e[+-]?\d+)?|NaN", "#", text).split()


def test_the_notebook_shows_what_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            assert _dead_links("".join(cell["source"]), NOTEBOOK.parent) == []
            continue
        shown = _execute("".join(cell["source"]), names)
        stored = "".join("".join(out["data"]["text/plain"]) for out in cell["outputs"])
        assert _but_for_numbers(shown) == _but_for_numbers(stored)
    assert names["summary"].made == 6
