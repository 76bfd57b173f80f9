"""The frozen plan: a hash of everything that must not change once evaluation runs have started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pacebench.harness.errors import UserError

REQUIRED = ("rule", "questions", "alpha", "smallest_effect", "ranges", "seeds", "anchors")


@dataclass(frozen=True)
class FrozenPlan:
    """A plan and its hash.

    Attributes:
        plan: JSON-able plan: estimands, family, smallest effects, runs, looks, anchors, …
        digest: SHA-256 of the plan in canonical JSON.
    """

    plan: dict[str, Any]
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, as they are written to disk."""
        return {"plan": self.plan, "digest": self.digest}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FrozenPlan:
        """Reads a plan back.

        Raises:
            UserError: If the plan was edited after it was frozen.
        """
        plan, digest = dict(record["plan"]), str(record["digest"])
        if plan_digest(plan) != digest:
            raise UserError(
                "The frozen plan does not match its hash: it was edited by hand; restore it, or "
                "freeze the study again and run it under a new name."
            )
        return cls(plan, digest)


@dataclass(frozen=True)
class Deviation:
    """One difference between the frozen plan and the study as it is now."""

    key: str
    frozen: Any
    current: Any

    def sentence(self) -> str:
        """Returns the difference in words."""
        return f"{self.key} was frozen as {_show(self.frozen)} and is now {_show(self.current)}."


_ABSENT = "(absent)"


def canonical(plan: Mapping[str, Any]) -> str:
    """Returns the plan as JSON that does not depend on the order of keys.

    Raises:
        UserError: If it holds something that JSON has no exact word for.
    """
    try:
        return json.dumps(plan, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"The plan cannot be written as JSON: {error}.") from error


def plan_digest(plan: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the canonical plan."""
    return hashlib.sha256(canonical(plan).encode()).hexdigest()


def freeze(plan: Mapping[str, Any]) -> FrozenPlan:
    """Freezes a plan.

    Raises:
        UserError: If the plan leaves open something that could be chosen after seeing the data.
    """
    lacking = [key for key in REQUIRED if key not in plan]
    if lacking:
        raise UserError(f"A plan cannot be frozen without {', '.join(lacking)}.")
    plain = json.loads(canonical(plan))
    return FrozenPlan(plain, plan_digest(plain))


def differences(frozen: Mapping[str, Any], current: Mapping[str, Any]) -> tuple[Deviation, ...]:
    """Returns every difference between a frozen plan and the present one, leaf by leaf."""
    return tuple(_differences("", dict(frozen), json.loads(canonical(current))))


def _differences(path: str, old: Any, new: Any) -> Iterable[Deviation]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(below, old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif old != new:
        yield Deviation(path, old, new)


def _show(value: Any) -> str:
    return "absent" if value == _ABSENT else json.dumps(value, ensure_ascii=False)
