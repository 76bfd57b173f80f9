"""Where measured anchors are kept: beside the module of their setup, or in the user's folder.

One file holds the anchors of several setups by name. What a setup was when they were measured is
kept with them, so that anchors of other figures are not taken for its own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pacebench.envs.errors import SetupError
from pacebench.envs.setup import Anchors, Setup

NAME = "anchors.json"
# Words, anchors, V₋ and what curricula do change no policy's score on the target.
_ELSEWHERE = {"doc", "source", "success", "anchors", "threshold", "min_return", "max_return"}
_ELSEWHERE |= {"options", "initial", "initial_mean", "initial_variance", "reference_return"}


def user_file() -> Path:
    """Returns the file in the user's configuration folder, `PACEBENCH_CONFIG` if that is set."""
    folder = os.environ.get("PACEBENCH_CONFIG")
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return (Path(folder) if folder else base / "pacebench") / NAME


def files(module: str | None) -> list[Path]:
    """Returns where anchors of a setup that `module` registers may be, best first."""
    try:
        found = find_spec(module) if module else None
    except (ImportError, ValueError):
        found = None
    beside = [Path(found.origin).with_name(NAME)] if found and found.origin else []
    return [*beside, user_file()]


def find_anchors(spec: Setup, module: str | None) -> Anchors | None:
    """Returns the anchors that were measured for just this setup, if there are any.

    Raises:
        SetupError: A file of anchors cannot be read.
    """
    for path in files(module):
        stored = _stored(path).get(spec.name)
        if stored is not None and stored.get("figures", _figures(spec)) == _figures(spec):
            return Anchors.from_dict(stored)
    return None


def write_anchors(spec: Setup, anchors: Anchors, module: str | None) -> Path:
    """Records a setup's anchors, atomically; returns the file.

    That is the one beside its module, or the user's where that folder cannot be written to.
    """
    path = next((p for p in files(module) if os.access(p.parent, os.W_OK)), user_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {**_stored(path), spec.name: {**asdict(anchors), "figures": _figures(spec)}}
    text = json.dumps(dict(sorted(stored.items())), indent=2, ensure_ascii=False)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text + "\n", encoding="utf-8")
    os.replace(fresh, path)
    return path


def _figures(spec: Setup) -> str:
    said = {key: value for key, value in spec.to_dict().items() if key not in _ELSEWHERE}
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stored(path: Path) -> dict[str, Any]:
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return {}
    return _read(path, changed)


@functools.lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(entry, dict) for entry in stored.values()):
            raise ValueError("it is no mapping of setups to their anchors")
    except (OSError, ValueError, AttributeError) as error:
        raise SetupError(
            f"the anchors in '{path}' cannot be read ({error}); delete the file and measure them "
            "again with pacebench anchors."
        ) from None
    return dict(stored)
