"""Whether results are those of a study: two study files may have the same name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pacebench.harness.errors import UserError
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.manifest import Manifest, study_of
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell, canonical_json

# What the runs are made from. All else says how many there are and how they are judged, and may
# change without making them another study's.
_MADE_FROM = ("curricula", "setups", "learner", "budget", "evaluation", "schedule", "seeds.root")
_MOST_SHOWN = 5


def check_made_for(manifest: Manifest, study: Study, root: Path) -> list[str]:
    """Refuses results of other methods, setups or budgets than a study asks for.

    Returns:
        One sentence for each thing that the study says otherwise than it did when it was run.

    Raises:
        UserError: The results are of something else.
    """
    found = dict(_differences(study_of(manifest), study))
    if any(key == part or key.startswith(f"{part}.") for key in found for part in _MADE_FROM):
        raise UserError(
            f"{root}: these are results of another study, or of '{study.name}' before it was "
            f"changed. If it is the same study, `pacebench run` makes what is new; for what is "
            f"there, give the folder {root} instead of the study; else rename one of the two.",
            *list(found.values())[:_MOST_SHOWN],
        )
    return list(found.values())


def check_continues(study: Study, root: Path) -> None:
    """Refuses to add a study's runs to the results of another that has the same name.

    A study is known by its question, and by what it trains: the same question may be asked of more
    methods or with a larger budget, and a question may be put in better words.

    Raises:
        UserError: Neither is the same.
    """
    manifest = RunStore(root).manifest()
    if manifest is None:
        return
    before = study_of(manifest)
    if before.question == study.question:
        return
    known = {_trained(manifest.cells[entry.cell], entry.seed) for entry in manifest.entries}
    if known.isdisjoint(_trained(run.cell, run.seed) for run in expand(study)):
        raise UserError(
            f"{root}: holds the results of another study called '{study.name}', which asks another "
            "question and has no run in common with this one; change 'name:' in the study file, or "
            "give another --results folder.",
            *[said for _, said in _differences(before, study)][:_MOST_SHOWN],
        )


def plan_differences(before: Manifest, now: Manifest) -> list[str]:
    """Returns the first things that the plans of two manifests disagree about, in sentences."""
    studies = study_of(before), study_of(now)
    return [said for _, said in _differences(*studies)][:_MOST_SHOWN]


def _trained(cell: Cell, seed: RunSeed) -> str:
    """Returns what a run trains, whatever code it was or will be made by."""
    said = cell.model_dump(mode="json", exclude={"versions", "setup_digest"})
    return canonical_json({"cell": said, "seed": seed.model_dump(mode="json")})


def _differences(before: Study, now: Study) -> Iterator[tuple[str, str]]:
    """Yields each key that two studies disagree about, with a sentence on it."""
    old, new = (dict(_leaves("", _by_label(study))) for study in (before, now))
    for key in dict.fromkeys((*old, *new)):
        was, is_now = (json.dumps(said.get(key), ensure_ascii=False) for said in (old, new))
        if was != is_now:
            yield key, f"{key} was {_short(was)} and is now {_short(is_now)}."


def _by_label(study: Study) -> dict[str, Any]:
    """Returns a study as plain values, its curricula by their labels, so that their order is free.

    Where tuned values come from is no part of what is trained.
    """
    entries = {
        entry.shown: entry.model_dump(mode="json", exclude={"label", "tuned"})
        for entry in study.curricula
    }
    return {**study.model_dump(mode="json"), "curricula": entries}


def _leaves(path: str, data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), value)
    else:
        yield path, data


def _short(text: str) -> str:
    shown = "absent" if text == "null" else text
    return shown if len(shown) <= 80 else f"{shown[:77]} …"
