"""Which setups and environments exist, and how one is made from its name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from pacebench.envs.base import BatchEnv, ContextSource
from pacebench.envs.errors import SetupError
from pacebench.envs.setup import Setup
from pacebench.envs.single import ContextualEnv
from pacebench.envs.streams import Seed
from pacebench.registry import Registry

_setups: Registry[Setup] = Registry("setup", "pacebench.setups")
_versions: dict[str, str] = {}
_environments: Registry[str | type[BatchEnv]] = Registry("environment", "pacebench.environments")


def names() -> list[str]:
    """Returns the names of all setups, ours first."""
    return _setups.names()


def setup(name: str | Setup) -> Setup:
    """Returns the frozen spec of a setup.

    Raises:
        UnknownNameError: There is none of this name; the message offers the nearest.
    """
    return name if isinstance(name, Setup) else _setups.get(name)


def origin(name: str) -> str:
    """Returns the distribution that a setup comes from."""
    return _setups.origin(name)


def register(spec: Setup) -> Setup:
    """Adds a setup; outside packages may instead offer one in the group `pacebench.setups`."""
    return _setups.register(spec.name)(spec)


def unregister(name: str) -> None:
    """Forgets a setup that was registered by hand."""
    _setups.unregister(name)


def register_environment(
    name: str, environment: str | type[BatchEnv], result_version: str = "1"
) -> None:
    """Adds an environment.

    Args:
        name: What setups call it.
        environment: A `BatchEnv` class, or `module:Class` to be imported when needed.
        result_version: Raised when a change of ours alters its results; kept here, because asking
            for it must not import a physics engine.
    """
    _environments.register(name)(environment)
    _versions[name] = result_version


def environment(spec: str | Setup) -> type[BatchEnv]:
    """Returns the `BatchEnv` class of a setup, importing its module if need be."""
    spec = setup(spec)
    found: Any = (
        spec.environment if ":" in spec.environment else _environments.get(spec.environment)
    )
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise SetupError(
                f"the environment {spec.environment!r} of setup {spec.name!r} cannot be imported "
                f"({error}); is the package that provides it installed?"
            ) from error
    if not (isinstance(found, type) and issubclass(found, BatchEnv)):
        raise SetupError(
            f"the environment {spec.environment!r} of setup {spec.name!r} is no envs.BatchEnv."
        )
    return found


def environment_module(spec: str | Setup) -> str:
    """Returns the module of a setup's environment, without importing it."""
    spec = setup(spec)
    found = spec.environment if ":" in spec.environment else _environments.get(spec.environment)
    return found.partition(":")[0] if isinstance(found, str) else found.__module__


def result_version(spec: str | Setup) -> str:
    """Returns the number of our environment that is raised when its results change."""
    return _versions.get(setup(spec).environment, "1")


def make_batch(
    name: str | Setup,
    num_envs: int,
    seed: Seed | Sequence[Seed],
    contexts: ContextSource | None = None,
    *,
    render_mode: str | None = None,
) -> BatchEnv:
    """Makes N copies of a setup's environment, stepped in one call.

    Args:
        name: A setup or its name.
        num_envs: Number of copies N.
        seed: One stream per copy comes of it: an integer or a `SeedSequence` stands for its first
            N children, a sequence gives one seed to each copy.
        contexts: A callable `source(indices) -> (len(indices), d)`. With it, finished copies start
            their next episode in the same step: it is called once per step in which episodes
            ended, with the ascending indices of these copies. Without it, the caller resets
            finished copies before the next step.
        render_mode: None or `rgb_array`.
    """
    spec = setup(name)
    return environment(spec)(spec, num_envs, seed, contexts, render_mode)


def make(name: str | Setup, render_mode: str | None = None) -> ContextualEnv:
    """Makes one copy of a setup's environment as a `gymnasium.Env`."""
    return ContextualEnv(make_batch(name, 1, 0, render_mode=render_mode))
