"""One registry mechanism for curricula, setups and learners, open to outside packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pacebench import curricula, envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.registry import DuplicateNameError, Registry, UnknownNameError, UserMistakeError

OUTSIDE = """
from pacebench import curricula

@curricula.register("outside-shy")
class Shy(curricula.get("initial")):
    '''Never moves, and comes from another package.'''
"""


def test_unknown_name_offers_the_nearest() -> None:
    registry: Registry[int] = Registry("thing", "pacebench.none")
    registry.register("spgl-shared")(1)
    registry.register("default")(2)
    with pytest.raises(
        UnknownNameError, match="no thing is called 'spgl-shard'; did you mean 'spgl-shared'"
    ):
        registry.get("spgl-shard")
    with pytest.raises(UnknownNameError, match="known: spgl-shared, default"):
        registry.get("zzz")
    for thing in ([], {}, None, 3):
        with pytest.raises(UnknownNameError, match="known: spgl-shared, default"):
            registry.get(thing)  # type: ignore[arg-type]


def test_one_name_cannot_stand_for_two_things() -> None:
    registry: Registry[int] = Registry("thing", "pacebench.none")
    registry.register("a")(1)
    registry.register("a")(1)
    with pytest.raises(DuplicateNameError, match="'a' is registered already"):
        registry.register("a")(2)


@pytest.mark.parametrize("name", ["", " a", "a b", "a/b", "a\\b", "a\n"])
def test_names_that_could_be_mistaken_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a thing"):
        Registry("thing", "pacebench.none").register(name)


def test_envs_curricula_and_learners_share_one_error() -> None:
    for ask in (envs.setup, curricula.get, learners.get):
        with pytest.raises(UnknownNameError):
            ask("nothing-of-this-name")
    assert envs.UnknownNameError is curricula.UnknownNameError is UnknownNameError


def test_every_mistake_of_a_user_has_sentences_and_its_builtin_class() -> None:
    for kind, builtin in (
        (curricula.CurriculumError, ValueError),
        (envs.SetupError, ValueError),
        (UserError, UserMistakeError),
    ):
        error = kind("One thing.")
        assert isinstance(error, UserMistakeError)
        assert isinstance(error, builtin)
        assert error.sentences == ("One thing.",)
        assert str(error) == "One thing."
    unknown = UnknownNameError("thing", "a", [])
    assert isinstance(unknown, UserMistakeError)
    assert isinstance(unknown, LookupError)
    assert unknown.sentences == ("no thing is called 'a'; known: none.",)


def _lay_out(folder: Path) -> Path:
    """An installed distribution, as pip would lay it out, that adds curricula to ours."""
    (folder / "shy_package.py").write_text(OUTSIDE)
    info = folder / "shy_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shy-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pacebench.curricula]\n"
        "outside-shy = shy_package:Shy\n"
        "outside-broken = shy_package_missing:Nothing\n"
    )
    return folder


@pytest.fixture
def outside_package(tmp_path: Path) -> Path:
    return _lay_out(tmp_path)


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What `pacebench list` says of the package."""
    return _pacebench("list", "--json", path=_lay_out(tmp_path_factory.mktemp("site")))


def _pacebench(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pacebench.harness", *arguments],
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_outside_package_adds_a_curriculum(
    listing: subprocess.CompletedProcess[str],
) -> None:
    assert listing.returncode == 0, listing.stderr
    listed = {entry["name"]: entry for entry in json.loads(listing.stdout)["curricula"]}
    assert listed["outside-shy"]["origin"] == "shy-package"
    assert listed["outside-shy"]["doc"].startswith("Never moves, and comes from another package")
    assert listed["spgl"]["origin"] == "pacebench"


def test_a_broken_outside_package_costs_only_its_own_names(
    listing: subprocess.CompletedProcess[str],
) -> None:
    assert listing.returncode == 0
    assert "outside-shy" in listing.stdout
    assert "outside-broken" not in listing.stdout
    assert "outside-broken" in listing.stderr
    assert "shy-package" in listing.stderr


@pytest.mark.parametrize("name", ["outside-shy", "spgl"])
def test_two_packages_with_one_name_are_told_apart_by_nobody(
    outside_package: Path, name: str
) -> None:
    """Another package's, and one of ours."""
    (outside_package / "twin_package.py").write_text(OUTSIDE.replace("outside-shy", name))
    info = outside_package / "twin_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: twin-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pacebench.curricula]\n{name} = twin_package:Shy\n")
    done = _pacebench("verify", name, path=outside_package)
    assert done.returncode == 2
    assert f"each have a curriculum called '{name}'; uninstall one" in done.stderr
    assert "twin-package" in done.stderr
    assert "Traceback" not in done.stderr
    others = _pacebench("verify", "initial", "--help", path=outside_package)
    assert others.returncode == 0
