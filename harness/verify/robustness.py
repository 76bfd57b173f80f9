"""What every curriculum must do: give defined results, refuse wrong input, restore its state."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import CurriculumError, Gaussian, moments
from pacebench.curricula.checks import Array
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import Violation, promise, require

TRAPS = (
    *("one sample", "equal values", "zero values", "equal contexts", "mirrored contexts"),
    *("at the target", "tiny theta", "huge theta", "nothing"),
)


def _trapped(problem: UpdateProblem, trap: str) -> tuple[UpdateProblem, Array, Array]:
    """Returns the problem made degenerate in the way that `trap` names, its contexts and values."""
    changes: dict[str, dict[str, Any]] = {
        "one sample": {"samples": 1},
        "at the target": {"distance": 0.0, "decades": 0.0},
        "tiny theta": {"decades": 6.0},
        "huge theta": {"decades": 6.0, "seed": problem.seed + 1},
    }
    problem = problem.but(**changes.get(trap, {}))
    contexts, values = problem.contexts.copy(), problem.values.copy()
    if trap == "equal values":
        values[:] = values[0]
    elif trap == "zero values":
        values[:] = 0.0
    elif trap == "equal contexts":
        contexts[:] = problem.initial.mean
    elif trap == "mirrored contexts":
        contexts = np.concatenate([contexts, 2.0 * problem.initial.mean - contexts])
        values = np.ones(len(contexts)) * 10.0**problem.value_scale
    return problem, contexts, values


def _trap_examples(subject: Subject) -> st.SearchStrategy[Any]:
    scale = st.sampled_from([0, 9, -9])
    problems = subject.problems(context_scale=scale, value_scale=scale)
    return st.tuples(problems, st.sampled_from(TRAPS))


@promise("degenerate-batches", examples=_trap_examples)
def defined(subject: Subject, example: tuple[UpdateProblem, str]) -> str:
    """Degenerate batches and extreme scales give a named case and finite numbers."""
    problem, contexts, values = _trapped(*example)
    c = subject.make(problem, record_every=1)
    for _ in range(2):
        record = subject.feed(c, contexts, values)
        require(record.step and record.case, "the record does not say what was done")
        mean, std = moments(c.distribution)
        require(np.isfinite(mean).all() and np.isfinite(std).all(), "its moments are not finite")
        if isinstance(c.distribution, Gaussian):
            require((c.distribution.variance > 0).all(), "a variance is not positive")
        numbers = (record.mean_value, record.kl_step, record.kl_target_reverse, record.seconds)
        finite = all(x is None or math.isfinite(x) for x in numbers)
        require(finite, f"a number is not finite: {record}")
        ess, kl = record.ess, record.kl_step
        require(ess is None or 0.0 < ess <= len(values) * (1 + 1e-9), f"ESS is {ess}")
        require(kl is None or kl >= 0.0, f"KL is {kl}")
        far = record.sliced_wasserstein
        require(far is not None and 0.0 <= far < math.inf, f"the distance to the target is {far}")
        drawn = c.sample(3, problem.rng(11))
        require(drawn.shape == (3, problem.dim) and np.isfinite(drawn).all(), "bad samples")
    return f"{record.step} {record.case}"


WRONG_UPDATES: dict[str, Callable[[Array, Array], tuple[Any, Any]]] = {
    "a value too few": lambda c, v: (c, v[:-1]),
    "a dimension too many": lambda c, v: (np.hstack([c, c]), v),
    "contexts as a vector": lambda c, v: (c.ravel(), v),
    "values as a column": lambda c, v: (c, v[:, None]),
    "a NaN value": lambda c, v: (c, np.where(np.arange(len(v)) == 0, np.nan, v)),
    "an infinite value": lambda c, v: (c, np.where(np.arange(len(v)) == 0, np.inf, v)),
    "a NaN context": lambda c, v: (np.where(np.arange(len(v))[:, None] == 0, np.nan, c), v),
    "opposite infinities": lambda c, v: (c, np.where(np.arange(len(v)) == 0, -np.inf, np.inf)),
    "no samples": lambda c, v: (c[:0], v[:0]),
    "words": lambda c, v: (c, ["high"] * len(v)),
}


def _wrong_keywords(subject: Subject, problem: UpdateProblem) -> dict[str, dict[str, Any]]:
    more = Gaussian(np.zeros(problem.dim + 1), np.ones(problem.dim + 1))
    wrong: dict[str, dict[str, Any]] = {
        "epsilon zero": {"epsilon": 0.0},
        "epsilon negative": {"epsilon": -0.1},
        "epsilon NaN": {"epsilon": math.nan},
        "threshold NaN": {"threshold": math.nan},
        "another dimension": {"initial": more},
        "no Gaussian": {"target": "normal"},
        "bounds reversed": {"bounds": problem.keywords()["bounds"][::-1]},
    }
    limit = subject.kind.requires_epsilon_below
    if limit is not None:
        wrong["epsilon at its limit"] = {"epsilon": limit}
    if subject.capabilities.self_paced:
        wrong["no threshold"] = {"threshold": None}
    if subject.capabilities.needs_bounds:
        wrong["no bounds"] = {"bounds": None}
    return wrong


@promise("wrong-input", examples=lambda s: s.problems(samples=5, dim=st.integers(1, 3)), cost=4)
def refuses(subject: Subject, problem: UpdateProblem) -> None:
    """Wrong input is refused in one sentence before any state changes."""
    c = subject.make(problem)
    subject.feed(c, problem.contexts, problem.values)
    for what, spoil in WRONG_UPDATES.items():
        contexts, values = spoil(problem.contexts, problem.values)
        before = json.dumps(c.state_dict())
        _raises(what, lambda x=contexts, v=values: subject.feed(c, x, v))  # type: ignore[misc]
        require(json.dumps(c.state_dict()) == before, f"{what} was refused, but changed the state")
    for what, keywords in _wrong_keywords(subject, problem).items():
        _raises(what, lambda k=keywords: subject.make(problem, **k))  # type: ignore[misc]
    _raises("a negative count", lambda: c.sample(-1, problem.rng(11)))
    _raises("another's state", lambda: c.load_state_dict({**c.state_dict(), "name": "other"}))


def _raises(what: str, action: Callable[[], object]) -> None:
    try:
        action()
    except CurriculumError as error:
        sentence = str(error)
        good = sentence.endswith(".") and "\n" not in sentence and len(sentence) > 20
        require(good, f"{what} is refused with {sentence!r}, which is not one clear sentence")
    except Exception as error:  # noqa: BLE001 - any other kind is the finding
        raise Violation(f"{what} raises {type(error).__name__}: {error}") from None
    else:
        raise Violation(f"{what} is accepted")


@promise(
    "state",
    examples=lambda s: s.problems(dim=st.integers(1, 4 if s.exact_arithmetic else 2)),
    cost=2,
)
def restores(subject: Subject, problem: UpdateProblem) -> None:
    """A copy restored from JSON goes on bit by bit."""
    c = subject.make(problem, record_every=1)
    subject.feed(c, problem.contexts, problem.values)
    copy = subject.make(problem, record_every=1)
    copy.load_state_dict(json.loads(json.dumps(c.state_dict())))
    for i in range(2):
        drawn = c.sample(problem.samples, problem.rng(12, i))
        same = np.array_equal(drawn, copy.sample(problem.samples, problem.rng(12, i)))
        require(same, "the restored copy samples other contexts")
        values = problem.value_of(drawn)
        first, second = (subject.feed(x, drawn, values).to_dict() for x in (c, copy))
        for clock in ("seconds", "seconds_recording"):
            first.pop(clock), second.pop(clock)
        require(first == second, f"the restored copy updates otherwise: {first} and {second}")
        require(c.state_dict() == copy.state_dict(), "the restored copy has another state")


@promise("record", examples=lambda s: s.problems(decades=st.sampled_from([0.0, 0.05, 0.5, 2.0])))
def records(subject: Subject, problem: UpdateProblem) -> str:
    """The record agrees with the textbook formulas and is plain JSON."""
    c = subject.make(problem, record_every=1)
    old = c.distribution
    record = subject.feed(c, problem.contexts, problem.values)
    new = c.distribution
    plain = record.to_dict()
    require(json.loads(json.dumps(plain, allow_nan=False)) == plain, "the record is not plain JSON")
    own = problem.epsilon if subject.capabilities.has_budget else None
    require(record.epsilon == own, f"the record says that ε is {record.epsilon}, not {own}")
    mean, told = float(problem.values.mean()), record.mean_value
    close = told is not None and math.isclose(told, mean, rel_tol=1e-9, abs_tol=1e-12)
    require(close, f"V̄ is {mean}, not {told}")
    require(record.accepted or new is old, "the update was refused, but the distribution moved")
    if isinstance(old, Gaussian) and isinstance(new, Gaussian):
        p, q = Normal.of(new), Normal.of(old)
        target = Normal.of(problem.target)
        for name, exact in (
            ("kl_step", oracle.kl(p, q)),
            ("kl_target_forward", oracle.kl(target, p)),
            ("kl_target_reverse", oracle.kl(p, target)),
        ):
            told = getattr(record, name)
            close = math.isclose(told, exact, rel_tol=1e-6, abs_tol=1e-9)
            require(close, f"{name} is {exact:.12g}, not {told}")
        logs = oracle.log_density(p, problem.contexts) - oracle.log_density(q, problem.contexts)
        weights = np.exp(logs - logs.max())
        ess = float(weights.sum() ** 2 / (weights**2).sum())
        told = record.ess
        close = told is not None and math.isclose(told, ess, rel_tol=1e-6)
        require(close, f"ESS is {ess}, not {told}")
    return f"{record.step} {record.case}"


@promise("sampling")
def samples(subject: Subject, problem: UpdateProblem) -> None:
    """Samples have the mean and variances of the distribution."""
    c = subject.make(problem)
    n = 4000
    drawn = c.sample(n, problem.rng(13))
    require(drawn.shape == (n, problem.dim), f"sample(n) has shape {drawn.shape}")
    require(np.array_equal(drawn, c.sample(n, problem.rng(13))), "same generator, other samples")
    p = c.distribution
    if not (hasattr(p, "mean") and hasattr(p, "std")):
        return
    z = (drawn - p.mean) / p.std
    far = float(np.abs(z.mean(axis=0)).max()) * math.sqrt(n)
    require(far < 6.0, f"the samples' mean is {far:.1f} standard errors away")
    off = float(np.abs((z**2).mean(axis=0) - 1.0).max()) * math.sqrt(n / 2)
    require(off < 8.0, f"the samples' variance is {off:.1f} standard errors away")
