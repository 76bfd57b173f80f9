"""docs/architecture.md is a map, and a map must be true; so must the contracts on imports."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STEP = re.compile(r"^(\d+)\. `([^`]+)` `(\w+)`: ", re.MULTILINE)


def _steps() -> list[tuple[str, str]]:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    found = STEP.findall(text)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    return [(file, name) for _, file, name in found]


def test_the_path_of_a_study_is_short() -> None:
    assert 25 < len(_steps()) <= 40


@pytest.mark.parametrize(("file", "name"), _steps())
def test_every_name_on_the_path_is_defined_where_the_map_says(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_name_on_the_path_is_used_further_up() -> None:
    steps = _steps()
    for i, (file, name) in enumerate(steps[1:], start=1):
        # By its module, or by the package that offers it.
        places = {Path(file).stem, Path(file).parent.name}
        above = [
            (ROOT / earlier).read_text(encoding="utf-8")
            for earlier, _ in steps[:i]
            if earlier != file
        ]
        assert any(name in t and any(p in t for p in places) for t in above), (file, name)


def test_the_picture_of_the_rooms_is_what_is_checked() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawn = [
        re.findall(r"\w+", line[: line.rindex("│")]) for line in re.findall("^│.*", text, re.M)
    ]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    around, inside, _ = (contract.get("layers", []) for contract in contracts["contracts"])
    layers = [*inside, *(layer.replace("pacebench.", "") for layer in around[1:])]
    assert drawn == [layer.split(" | ") for layer in layers]


def test_an_upward_import_breaks_a_contract(tmp_path: Path) -> None:
    """The linter sees a planted import of a higher room, and a module that is in no room."""
    for name in ("curricula", "envs", "harness", "pyproject.toml"):
        there = ROOT / name
        copy = shutil.copytree if there.is_dir() else shutil.copy
        copy(there, tmp_path / name)
    home = tmp_path / "site" / "pacebench"
    home.mkdir(parents=True)
    for name in ("curricula", "envs", "harness"):
        (home / name).symlink_to(tmp_path / name)
    (home / "registry").symlink_to(tmp_path / "curricula" / "_registry")
    assert _lint(tmp_path) == 0
    planted = tmp_path / "harness" / "statistics" / "planted.py"
    planted.write_text("from pacebench.harness.report.make import report\n")
    assert _lint(tmp_path) == 1
    planted.unlink()
    (tmp_path / "harness" / "loose.py").write_text("")
    assert _lint(tmp_path) == 1


def _lint(folder: Path) -> int:
    code = (
        f"import sys; sys.path.insert(0, {str(folder / 'site')!r}); "
        "from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return done.returncode


def test_no_two_public_types_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for room in ("curricula", "envs", "harness"):
        for path in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
