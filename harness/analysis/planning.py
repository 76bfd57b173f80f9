"""How many seeds until a study's questions are decided, by simulating exactly its procedure.

Scores come from a pilot (resampled with replacement) or from declared mixtures. A pilot cannot show
a failure that it did not see, so every arm without one is simulated once more with a failure rate
of 1/(n + 1) mixed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacebench.harness.analysis.comparisons import Question, questions
from pacebench.harness.analysis.scores import scales_of, score_runs
from pacebench.harness.analysis.table import SUITE, ScoreTable
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.errors import UserError
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.statistics.confidence_sequence import log_wealth_above, seeds_until
from pacebench.harness.statistics.scores import BoolArray, FloatArray
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.load import load_results
from pacebench.harness.store.manifest import study_of
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study

SEQUENCES = 1_000
LIMIT = 500

# Draws so many sequences of so many scores.
Draw = Callable[[tuple[int, int], np.random.Generator], FloatArray]


@dataclass(frozen=True)
class Forecast:
    """What one question will take.

    Attributes:
        a: The first label.
        b: What it is compared with.
        setup: Where.
        estimand: By what.
        alpha: At what level.
        failures: Whether failures that the pilot did not show were mixed in.
        median: Seeds until it is decided in half of the simulated studies; None beyond the limit.
        most: The same in 80 % of them.
        nearly_all: The same in 95 %.
        decided: Share that is decided within the limit.
        verdicts: Share of each verdict.
        cpu_hours: Of the median's runs of both arms, where a pilot says what a run costs.
    """

    a: str
    b: str
    setup: str
    estimand: str
    alpha: float
    failures: bool
    median: int | None
    most: int | None
    nearly_all: int | None
    decided: float
    verdicts: dict[str, float]
    cpu_hours: float | None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def forecast(
    study: Study, pilot: Path | None = None, assume: str | None = None, limit: int = LIMIT
) -> list[Forecast]:
    """Plans a study, question by question.

    Args:
        study: The study to be run.
        pilot: Results of a pilot, run with other seeds.
        assume: Mixtures of returns by label, such as `spgl: 0.95@85±2, default: 0.4@85±2|15±2`:
            with probability 0.95 normal around 85 with standard deviation 2, else at the floor.
        limit: Seeds after which a simulated study gives up.

    Raises:
        UserError: There is nothing to plan with, or it does not fit the study.
    """
    asked = [q for q in questions(study, ()) if q.weighted]
    if not asked:
        raise UserError(f"study '{study.name}' compares nothing; add a second curriculum.")
    if (pilot is None) == (assume is None):
        raise UserError(
            "plan needs the spread of scores: give either a pilot with --pilot FOLDER or mixtures "
            'with --assume "spgl: 0.95@85±2, default: 0.4@85±2|15±2".'
        )
    scales = scales_of(study)
    root = study_sequence(study.seeds.root, StudyRole.BOOTSTRAP, 2)
    if pilot is not None:
        return _from_pilot(study, pilot, scales, asked, root, limit)
    assert assume is not None
    arms = parse(assume)
    lacking = sorted({name for q in asked for name in (q.a, q.b)} - set(arms))
    if lacking:
        raise UserError(f"--assume: says nothing about '{lacking[0]}', which the study compares.")
    empty = ScoreTable(study, scales, _no_rows(study), root)
    found = []
    for q in asked:
        if q.estimand != "return" or q.scope == SUITE:
            raise UserError("--assume describes returns; plan other estimands from a --pilot.")
        bounds = empty.comparable_bounds(q.scope, q.estimand)
        if bounds is None:
            raise UserError(
                f"setup '{q.scope}' declares no range of returns, so nothing is planned."
            )
        draws = [mixture(arms[label], bounds[0]) for label in (q.a, q.b)]
        found.append(_simulate(empty, q, draws, bounds, limit, failures=False, seconds=None))
    return found


def _from_pilot(
    study: Study,
    folder: Path,
    scales: Mapping[str, Any],
    asked: list[Question],
    root: np.random.SeedSequence,
    limit: int,
) -> list[Forecast]:
    results = load_results(folder)
    refuse_overlap(folder, set(results.runs["run_id"]), study)
    piloted = study_of(results.manifest)
    lacking = sorted(set(study.setups) - set(piloted.setups))
    if lacking:
        raise UserError(f"{folder}: the pilot has no runs on '{lacking[0]}'; add that setup to it.")
    Ledger(folder).append("plan", study=study.name)
    table = ScoreTable(piloted, scales, score_runs(results, piloted, scales), root)
    found = []
    for q in asked:
        if q.a not in piloted.compared or q.b not in piloted.compared:
            continue
        pairs = table.paired(q.a, q.b, q.scope, q.estimand)
        keep = ~(np.isnan(pairs.x).any(axis=1) | np.isnan(pairs.y).any(axis=1))
        if pairs.bounds is None or not keep.any():
            continue
        low, high = pairs.bounds
        arms = [np.clip(v[keep], low, high).mean(axis=1) for v in (pairs.x, pairs.y)]
        ends = float(low.mean()), float(high.mean())
        members = (*piloted.members(q.a), *piloted.members(q.b))
        timed = results.runs[results.runs["label"].isin(members)]["seconds"].astype(float)
        seconds = float(timed.mean()) if timed.notna().any() else None
        plain = [_resampled(arm) for arm in arms]
        found.append(_simulate(table, q, plain, ends, limit, failures=False, seconds=seconds))
        failing = [_with_failures(arm, ends[0]) for arm in arms]
        found.append(_simulate(table, q, failing, ends, limit, failures=True, seconds=seconds))
    if not found:
        raise UserError(
            f"{folder}: the pilot holds no two methods that '{study.name}' compares with a known "
            f"range; run at least {asked[0].a} and {asked[0].b} in it."
        )
    return found


def refuse_overlap(folder: Path | str, pilot: set[str], study: Study) -> None:
    """Stops a pilot that holds runs of the study it is to plan.

    Raises:
        UserError: They share a run.
    """
    shared = pilot & {run.run_id for run in expand(study)}
    if shared:
        raise UserError(
            f"{folder}: {len(shared)} of its runs belong to '{study.name}' itself, and runs that "
            "judge a study must not plan it; run the pilot with another seeds.root."
        )


def _simulate(
    table: ScoreTable,
    q: Question,
    draws: list[Draw],
    bounds: tuple[float, float],
    limit: int,
    *,
    failures: bool,
    seconds: float | None,
) -> Forecast:
    rng = table.rng("plan", q.a, q.b, q.scope, q.estimand, str(failures))
    half = bounds[1] - bounds[0]
    x, y = (np.clip(draw((SEQUENCES, limit), rng), *bounds) for draw in draws)
    effect = table.smallest_effect(q.estimand, q.scope)
    if effect >= half:
        raise UserError(
            f"statistics.smallest_effect: {effect:g} is the whole range of {q.estimand} on "
            f"'{q.scope}'; lower it."
        )
    first, reached = until_decided(x - y, half, effect, q.alpha)
    median, most, nearly_all = (_quantile(first, share) for share in (0.5, 0.8, 0.95))
    return Forecast(
        a=q.a,
        b=q.b,
        setup=q.scope,
        estimand=q.estimand,
        alpha=q.alpha,
        failures=failures,
        median=median,
        most=most,
        nearly_all=nearly_all,
        decided=float(np.isfinite(first).mean()),
        verdicts={verdict.value: float(mine.mean()) for verdict, mine in reached.items()},
        cpu_hours=None if seconds is None or median is None else 2 * median * seconds / 3600,
    )


def until_decided(
    z: FloatArray, half_range: float, effect: float, alpha: float
) -> tuple[FloatArray, dict[Verdict, BoolArray]]:
    """Returns after how many seeds each study is decided, infinity if never, and which as what.

    An end of the interval passes a value when the wealth against that value reaches the threshold,
    so three values tell the verdicts of all looks, at a fraction of the intervals' cost.

    Args:
        z: Differences of simulated studies, (studies, seeds).
        half_range: Width of the range of the scores.
        effect: The smallest effect of interest.
        alpha: Level of the question.
    """
    above, below, *ends = (
        seeds_until(log_wealth_above(differences, half_range, null), alpha)
        for null in (0.0, -effect)
        for differences in (z, -z)
    )
    inside = np.maximum(*ends)
    first = np.minimum(np.minimum(above, below), inside)
    known = np.isfinite(first)
    return first, {
        Verdict.BETTER: known & (above == first),
        Verdict.WORSE: known & (below == first) & (above > first),
        Verdict.EQUIVALENT: known & (above > first) & (below > first),
    }


def _quantile(seeds: FloatArray, share: float) -> int | None:
    found = float(np.quantile(seeds, share, method="higher"))
    return int(found) if np.isfinite(found) else None


def _resampled(arm: FloatArray) -> Draw:
    return lambda size, rng: rng.choice(arm, size)


def _with_failures(arm: FloatArray, floor: float) -> Draw:
    """Mixes a failure rate of 1/(n + 1) into an arm that shows none."""
    rate = 1 / (len(arm) + 1) if arm.min() > floor else 0.0

    def draw(size: tuple[int, int], rng: np.random.Generator) -> FloatArray:
        return np.where(rng.random(size) < rate, floor, rng.choice(arm, size))

    return draw


_ARM = re.compile(r"^\s*(?P<share>[\d.]+)@(?P<good>[^|]+)(?:\|(?P<bad>[^|]+))?\s*$")
_NORMAL = re.compile(r"^\s*(?P<mean>[+\-−]?[\d.]+)(?:\s*(?:±|\+-)\s*(?P<std>[\d.]+))?\s*$")

# Probability, mean and standard deviation of the good mode, and those of the bad one if declared.
Arm = tuple[float, tuple[float, float], tuple[float, float] | None]


def parse(assume: str) -> dict[str, Arm]:
    """Returns the mixtures that a text declares, by label; see `forecast`."""
    arms: dict[str, Arm] = {}
    for part in assume.split(","):
        label, _, said = part.partition(":")
        match = _ARM.match(said)
        modes = [match.group("good"), match.group("bad")] if match else []
        normals = [_NORMAL.match(mode) for mode in modes if mode]
        if match is None or not all(normals) or not 0 <= float(match.group("share")) <= 1:
            raise UserError(
                f"--assume: '{part.strip()}' is no mixture; write it like 'spgl: 0.95@85±2' or "
                "'default: 0.4@85±2|15±2'."
            )
        found = [
            (float(n.group("mean").replace("−", "-")), float(n.group("std") or 0))
            for n in normals
            if n is not None
        ]
        arms[label.strip()] = (
            float(match.group("share")),
            found[0],
            found[1] if len(found) > 1 else None,
        )
    return arms


def mixture(arm: Arm, floor: float) -> Draw:
    """Returns what draws scores of a declared mixture; without a bad mode it fails to the floor."""
    share, good, bad = arm

    def draw(size: tuple[int, int], rng: np.random.Generator) -> FloatArray:
        other = rng.normal(*bad, size) if bad is not None else np.full(size, floor)
        return np.where(rng.random(size) < share, rng.normal(*good, size), other)

    return draw


def _no_rows(study: Study) -> Any:
    import pandas as pd

    return pd.DataFrame(columns=["label", "setup", "seed", "status"])
