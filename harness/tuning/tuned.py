"""The tuned study: a plain study file with the chosen values, which points back to the record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pacebench.harness.store.files import write_atomic
from pacebench.harness.study.models import CurriculumEntry, Study, Tuned
from pacebench.harness.study.space import apply
from pacebench.harness.study.yaml_nodes import to_yaml
from pacebench.harness.tuning.record import SearchRecord, TuningRecord


def tuned_study(study: Study, record: TuningRecord, record_path: str) -> Study:
    """Returns the study with tuned methods in place of the ones they came from.

    With one replicate a method keeps its label. With more, each replicate is a method of its own,
    and the report treats the replicate as the unit where there are five or more.
    """
    found: dict[str, dict[int, list[SearchRecord]]] = {}
    for search in record.searches:
        found.setdefault(search.method, {}).setdefault(search.replicate, []).append(search)
    entries: list[CurriculumEntry] = []
    for entry in study.curricula:
        for replicate, parts in sorted(found.get(entry.shown, {}).items()):
            entries.append(_tuned(entry, replicate, parts, record, record_path))
        if entry.shown not in found:
            entries.append(entry)
    return study.model_copy(
        update={
            "name": f"{study.name}.tuned",
            "curricula": tuple(entries),
            "tuning": None,
            "statistics": _statistics(study, entries),
        }
    )


def _tuned(
    entry: CurriculumEntry,
    replicate: int,
    parts: list[SearchRecord],
    record: TuningRecord,
    record_path: str,
) -> CurriculumEntry:
    label = entry.shown if record.replicates == 1 else f"{entry.shown} (search {replicate + 1})"
    changed = entry
    for part in parts:
        changed = apply(changed, part.setup, part.point)
    origin = Tuned(method=entry.shown, replicate=replicate, record=record_path)
    return changed.model_copy(update={"label": label, "tuned": origin})


def _statistics(study: Study, entries: list[CurriculumEntry]) -> Any:
    """Returns the declared statistics with the labels of all replicates."""
    statistics = study.statistics
    names: dict[str, list[str]] = {}
    for entry in entries:
        origin = entry.tuned.method if entry.tuned else entry.shown
        names.setdefault(origin, []).append(entry.shown)
    control = names[study.control][0]
    if isinstance(statistics.comparisons, str):
        return statistics.model_copy(update={"control": control})
    pairs = tuple(
        (a, b)
        for first, second in statistics.comparisons
        for a, b in zip(names[first], names[second] * len(names[first]), strict=False)
    )
    return statistics.model_copy(update={"control": control, "comparisons": pairs})


def write_tuned(study: Study, source: Path, record: TuningRecord, record_file: Path) -> Path:
    """Writes `<name>.tuned.yaml` beside the study file."""
    path = source.with_name(f"{study.name}.tuned.yaml")
    pointer = os.path.relpath(record_file, path.parent)
    tuned = tuned_study(study, record, pointer)
    data = tuned.model_dump(mode="json", exclude_defaults=True)
    head = (
        f"# Written by `pacebench tune` from {source.name}; the evidence is in {pointer}.\n"
        "# A plain study: run it with `pacebench run`. Tuning has not seen its evaluation seeds.\n"
    )
    write_atomic(path, (head + to_yaml(data)).encode())
    return path
