"""A setup of any `gymnasium.Env`: what its context is, and how it reaches the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium

from pacebench.envs.distributions import ContextSpec, from_plain
from pacebench.envs.errors import SetupError
from pacebench.envs.gymnasium_copies import PREFIX, EnvCopies, gymnasium_spec
from pacebench.envs.importing import location_of
from pacebench.envs.setup import GymnasiumSpec, Setup

APPLY = ("attributes", "options", "constructor")
_SUCCESS = ("info", "return", "function")


def from_gymnasium(
    environment: str | type[gymnasium.Env[Any, Any]] | Callable[..., gymnasium.Env[Any, Any]],
    *,
    name: str,
    context: Mapping[str, Any],
    target: Mapping[str, Any] | ContextSpec,
    threshold: float,
    initial: Mapping[str, Any] | ContextSpec | None = None,
    apply: str | Callable[..., None] = "attributes",
    visible: bool = True,
    gamma: float = 0.99,
    horizon: int | None = None,
    success: Mapping[str, Any] | Callable[..., bool] | None = None,
    keywords: Mapping[str, Any] | None = None,
    min_return: float | None = None,
    max_return: float | None = None,
    reference_return: float | None = None,
    processes: int = 0,
    doc: str = "",
    source: str = "",
) -> Setup:
    """Makes a setup of a plain Gymnasium environment.

    Args:
        environment: A Gymnasium id (`Pendulum-v1`, or `package:Id-v0` to import the package that
            registers it), or a class or factory that a worker process can import, or its
            `module:name`.
        name: What the setup is called.
        context: Name → (lowest, highest) of each context dimension. Where its attribute, reset
            option or keyword has another name than it: name → {"bounds": (…), "at": "model.x[1]"}.
        target: The target distribution: {"mean": …, "variance": …}, each in the order of `context`
            or by name, or one of `envs.distributions`.
        threshold: V₋, the discounted return that self-paced curricula demand before moving on.
        initial: The initial distribution; by default centred in the bounds, with a quarter of
            their width as its standard deviation.
        apply: How a context reaches the environment before each episode: set as `attributes` of
            the unwrapped instance, passed as `reset(options={name: value, …})`, as keywords of the
            `constructor` (a new instance per episode), or by a function of the unwrapped instance
            and the context by name.
        visible: Whether observations end with the context.
        gamma: Discount factor γ.
        horizon: Steps after which an episode is truncated; by default Gymnasium's.
        success: When an episode is a success: {"info": key}, {"return": at least}, or a function of
            the unwrapped instance and the last `info`; never if left out.
        keywords: Further keywords of the constructor.
        min_return: A return that no episode can fall below, if one is known.
        max_return: A return that no episode can exceed, if one is known.
        reference_return: The return that is normalised to 1; the random policy's is 0.
        processes: Worker processes that step the copies, worth it for heavy physics only.
        doc: What the task is.
        source: Where the figures come from.

    Raises:
        SetupError: Something does not fit together.
    """
    where = f"setup {name!r}"
    located = _location(environment)
    names, paths, lower, upper = _dimensions(context, where)
    if initial is None:
        centre = [0.5 * (a + b) for a, b in zip(lower, upper, strict=True)]
        spread = [(0.25 * (b - a)) ** 2 for a, b in zip(lower, upper, strict=True)]
        initial = {"mean": centre, "variance": spread}
    aim, aim_spec = _distribution(target, names, f"{where}: 'target'")
    start, start_spec = _distribution(initial, names, f"{where}: 'initial'")
    how = apply if isinstance(apply, str) else location_of(apply, "the function")
    if how not in APPLY and ":" not in how:
        raise SetupError(
            f"{where}: 'apply' must be one of {', '.join(APPLY)} or module:function, not {how!r}."
        )
    spec = Setup(
        name=name,
        environment=located,
        context_names=names,
        target_mean=aim[0],
        target_variance=aim[1],
        initial_mean=start[0],
        initial_variance=start[1],
        lower=lower,
        upper=upper,
        threshold=threshold,
        visible=visible,
        gamma=gamma,
        horizon=1 if horizon is None else horizon,
        doc=doc or f"{located.removeprefix(PREFIX)} under a context of {', '.join(names)}.",
        source=source or f"{located.removeprefix(PREFIX)}, as it is, through envs.from_gymnasium.",
        success=_success_words(success),
        min_return=min_return,
        max_return=max_return,
        target=aim_spec,
        initial=start_spec,
        reference_return=reference_return,
        gymnasium=GymnasiumSpec(
            apply=how,
            paths=paths,
            keywords=tuple(sorted((keywords or {}).items())),
            success=_success(success, where),
            processes=processes,
        ),
    )
    return spec if horizon is not None else _with_own_horizon(spec)


def probe(spec: Setup) -> None:
    """Makes two copies of an adapted environment and starts an episode in each.

    Raises:
        SetupError: It cannot be made, or a context cannot reach it, or would reach both.
    """
    copies = EnvCopies(spec, 2, None)
    copies.reset([0, 1], [list(spec.lower), list(spec.upper)], [0, 0])
    copies.close()


def _location(environment: Any) -> str:
    if not isinstance(environment, str):
        return location_of(environment, "the environment")
    module, _, name = environment.partition(":")
    # Gymnasium's ids end in a version, which no class or function does.
    located = module == "gymnasium" or (name and "-v" not in name)
    return environment if located else PREFIX + environment


def _dimensions(
    context: Mapping[str, Any], where: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    if not context:
        raise SetupError(f"{where}: 'context' is empty; give each dimension its bounds.")
    paths, lower, upper = [], [], []
    for name, given in context.items():
        bounds = given.get("bounds") if isinstance(given, Mapping) else given
        paths.append(str(given.get("at", name)) if isinstance(given, Mapping) else name)
        try:
            low, high = (float(x) for x in bounds)  # type: ignore[union-attr]
        except (TypeError, ValueError):
            raise SetupError(
                f"{where}: context {name!r} needs its lowest and highest value, got {given!r}."
            ) from None
        lower.append(low)
        upper.append(high)
    return tuple(context), tuple(paths), tuple(lower), tuple(upper)


def _distribution(
    given: Any, names: tuple[str, ...], what: str
) -> tuple[tuple[Any, Any], ContextSpec | None]:
    """Returns the mean and variances of a distribution, and what it is if it is not Gaussian."""
    figures = dict(given) if isinstance(given, Mapping) else {}
    moments = [_ordered(figures.pop(key, None), names, what) for key in ("mean", "variance")]
    spec = from_plain(figures, what) if "kind" in figures else None
    if not isinstance(given, Mapping):
        spec = given
    elif figures and spec is None:
        raise SetupError(f"{what} has no {next(iter(figures))!r}; give 'mean' and 'variance'.")
    if spec is not None and None in moments:
        return spec.checked(len(names), what).moments(), spec
    if None in moments:
        raise SetupError(f"{what} needs 'mean' and 'variance'.")
    return (moments[0], moments[1]), spec


def _ordered(given: Any, names: tuple[str, ...], what: str) -> Any:
    if not isinstance(given, Mapping):
        return given
    if set(given) != set(names):
        raise SetupError(f"{what} must name each of {', '.join(names)}, got {', '.join(given)}.")
    return [given[name] for name in names]


def _success(given: Any, where: str) -> tuple[str, Any] | None:
    if given is None:
        return None
    if callable(given):
        return "function", location_of(given, "the success function")
    if not isinstance(given, Mapping) or len(given) != 1 or set(given) - set(_SUCCESS):
        raise SetupError(
            f"{where}: 'success' must be one of info: KEY, return: NUMBER or function: "
            f"module:function, got {given!r}."
        )
    kind, value = next(iter(given.items()))
    if kind == "return" and not isinstance(value, int | float):
        raise SetupError(f"{where}: 'success: return' needs a number, got {value!r}.")
    if kind != "return" and not isinstance(value, str):
        raise SetupError(f"{where}: 'success: {kind}' needs a name, got {value!r}.")
    return kind, value


def _success_words(given: Any) -> str:
    kind, value = _success(given, "") or ("never", "")
    return {
        "info": f"the environment's info says {value!r}",
        "return": f"the return is at least {value}",
        "function": f"{value} says so",
        "never": "none is declared, so no episode is one",
    }[kind]


def _with_own_horizon(spec: Setup) -> Setup:
    registered = gymnasium_spec(spec)
    own = None if registered is None else registered.max_episode_steps
    if own is None:
        raise SetupError(
            f"setup {spec.name!r}: {spec.environment} has no time limit of its own; give 'horizon'."
        )
    return replace(spec, horizon=own)
