"""The tuned study: a plain study file with the chosen values, which points back to the record."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from pacebench.harness.store.files import write_atomic
from pacebench.harness.study.models import CurriculumEntry, Statistics, Study, Tuned
from pacebench.harness.study.space import apply
from pacebench.harness.study.yaml_nodes import to_yaml
from pacebench.harness.tuning.record import TuningRecord


def tuned_study(study: Study, record: TuningRecord, record_path: str) -> Study:
    """Returns the study with tuned methods in place of the ones they came from.

    With one replicate a method keeps its label. With more, each replicate is a method of its own,
    and the report treats the replicate as the unit where there are five or more.
    """
    tuned = {search.method for search in record.searches}
    entries: list[CurriculumEntry] = []
    for entry in study.curricula:
        if entry.shown in tuned:
            entries += [_tuned(entry, i, record, record_path) for i in range(record.replicates)]
        else:
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
    entry: CurriculumEntry, replicate: int, record: TuningRecord, record_path: str
) -> CurriculumEntry:
    """Returns a method with what one replicate of its searches chose for each setup."""
    label = entry.shown if record.replicates == 1 else f"{entry.shown} (search {replicate + 1})"
    changed = entry
    for search in record.searches:
        if (search.method, search.replicate) == (entry.shown, replicate):
            changed = apply(changed, search.setup, search.point)
    origin = Tuned(method=entry.shown, replicate=replicate, record=record_path)
    return changed.model_copy(update={"label": label, "tuned": origin})


def _statistics(study: Study, entries: list[CurriculumEntry]) -> Statistics:
    """Returns the declared statistics with the labels of all replicates."""
    statistics = study.statistics
    names: dict[str, list[str]] = {}
    for entry in entries:
        origin = entry.tuned.method if entry.tuned else entry.shown
        names.setdefault(origin, []).append(entry.shown)
    changes: dict[str, object] = {"control": names[study.control][0]}
    if not isinstance(statistics.comparisons, str):
        # Replicate by replicate, or every replicate with the one there is of an untuned method.
        changes["comparisons"] = tuple(
            declared.model_copy(update={"pair": pair})
            for declared in statistics.comparisons
            for pair in zip(
                names[declared.pair[0]], itertools.cycle(names[declared.pair[1]]), strict=False
            )
        )
    return statistics.model_copy(update=changes)


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
