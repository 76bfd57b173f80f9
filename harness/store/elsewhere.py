"""The runs of a packed study that are left to other studies, which have them, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

ELSEWHERE = "elsewhere.json"

# Names alone: neither may lead out of the results folder.
_LEFT = TypeAdapter(
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")],
        list[Annotated[str, StringConstraints(pattern="^[0-9a-f]{1,64}$")]],
    ]
)


def elsewhere(keepers: Mapping[str, str]) -> dict[str, bytes]:
    """Returns the file that says which run is left to which study, if any is."""
    left: dict[str, list[str]] = {}
    for run_id, study in sorted(keepers.items()):
        left.setdefault(study, []).append(run_id)
    return {ELSEWHERE: json.dumps(left, indent=1).encode() + b"\n"} if left else {}


def left_runs(content: bytes) -> dict[str, list[str]]:
    """Returns the runs that the file names, by study.

    Raises:
        ValueError: It is none of ours.
    """
    return _LEFT.validate_json(content)
