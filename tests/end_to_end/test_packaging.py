"""The wheel: whole, and at home in a laboratory that has an `envs` and a `harness` of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("curricula", "envs", "harness", "studies")


def _run(*command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages with our wheel beside other people's `envs`, `curricula` and `harness`."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in (*FOLDERS, "pyproject.toml", "README.md", "LICENSE"):
        there = ROOT / name
        if there.is_dir():
            shutil.copytree(there, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(there, source / name)
    target = folder / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target))
    done = _run(*pip, str(source), cwd=folder)
    assert done.returncode == 0, done.stderr
    for name in ("envs", "curricula", "harness"):
        (target / name).mkdir()
        (target / name / "__init__.py").write_text(f"OWNER = 'somebody else: {name}'\n")
    return target


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        f"pacebench.{init.parent.relative_to(ROOT).as_posix().replace('/', '.')}"
        for name in FOLDERS
        for init in (ROOT / name).rglob("__init__.py")
    }
    # The registry stands in curricula/ and is installed beside it.
    found = found - {"pacebench.curricula._registry"} | {"pacebench.registry"}
    assert set(listed["packages"]) == found


def test_every_file_of_the_packages_is_in_the_wheel(site: Path) -> None:
    command = ["git", "ls-files", *FOLDERS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.splitlines() if "_registry" not in name]
    assert len(names) > 300
    assert [name for name in names if not (site / "pacebench" / name).is_file()] == []


def test_the_wheel_lives_beside_other_packages_of_the_same_names(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("OWNER = 'the laboratory'\n")
    code = (
        "import envs, harness\n"
        "from pacebench import curricula, envs as ours\n"
        "print(envs.OWNER, '|', harness.OWNER, '|', curricula.__file__)\n"
        "print(len(curricula.names()), len(ours.names()), ours.make('point-mass-1').reset())\n"
    )
    done = _run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the laboratory | somebody else: harness |")
    assert str(site / "pacebench" / "curricula") in done.stdout


def test_shipped_studies_are_found_by_name_from_an_empty_folder(site: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "pacebench.harness", "check", "quick", "--no-estimate")
    done = _run(*command, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert "At most 90 runs" in done.stdout
    missing = _run(*command[:-2], "quikc", cwd=tmp_path, PYTHONPATH=str(site))
    assert missing.returncode == 2
    assert "no such file" in missing.stderr


def test_the_documented_curriculum_is_verified_from_its_own_package(
    site: Path, tmp_path: Path
) -> None:
    """It holds no Gaussian, takes less than 40 lines, and keeps what it promises."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    assert 20 < len(example.splitlines()) < 40
    wheel, info = tmp_path / "lately-1.0-py3-none-any.whl", "lately-1.0.dist-info"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("lately.py", example)
        for name, content in (
            ("METADATA", "Metadata-Version: 2.1\nName: lately\nVersion: 1.0\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("entry_points.txt", "[pacebench.curricula]\nlately-solved = lately:LatelySolved\n"),
            ("RECORD", ""),
        ):
            archive.writestr(f"{info}/{name}", content)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    done = _run(*pip, "--target", str(tmp_path / "site"), str(wheel), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    command = ("verify", "lately-solved", "--examples", "20", "--json")
    path = f"{tmp_path / 'site'}{os.pathsep}{site}"
    done = _run(
        *(sys.executable, "-m", "pacebench.harness", *command), cwd=tmp_path, PYTHONPATH=path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {p["property"]: p["held"] for p in json.loads(done.stdout)["properties"]}
    assert {"inside-bounds", "bounded-memory", "record", "state", "wrong-input"} <= set(found)
    assert not {"trust-region", "convergence"} & set(found)


@pytest.mark.parametrize("name", ["curricula", "envs", "harness"])
def test_a_checkout_gives_no_second_copy(name: str) -> None:
    done = _run(sys.executable, "-c", f"import {name}", cwd=ROOT)
    assert done.returncode == 1
    assert f"pacebench.{name} is its name" in done.stderr
