"""A study with some of its values changed on the command line: another study, under another name.

The changes go into the study's name and, with everything else, into its plan, so that the results
of a changed study never mix with those of the study as its file says.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pacebench.harness.errors import UserError
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import digest
from pacebench.harness.study.yaml_nodes import YamlDocument, parse_document
from pacebench.registry import nearest

_LONGEST_NAME = 80


@dataclass(frozen=True)
class Overrides:
    """What the command line asks to change.

    Attributes:
        values: Assignments such as `budget=20000` or `curricula.spgl.epsilon=0.1`.
        only: Labels and setups to keep; all of a kind that none is named of.
    """

    values: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    seeds: int | None = None

    def __bool__(self) -> bool:
        return bool(self.values or self.only or self.seeds is not None)

    def apply(self, document: YamlDocument, study: Study) -> YamlDocument:
        """Returns the document of a study with the changes, under the name that they give it.

        Raises:
            UserError: A change cannot be made.
        """
        data = copy.deepcopy(document.data)
        changes: dict[str, Any] = {}
        for assignment in self.values:
            key, separator, text = assignment.partition("=")
            if not separator or not key:
                raise UserError(f"--set {assignment}: write KEY=VALUE, such as budget=20000.")
            value = parse_document(f"[{text}]", f"--set {key}").data
            if not isinstance(value, list) or len(value) != 1 or key in ("name", *changes):
                raise UserError(f"--set {assignment}: give a key but the name one value, once.")
            _assign(data, key, value[0], study)
            changes[key] = value[0]
        if self.only:
            changes["only"] = _keep(data, self.only, study)
        if self.seeds is not None:
            data["seeds"] = {"root": study.seeds.root, "count": self.seeds}
            changes["seeds"] = self.seeds
        data["name"] = _name(study.name, changes)
        return replace(document, data=data)


def _assign(data: dict[str, Any], key: str, value: Any, study: Study) -> None:
    """Sets the value of a key such as `statistics.alpha`; a curriculum goes by its label."""
    first, *rest = key.split(".")
    if first == "curricula" and len(rest) > 1:
        label, *rest = rest
        if label not in study.labels:
            raise UserError(f"--set {key}: no curriculum '{label}'; {nearest(label, study.labels)}")
        entries, i = data["curricula"], study.labels.index(label)
        place = entries[i] = {"name": entries[i]} if isinstance(entries[i], str) else entries[i]
    else:
        place, rest = data, [first, *rest]
    for part in rest[:-1]:
        # A plain name stands for an entry: `learner: ppo` is {name: ppo}.
        inner = place.get(part)
        place[part] = {"name": inner} if isinstance(inner, str) else inner if inner else {}
        place = place[part]
        if not isinstance(place, dict):
            raise UserError(f"--set {key}: '{part}' has no keys; set it as a whole.")
    place[rest[-1]] = value


def _keep(data: dict[str, Any], only: Sequence[str], study: Study) -> list[str]:
    """Leaves out the curricula and setups that are not named, and the questions about them."""
    known = (*study.labels, *study.setups)
    for name in only:
        if name not in known:
            raise UserError(f"--only {name}: not in the study; {nearest(name, known)}")
    labels = [label for label in study.labels if label in only] or list(study.labels)
    setups = [setup for setup in study.setups if setup in only] or list(study.setups)
    if study.control not in labels:
        raise UserError(f"--only: keep '{study.control}', which the others are compared with.")
    data["setups"] = [
        entry for entry, name in zip(data["setups"], study.setups, strict=True) if name in setups
    ]
    data["curricula"] = [
        _on(setups, entry)
        for entry, label in zip(data["curricula"], study.labels, strict=True)
        if label in labels
    ]
    if most := data["seeds"].get("at_most"):
        data["seeds"]["at_most"] = {name: n for name, n in most.items() if name in setups}
    _keep_questions(data.get("statistics") or {}, labels, setups)
    if data.get("tuning"):
        tuned = [label for label in data["tuning"]["curricula"] if label in labels]
        space = data["tuning"].get("space") or {}
        kept = {label: part for label, part in space.items() if label in labels}
        data["tuning"] = {**data["tuning"], "curricula": tuned, "space": kept} if tuned else None
    return [name for name in known if name in only]


def _on(setups: Sequence[str], entry: Any) -> Any:
    """Returns a method without what it says of setups that are left out."""
    if not isinstance(entry, dict) or "per_setup" not in entry:
        return entry
    kept = {name: part for name, part in entry["per_setup"].items() if name in setups}
    return {**entry, "per_setup": kept}


def _keep_questions(
    statistics: dict[str, Any], labels: Sequence[str], setups: Sequence[str]
) -> None:
    """Leaves out the pools and comparisons that nothing is left of."""
    names = set(labels)
    if pools := statistics.get("pools"):
        kept = {name: pool for name, pool in pools.items() if set(pool) <= names}
        statistics["pools"], names = kept, names | set(kept)
    if not isinstance(statistics.get("comparisons"), list):
        return
    found = []
    for question in statistics["comparisons"]:
        said = dict(question) if isinstance(question, dict) else {"pair": question}
        if asked := said.get("setups"):
            said["setups"] = [name for name in asked if name in setups]
            if not said["setups"]:
                continue
        if set(said["pair"]) <= names:
            found.append(said)
    statistics["comparisons"] = found


def _name(name: str, changes: dict[str, Any]) -> str:
    """Returns the name of the changed study: readable, and its own whatever was shortened."""
    parts = [
        re.sub(r"[^A-Za-z0-9_-]+", "-", f"{key}-{_spelt(value)}").strip("-")
        for key, value in sorted(changes.items())
    ]
    tag = digest(changes)[:6]
    room = _LONGEST_NAME - len(name) - len(tag) - 2
    return f"{name}.{'.'.join(parts)[: max(room, 3)].rstrip('.')}.{tag}"


def _spelt(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)
