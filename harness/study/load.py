"""From a study file to a `Study`, or to an error that names every mistake in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pacebench.harness.errors import UserError
from pacebench.harness.study.checks import Finding, check_parts
from pacebench.harness.study.declared import DeclaredSetup, split_setups
from pacebench.harness.study.models import CurriculumEntry, Study
from pacebench.harness.study.overrides import Overrides
from pacebench.harness.study.yaml_nodes import KeyPath, YamlDocument, read_document
from pacebench.registry import nearest


def load_study(path: str | Path, overrides: Overrides | None = None) -> Study:
    """Reads and validates a study file.

    Args:
        path: A YAML file, or the name of a shipped study; see studies/ for examples and
            `pacebench schema` for the format.
        overrides: What to change in it.

    Raises:
        UserError: With one sentence for each mistake in the file.
    """
    path = Path(path)
    document = read_document(path if path.exists() else _shipped(path))
    study = validate(document)
    return validate(overrides.apply(document, study)) if overrides else study


def _shipped(path: Path) -> Path:
    """Returns the file of the shipped study of this name, or `path` itself if there is none."""
    shipped = Path(str(files("pacebench.studies"))) / f"{path}.yaml"
    return shipped if path.name == str(path) and shipped.exists() else path


def validate(document: YamlDocument) -> Study:
    """Validates a parsed document: its shape first, then what the registries say about it."""
    data = document.data
    if not isinstance(data, Mapping):
        raise UserError(document.sentence((), "a study is a mapping of keys; see studies/."))
    findings: list[Finding] = []
    study: Study | None = None
    try:
        study = Study.model_validate(data)
        parts: dict[str, Any] = {name: getattr(study, name) for name in Study.model_fields}
    except ValidationError as error:
        findings += [_explain(details, data) for details in error.errors(include_url=False)]
        parts = _valid_parts(split_setups(data))
    findings += check_parts(parts)
    if findings or study is None:
        ordered = sorted(findings, key=lambda finding: document.line(finding.path))
        raise UserError(*dict.fromkeys(document.sentence(f.path, f.text) for f in ordered))
    return study


def _valid_parts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sections that are valid by themselves, so that they can be checked further."""
    parts: dict[str, Any] = {}
    for name, info in Study.model_fields.items():
        if name not in data:
            if not info.is_required():
                parts[name] = info.default
            continue
        if name == "curricula":
            parts[name] = _valid_curricula(data[name])
            continue
        # `rebuild_annotation` keeps the constraints that stand beside the type.
        adapter: TypeAdapter[Any] = TypeAdapter(info.rebuild_annotation())
        try:
            parts[name] = adapter.validate_python(data[name])
        except ValidationError:
            continue
    return parts


def _valid_curricula(entries: Any) -> list[CurriculumEntry | None]:
    if not isinstance(entries, list):
        return []
    found: list[CurriculumEntry | None] = []
    for entry in entries:
        try:
            named = {"name": entry} if isinstance(entry, str) else entry
            found.append(CurriculumEntry.model_validate(named))
        except ValidationError:
            found.append(None)
    return found


def _explain(details: ErrorDetails, data: object) -> Finding:
    """Turns one of pydantic's findings into a key path and a sentence with a remedy."""
    path = tuple(_path_in(data, _as_written(details["loc"], data)))
    kind, value = details["type"], details["input"]
    if kind == "missing":
        return Finding(path, f"is missing; add '{path[-1]}:'.")
    if kind == "extra_forbidden":
        return Finding(path, f"is not a key we know; {nearest(path[-1], _siblings(path))}")
    if kind == "string_pattern_mismatch" and details["ctx"]["pattern"].startswith("^[^"):
        text = "is empty" if not value else f"{_shown(value)} has characters that are not shown"
        return Finding(path, f"{text}; leave control and direction characters out.")
    if kind == "string_pattern_mismatch":
        return Finding(
            path, f"{_shown(value)} cannot be used as a name; use letters, digits, '-' and '_'."
        )
    message = details["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = "" if isinstance(value, dict | list | tuple) else f", not {_shown(value)}"
    return Finding(path, f"{message}{given}.")


def _as_written(location: tuple[int | str, ...], data: Any) -> tuple[int | str, ...]:
    """Returns where something stands in the file: declared setups stand among the others."""
    if len(location) < 2 or location[0] != "declared":
        return location
    places = [i for i, entry in enumerate(data["setups"]) if isinstance(entry, Mapping)]
    return ("setups", places[int(location[1])], *location[2:])


def _shown(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _path_in(data: object, location: tuple[int | str, ...]) -> Iterator[str | int]:
    """Yields the keys of pydantic's location that are in the file: it names union branches too."""
    for i, key in enumerate(location):
        last = i == len(location) - 1
        if isinstance(data, Mapping) and isinstance(key, str) and (key in data or last):
            yield key
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            yield key
            data = data[key]
        elif isinstance(data, str) and last and isinstance(key, str):
            return


def _siblings(path: KeyPath) -> list[str]:
    """Returns the keys that may stand where `path` stands."""
    model: type[BaseModel] = Study
    for key in path[:-1]:
        if key == "setups":
            model = DeclaredSetup
        elif isinstance(key, str) and key in model.model_fields:
            model = _model_of(model.model_fields[key].annotation) or model
    return list(model.model_fields)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if (found := _model_of(argument)) is not None:
            return found
    return None
