"""Which code makes a result: part of a run's id, so that changed code never passes for the old.

Our own parts carry a number that is raised by hand when their results change, because most edits
change none. A part of somebody else's package is known by that package's name and version; where
the package is not a release (installed in place, or a script), by a hash of its sources.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.study.specs import Cell, digest
from pacebench.registry import UnknownNameError

OURS = "pacebench"
# Raised when a change to training or evaluation alters results.
TRAINING = "1"
_NOT_TRAINING = {"doc", "source", "success", "anchors", "threshold", "min_return", "max_return"}
_NOT_TRAINING |= {"options", "reference_return"}


def versions(curriculum: str, setup: str | envs.Setup, learner: str) -> dict[str, str]:
    """Returns the code of each part that determines a run's result.

    Raises:
        UnknownNameError: A part is not registered.
    """
    # Not above: a runner whose cells are as they were has no use for SciPy.
    from pacebench import curricula

    paced, taught = curricula.get(curriculum), learners.get(learner)
    return {
        "curriculum": _code([paced.__module__], paced.result_version),
        "environment": _code(envs.environment_modules(setup), envs.result_version(setup)),
        "learner": _code([taught.__module__], taught.result_version),
        "training": f"{OURS} {TRAINING}",
    }


def other_code(cells: Iterable[Cell]) -> list[str]:
    """Returns one sentence for each part that was other code, when cells were run, than it is now.

    Changes of a setup's figures count as code, too.
    """
    return list(dict.fromkeys(sentence for cell in cells for sentence in _changes(cell)))


def _changes(cell: Cell) -> list[str]:
    if "environment" not in cell.versions:
        return ["these runs were made by an early pacebench, which did not note the code of parts"]
    names = {
        "curriculum": cell.curriculum.name,
        "environment": f"of {cell.setup}",
        "learner": cell.learner.name,
        "training": "",
    }
    try:
        now = versions(cell.curriculum.name, cell.task, cell.learner.name)
    except (UnknownNameError, envs.SetupError) as error:
        return [f"what made these runs is not installed: {error}"]
    found = [
        f"{f'{part} {names[part]}'.strip()} was {cell.versions[part]} and is now {code}"
        for part, code in now.items()
        if cell.versions[part] != code
    ]
    if cell.setup_digest != setup_digest(cell.task):
        found.append(f"the figures of setup {cell.setup} have changed")
    return found


def training_figures(setup: str | envs.Setup) -> dict[str, Any]:
    """Returns what a setup says about training.

    Words, anchors and the range of returns do not count; V₋ and options are parameters of the
    curricula that use them.
    """
    said = envs.setup(setup).to_dict()
    figures = {key: value for key, value in said.items() if key not in _NOT_TRAINING}
    if "gymnasium" in figures:
        # Where copies are stepped changes nothing.
        figures["gymnasium"]["processes"] = 0
    return figures


def setup_digest(setup: str | envs.Setup) -> str:
    """Returns the hash of what a setup says about training."""
    return digest(training_figures(setup))


def _code(modules: Iterable[str], number: str) -> str:
    packages = dict.fromkeys(module.partition(".")[0] for module in modules)
    outside = [_outside(package) for package in packages if package != OURS]
    # What it inherits from us may change as well.
    return f"{', '.join(outside)}, on {OURS} {number}" if outside else f"{OURS} {number}"


@functools.cache
def _outside(package: str) -> str:
    owner = _distribution(package)
    name = package if owner is None else f"{owner.name} {owner.version}"
    # pip notes where a distribution came from unless it is a release of a package index.
    if owner is not None and owner.read_text("direct_url.json") is None:
        return name
    return f"{name} sha256:{_hash_of_sources(package)}"


def _distribution(package: str) -> Distribution | None:
    owners = packages_distributions().get(package)
    return distribution(owners[0]) if owners else None


def _hash_of_sources(package: str) -> str:
    digest = hashlib.sha256()
    for name, path in _sources(package):
        digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _sources(package: str) -> list[tuple[str, Path]]:
    """Returns the source files of a package, or of a module that is a single file, by name."""
    spec = None if package == "__main__" else find_spec(package)
    if spec is not None and spec.submodule_search_locations is not None:
        homes = [Path(home) for home in spec.submodule_search_locations]
        return sorted(
            (path.relative_to(home).as_posix(), path)
            for home in homes
            for path in home.rglob("*.py")
        )
    file = getattr(sys.modules.get(package), "__file__", None) if spec is None else spec.origin
    return [(package, Path(file))] if file else []
