"""Mistakes that pydantic cannot see: names, capabilities and numbers that do not fit together.

They are checked before anything runs, because a mistake found after a night of training costs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from pacebench import curricula, envs
from pacebench.envs.from_gymnasium import probe
from pacebench.harness import learners
from pacebench.harness.study.construct import blind_critic, make_curriculum, unfed
from pacebench.harness.study.declared import DeclaredSetup
from pacebench.harness.study.expand import resolve_curriculum
from pacebench.harness.study.models import (
    CurriculumEntry,
    Evaluation,
    LearnerEntry,
    Range,
    SetupChange,
    Statistics,
    Tuning,
    changed_learner,
)
from pacebench.harness.study.yaml_nodes import KeyPath
from pacebench.registry import UnknownNameError, UserMistakeError

# With fewer pairs the signed-rank test cannot reach the pruner's threshold of 0.1 with a margin.
_WILCOXON_SEEDS = 5


@dataclass(frozen=True)
class Finding:
    """A mistake in a study: the path of its key, and the sentence about it."""

    path: KeyPath
    text: str


def check_parts(parts: Mapping[str, Any]) -> list[Finding]:
    """Returns every mistake in the sections given; a section that is missing is not checked."""
    findings: list[Finding] = []
    entries: Sequence[CurriculumEntry | None] = parts.get("curricula") or ()
    setups: Sequence[str] = parts.get("setups") or ()
    tasks, found = _tasks(setups, parts.get("declared") or ())
    findings += [*_curricula(entries, setups, tasks), *found]
    if "seeds" in parts and setups:
        for name in parts["seeds"].at_most:
            if name not in setups:
                text = "is not among the study's setups; remove it."
                findings.append(Finding(("seeds", "at_most", name), text))
    if "learner" in parts:
        here: KeyPath = ("learner",)
        findings += _learner(parts["learner"], here, tasks, parts.get("budget"))
        for i, entry in enumerate(entries):
            if entry is None:
                continue
            changed = changed_learner(parts["learner"], entry.learner)
            if entry.learner is not None:
                here = ("curricula", i, "learner")
                findings += _learner(changed, here, tasks, parts.get("budget"))
            findings += _fed(entry, changed, ("curricula", i, "name"))
    if "evaluation" in parts and "budget" in parts:
        findings += _evaluation(parts["evaluation"], parts["budget"])
    if "schedule" in parts and parts["schedule"].value_signal == "critic":
        blind = filter(None, map(blind_critic, tasks))
        findings += [Finding(("schedule", "value_signal"), sentence) for sentence in blind]
    if "statistics" in parts and None not in entries:
        labels = [entry.shown for entry in entries if entry is not None]
        findings += _statistics(parts["statistics"], labels, setups)
        if parts.get("tuning") is not None:
            known = [entry for entry in entries if entry is not None]
            findings += _tuning(parts["tuning"], known, parts.get("budget"))
            if parts.get("declared"):
                text = "searches need registered setups; register what the study declares."
                findings.append(Finding(("tuning",), text))
    return findings


def _curricula(
    entries: Sequence[CurriculumEntry | None], setups: Sequence[str], tasks: Sequence[envs.Setup]
) -> Iterator[Finding]:
    seen: set[str] = set()
    for i, entry in enumerate(entries):
        if entry is None:
            continue
        if entry.shown in seen:
            yield Finding(
                ("curricula", i), f"'{entry.shown}' is there already; give this one a 'label:'."
            )
        seen.add(entry.shown)
        yield from _curriculum(entry, ("curricula", i), setups, tasks)


def _curriculum(
    entry: CurriculumEntry, path: KeyPath, setups: Sequence[str], tasks: Sequence[envs.Setup]
) -> Iterator[Finding]:
    try:
        kind = curricula.get(entry.name)
    except LookupError as error:
        yield Finding((*path, "name"), str(error))
        return
    for name in entry.per_setup:
        if name not in setups:
            yield Finding((*path, "per_setup", name), "is not among the study's setups; remove it.")
    places: list[tuple[KeyPath, CurriculumEntry | SetupChange]] = [(path, entry)]
    places += [((*path, "per_setup", name), part) for name, part in entry.per_setup.items()]
    found = [mistake for place, given in places for mistake in _parameters(kind, given, place)]
    yield from found or _construction(entry, path, tasks)


def _parameters(
    kind: type[curricula.Curriculum], given: CurriculumEntry | SetupChange, path: KeyPath
) -> Iterator[Finding]:
    # A mixture of Gaussians is no Gaussian, and a sampler is neither.
    fits = kind.capabilities.needs_gaussian or kind.capabilities.scaled_family
    known = [*kind.options(), *(["fit"] if fits else [])]
    for option in given.options:
        if option not in known:
            yield Finding(
                (*path, "options", option),
                f"'{kind.name}' has no such option; it has: {', '.join(known) or 'none'}.",
            )
    if not kind.capabilities.self_paced:
        for parameter in ("epsilon", "threshold"):
            if getattr(given, parameter) is not None:
                yield Finding(
                    (*path, parameter),
                    f"'{kind.name}' does not pace itself and would ignore it; remove it.",
                )
    limit = kind.requires_epsilon_below
    if limit is not None and given.epsilon is not None and given.epsilon >= limit:
        yield Finding(
            (*path, "epsilon"),
            f"must be below {limit:g} for '{kind.name}' (θ would not stay positive), "
            f"not {given.epsilon:g}.",
        )


def _construction(
    entry: CurriculumEntry, path: KeyPath, tasks: Sequence[envs.Setup]
) -> list[Finding]:
    """Makes the curriculum on every setup: what only its own code knows is found here."""
    for task in tasks:
        place = (*path, "per_setup", task.name) if task.name in entry.per_setup else path
        try:
            make_curriculum(resolve_curriculum(entry, task), task)
        except UserMistakeError as error:
            return [Finding(place, str(error))]
        except Exception as error:  # noqa: BLE001 - an outside package may fail in any way
            said = f"{type(error).__name__}: {error}"
            return [Finding(place, f"'{entry.name}' cannot be made on '{task.name}' ({said}).")]
    return []


def _tasks(
    setups: Sequence[str], declared: Sequence[DeclaredSetup]
) -> tuple[list[envs.Setup], list[Finding]]:
    """Returns the setups that can be used, and what is wrong with the others."""
    tasks: list[envs.Setup] = []
    findings: list[Finding] = []
    own = {entry.name: entry for entry in declared}
    for i, name in enumerate(setups):
        path: KeyPath = ("setups", i)
        if name in setups[:i]:
            findings.append(Finding(path, f"'{name}' is there already; remove one."))
        if name in own and name in envs.names():
            findings.append(Finding(path, f"'{name}' is a registered setup; choose another name."))
        try:
            if name in own:
                probe(own[name].setup)
            tasks.append(own[name].setup if name in own else envs.setup(name))
        except (LookupError, envs.SetupError) as error:
            findings.append(Finding(path, str(error)))
    return tasks, findings


def _learner(
    entry: LearnerEntry, here: KeyPath, setups: Sequence[envs.Setup], budget: int | None
) -> Iterator[Finding]:
    try:
        kind = learners.get(entry.name)
    except LookupError as error:
        yield Finding((*here, "name"), str(error))
        return
    for setup in setups:
        try:
            params = kind.Params.model_validate({**kind.defaults(setup), **entry.params})
        except ValidationError as error:
            for details in error.errors(include_url=False):
                path = (*here, "params", *details["loc"])
                yield Finding(path, f"{details['msg']} (learner '{entry.name}').")
            return
        rollout = kind.rollout_steps(params)
        if budget is not None and budget < rollout:
            yield Finding(
                ("budget",),
                f"{budget:,} steps are fewer than one rollout of '{entry.name}' on '{setup.name}' "
                f"({rollout:,}); raise the budget.",
            )


def _fed(entry: CurriculumEntry, learner: LearnerEntry, path: KeyPath) -> Iterator[Finding]:
    try:
        kind, taught = curricula.get(entry.name), learners.get(learner.name)
    except LookupError:
        return
    for options in (entry.options, *(part.options for part in entry.per_setup.values())):
        if sentence := unfed(kind, taught, options):
            yield Finding(path, sentence)
            return


def _evaluation(evaluation: Evaluation, budget: int) -> Iterator[Finding]:
    for i, step in enumerate(evaluation.steps or ()):
        if step > budget:
            yield Finding(
                ("evaluation", "steps", i),
                f"{step:,} is beyond the budget of {budget:,} steps; lower it or raise 'budget:'.",
            )


def _statistics(
    statistics: Statistics, labels: Sequence[str], setups: Sequence[str]
) -> Iterator[Finding]:
    here: KeyPath = ("statistics",)
    known = ", ".join(labels)
    if statistics.control is not None and statistics.control not in labels:
        yield Finding(
            (*here, "control"), f"'{statistics.control}' is not in the study; it has: {known}."
        )
    for pool, members in statistics.pools.items():
        place = (*here, "pools", pool)
        if pool in labels:
            yield Finding(place, "is the label of a curriculum; choose another name.")
        for label in sorted({*members} - {*labels}):
            yield Finding(place, f"'{label}' is not in the study ({known}).")
    if not isinstance(statistics.comparisons, str):
        for i, declared in enumerate(statistics.comparisons):
            for label in declared.pair:
                if label not in (*labels, *statistics.pools):
                    yield Finding(
                        (*here, "comparisons", i), f"'{label}' is not in the study ({known})."
                    )
            for name in declared.setups:
                if name not in setups:
                    text = f"'{name}' is not among the study's setups; remove it."
                    yield Finding((*here, "comparisons", i, "setups"), text)
            if declared.pair[0] == declared.pair[1]:
                yield Finding((*here, "comparisons", i), "compares a curriculum with itself.")


def _tuning(
    tuning: Tuning, entries: Sequence[CurriculumEntry], budget: int | None
) -> Iterator[Finding]:
    from pacebench.harness.study.space import sampler_names

    here: KeyPath = ("tuning",)
    known = {entry.shown: entry for entry in entries}
    for i, label in enumerate(tuning.curricula):
        if label not in known:
            yield Finding(
                (*here, "curricula", i),
                f"'{label}' is not in the study; it has: {', '.join(known)}.",
            )
    if tuning.sampler not in sampler_names():
        unknown = UnknownNameError("sampler", tuning.sampler, sampler_names())
        yield Finding((*here, "sampler"), str(unknown))
    if tuning.pruner == "wilcoxon" and tuning.seeds_per_trial < _WILCOXON_SEEDS:
        yield Finding(
            (*here, "pruner"),
            f"'wilcoxon' can tell nothing from {tuning.seeds_per_trial} seeds; set seeds_per_trial "
            f"to {_WILCOXON_SEEDS} or more, or the pruner to 'none'.",
        )
    if tuning.budget is not None and budget is not None and tuning.budget > budget:
        yield Finding(
            (*here, "budget"), f"is more than the study's own {budget:,} steps; lower it."
        )
    for label, space in tuning.space.items():
        if label not in tuning.curricula or label not in known:
            yield Finding((*here, "space", label), "is not among the tuned curricula.")
        else:
            yield from _space(known[label], space, (*here, "space", label))


def _space(
    entry: CurriculumEntry, space: Mapping[str, Range | tuple[Any, ...]], path: KeyPath
) -> Iterator[Finding]:
    from pacebench.harness.study.space import known_parameters

    try:
        known = known_parameters(entry.name)
        limit = curricula.get(entry.name).requires_epsilon_below
    except LookupError:
        return  # an unknown curriculum is named elsewhere
    for name, part in space.items():
        if name not in known:
            yield Finding((*path, name), str(UnknownNameError("parameter", name, known)))
        elif not isinstance(part, Range) and not part:
            yield Finding((*path, name), "has no choices; give at least one.")
        elif name == "epsilon":
            ends = (part.low, part.high) if isinstance(part, Range) else part
            if not all(isinstance(e, int | float) and 0 < e < (limit or e + 1) for e in ends):
                yield Finding(
                    (*path, name),
                    f"must stay above 0{f' and below {limit:g}' if limit else ''} for "
                    f"'{entry.name}'.",
                )
