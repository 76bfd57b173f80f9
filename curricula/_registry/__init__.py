"""Names that outside packages may add to: one mechanism for curricula, setups and learners.

Installed as `pacebench.registry`, beside `curricula` and `envs`, which must not import each other.
What they share is therefore here, and so is the base class of all users' mistakes.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class UserMistakeError(Exception):
    """A mistake in what the user gave us; the command line prints the sentences and exits with 2.

    Attributes:
        sentences: One sentence per mistake: where it is, what is wrong, what to do.
    """

    def __init__(self, *sentences: str) -> None:
        self.sentences = sentences
        super().__init__("\n".join(sentences))


class UnknownNameError(UserMistakeError, LookupError):
    """A name that nothing is registered under; the message offers the nearest one."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        super().__init__(f"no {kind} is called {str(name)!r}; {nearest(name, known)}")


class DuplicateNameError(UserMistakeError, ValueError):
    """Two different things were registered under one name."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Returns what to say of an unknown name: the known one most like it, or else all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known) or 'none'}."


@dataclass
class Registry(Generic[T]):
    """Maps names to objects, our own first, then those of installed packages' entry points.

    Entry points are looked up when a name is asked for and loaded one by one, so that an outside
    package that cannot be imported makes only its own names unavailable.

    Attributes:
        kind: What is registered, in the singular, as error messages call it.
        group: The entry-point group through which outside packages register.
    """

    kind: str
    group: str
    _items: dict[str, T] = field(default_factory=dict)
    _origins: dict[str, str] = field(default_factory=dict)
    _modules: dict[str, str] = field(default_factory=dict)

    def register(self, name: str, *, origin: str = "pacebench") -> Callable[[T], T]:
        """Returns a decorator that registers its argument under `name`."""
        if not name or name != name.strip() or any(c.isspace() or c in "/\\" for c in name):
            raise ValueError(
                f"{name!r} cannot name a {self.kind}: no spaces or slashes, not empty."
            )

        def add(item: T) -> T:
            if name in self._items and self._items[name] is not item:
                raise DuplicateNameError(f"a {self.kind} called {name!r} is registered already.")
            self._items[name] = item
            self._origins.setdefault(name, origin)
            return item

        return add

    def unregister(self, name: str) -> None:
        """Removes `name`; for tests that register something of their own."""
        self._items.pop(name, None)
        self._origins.pop(name, None)

    def get(self, name: str) -> T:
        """Returns what is registered under `name`.

        Raises:
            UnknownNameError: Nothing is; the message names the nearest match.
            DuplicateNameError: Two packages have something of this name.
        """
        # Whatever else stands where a name is meant, such as a list, may not even be hashable.
        if isinstance(name, str):
            self._check_claims(name)
            if name not in self._items:
                self._load(only=name)
            if name in self._items:
                return self._items[name]
        raise UnknownNameError(self.kind, name, self.names())

    def names(self) -> list[str]:
        """Returns every name, ours in the order of registration, then the outside ones."""
        self._load()
        return list(self._items)

    def origin(self, name: str) -> str:
        """Returns the installed package that `name` comes from."""
        self.get(name)
        return self._origins[name]

    def module(self, name: str) -> str | None:
        """Returns the module that the entry point of `name` is in, if it has one."""
        return self._modules.get(name)

    @cached_property
    def _points(self) -> dict[str, list[EntryPoint]]:
        """The entry points of installed packages by name; one found twice counts once."""
        # Slow to import, and the command line imports this module before it can show its help.
        from importlib.metadata import entry_points

        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            same = found.setdefault(point.name, [])
            if point.value not in [other.value for other in same]:
                same.append(point)
        return found

    def _check_claims(self, name: object) -> None:
        """Refuses a name that two packages claim: which of them was meant cannot be known."""
        points = self._points.get(name, []) if isinstance(name, str) else []
        claims = [_origin(point) for point in points]
        if len(points) == 1 and self._origins.get(points[0].name) == "pacebench":
            # One of ours, unless the package's module was imported before we looked for it.
            try:
                same = points[0].load() is self._items[points[0].name]
            except Exception:  # noqa: BLE001 - what our name keeps from registering fails to load
                same = False
            claims += [] if same else ["pacebench"]
        if len(claims) > 1:
            raise DuplicateNameError(
                f"{' and '.join(claims)} each have a {self.kind} called {name!r}; uninstall one of "
                "them, or let it choose another name."
            )

    def _load(self, only: str | None = None) -> None:
        for name, points in self._points.items():
            if name not in self._items and (only is None or name == only):
                self._load_one(points[0])

    def _load_one(self, point: EntryPoint) -> None:
        origin = _origin(point)
        try:
            item = point.load()
        except Exception as error:  # noqa: BLE001 - an outside package may fail in any way
            warnings.warn(
                f"the {self.kind} {point.name!r} of {origin!r} could not be loaded: {error}",
                stacklevel=4,
            )
            return
        # Importing the module may have run the decorator already.
        if point.name not in self._items:
            self._items[point.name] = item
        self._origins[point.name] = origin
        self._modules[point.name] = point.module


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
