"""Objects by name, `module:attribute`: a spec stays plain text, and workers find the same."""

from __future__ import annotations

import importlib
from typing import Any

from pacebench.envs.errors import SetupError


def import_object(location: str, what: str) -> Any:
    """Returns the object that `module:attribute` names.

    Raises:
        SetupError: It cannot be imported.
    """
    module, _, attribute = location.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SetupError(
            f"{what} {location!r} cannot be imported ({error}); is the package that provides it "
            "installed?"
        ) from error
    return found


def location_of(found: Any, what: str) -> str:
    """Returns the `module:attribute` under which a class or function can be imported again.

    Raises:
        SetupError: It is of a script, a lambda or local, so workers could not import it.
    """
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        raise SetupError(
            f"{what} {found!r} cannot be imported by worker processes; define it at the top level "
            "of a module that is installed or on PYTHONPATH."
        )
    return f"{module}:{name}"
