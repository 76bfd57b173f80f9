"""Which setups and environments exist, and how one is made from its name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pacebench.envs.anchor_files import find_anchors
from pacebench.envs.base import BatchEnv, ContextSource
from pacebench.envs.distributions import SamplerSpec
from pacebench.envs.errors import SetupError
from pacebench.envs.gymnasium_copies import gymnasium_spec
from pacebench.envs.importing import import_object
from pacebench.envs.setup import Setup
from pacebench.envs.single import ContextualEnv
from pacebench.envs.streams import Seed
from pacebench.registry import Registry

_setups: Registry[Setup] = Registry("setup", "pacebench.setups")
_homes: dict[str, str] = {}
_versions: dict[str, str] = {}
_environments: Registry[str | type[BatchEnv]] = Registry("environment", "pacebench.environments")


names = _setups.names
origin = _setups.origin
unregister = _setups.unregister


def setup(name: str | Setup) -> Setup:
    """Returns the frozen spec of a setup.

    Raises:
        UnknownNameError: There is none of this name; the message offers the nearest.
    """
    if isinstance(name, Setup):
        return name
    spec = _setups.get(name)
    if spec.anchors is not None:
        return spec
    return replace(spec, anchors=find_anchors(spec, home(name)))


def register(spec: Setup) -> Setup:
    """Adds a setup; outside packages may instead offer one in the group `pacebench.setups`.

    Its anchors are looked for in `anchors.json` beside the module that calls this.
    """
    added = _setups.register(spec.name)(spec)
    _homes[spec.name] = sys._getframe(1).f_globals.get("__name__", "")
    return added


def home(name: str) -> str | None:
    """Returns the module that a registered setup comes from, if it is known."""
    return _homes.get(name) or _setups.module(name)


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
    found: Any = _location(spec)
    if isinstance(found, str):
        found = import_object(found, f"the environment of setup {spec.name!r},")
    if not (isinstance(found, type) and issubclass(found, BatchEnv)):
        raise SetupError(
            f"the environment {spec.environment!r} of setup {spec.name!r} is no envs.BatchEnv; "
            "envs.from_gymnasium makes a setup of a plain gymnasium.Env."
        )
    return found


def _location(spec: Setup) -> str | type[BatchEnv]:
    if spec.gymnasium is not None:
        return "pacebench.envs.gymnasium_batch:GymnasiumBatch"
    return spec.environment if ":" in spec.environment else _environments.get(spec.environment)


def environment_modules(spec: str | Setup) -> list[str]:
    """Returns the modules that a setup's environment is made of; ours are not imported for it."""
    spec = setup(spec)
    if spec.gymnasium is None:
        found = _location(spec)
        return [found.partition(":")[0] if isinstance(found, str) else found.__module__]
    registered = gymnasium_spec(spec)
    entry = spec.environment if registered is None else registered.entry_point
    named = [entry if isinstance(entry, str) else f"{entry.__module__}:", spec.gymnasium.apply]
    kind, said = spec.gymnasium.success or ("", "")
    named += [said] if kind == "function" else []
    named += [s.function for s in (spec.target, spec.initial) if isinstance(s, SamplerSpec)]
    return list(dict.fromkeys(name.partition(":")[0] for name in named if ":" in name))


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
