"""The declared comparisons: intervals that hold for any shape of scores, at every look.

Each comparison has its share of α, handed out before the first run. The interval of the mean
difference comes from the range of the scores alone (statistics/confidence_sequence.py), so all
claims of a study, of difference and of equivalence, at all looks, are right together with
probability 1 − α at least. Beside it stands what a t-test says at the same level.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacebench.harness.analysis.table import SUITE, Paired, ScoreTable
from pacebench.harness.analysis.verdicts import Verdict, claim, evidence, judge, plural
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import coverage, intervals, welch
from pacebench.harness.statistics.confidence_sequence import (
    Wealth,
    difference_ends,
    log_threshold,
    log_wealth_above,
    seeds_until,
)
from pacebench.harness.statistics.exact import hidden_failure_rate, permutation_p_value
from pacebench.harness.statistics.interval import Interval
from pacebench.harness.study.models import Study

RULE = "universal-portfolio confidence sequence, version 1"
KIND = "confidence-sequence"


@dataclass(frozen=True)
class Question:
    """One comparison on one scope by one estimand.

    Attributes:
        a: The first label.
        b: What it is compared with.
        scope: A setup, or `suite`.
        estimand: What is compared.
        alpha: Its level: its share of the study's α, or all of it where it is exploratory.
        weighted: Whether it has a share, so that its verdict is a claim.
    """

    a: str
    b: str
    scope: str
    estimand: str
    alpha: float
    weighted: bool


def questions(study: Study, estimands: tuple[str, ...]) -> list[Question]:
    """Returns the study's weighted questions, and the same pairs by all other estimands.

    A suite mean of normalised scores is one question per pair; everything else is asked setup by
    setup. α is shared among the weighted questions in proportion to their weights.
    """
    said = study.statistics
    suite = len(study.setups) > 1
    asked = [
        (pair, scope, estimand)
        for estimand in said.primary
        for scope in ((SUITE,) if estimand == "normalised" and suite else study.setups)
        for pair in study.comparisons
        if pair.asked_on(scope)
    ]
    total = sum(pair.weight for pair, _, _ in asked)
    found = [
        Question(*pair.pair, scope, estimand, said.alpha * pair.weight / total, weighted=True)
        for pair, scope, estimand in asked
    ]
    known = {(q.a, q.b, q.scope, q.estimand) for q in found}
    for estimand in estimands:
        scopes = (*study.setups, SUITE) if suite and estimand != "return" else study.setups
        for scope in scopes:
            for pair in study.comparisons:
                if (*pair.pair, scope, estimand) not in known:
                    found.append(Question(*pair.pair, scope, estimand, said.alpha, weighted=False))
    return found


def fewest_seeds(asked: Sequence[Question], effect: float) -> tuple[int, int | None]:
    """Returns the seeds that the clearest difference takes, and two arms that never differ.

    Args:
        asked: The questions; the one with the smallest level counts.
        effect: The smallest effect of interest as a share of the range.
    """
    alpha = min(q.alpha for q in asked)
    clear = seeds_until(log_wealth_above(np.ones(200), 1.0), alpha)
    equal = seeds_until(log_wealth_above(np.zeros(1000), 1.0, -min(effect, 0.99)), alpha)
    return int(clear), int(equal) if np.isfinite(equal) else None


@dataclass(frozen=True, eq=False)
class ComparisonResult:
    """A question and what the runs say to it.

    Attributes:
        question: What was asked.
        measure: What is compared, in words.
        seeds: Seeds of both arms behind it.
        effect: The smallest effect of interest on its scale.
        interval: From the range of the scores alone; None where no range is known.
        model: Welch's interval at the same level, as if scores were near normal.
        permutation_p: p-value of the mean difference under exchangeable runs; None where no share
            of α is at stake.
        permutation_adjusted: The same times α over this question's share of it, to be held
            against α.
        contradiction: Whether no mean difference agrees with all looks; then there is no verdict.
        verdict: Where the interval lies; where there is no range, where the model's does.
        model_verdict: Where the model's lies.
        lost: Runs of either arm that the machine lost; they entered as best and as worst.
        clipped: Runs whose score was clipped to the range.
        hidden: Largest failure rate that the seeds leave plausible, by label that never failed.
        wealth: Log-wealth against no difference after every seed.
        improvement: P(a run of the first beats one of the second), ties half.
        percentile: The bootstrap interval of the difference that other papers print.
        percentile_improvement: The same of the probability of improvement.
        confirmatory: Whether the verdict is a claim.
        broken: Why there is none, where every run of an arm crashed with the same exception.
    """

    question: Question
    measure: str
    seeds: int
    effect: float
    interval: Interval | None
    model: Interval | None
    permutation_p: float | None
    permutation_adjusted: float | None
    contradiction: bool
    verdict: Verdict
    model_verdict: Verdict
    lost: int
    clipped: int
    hidden: dict[str, float]
    wealth: Wealth | None
    improvement: Interval | None
    percentile: Interval | None
    percentile_improvement: Interval | None
    confirmatory: bool
    broken: str = ""

    @property
    def shown(self) -> Interval | None:
        """The interval that decides."""
        return self.interval if self.interval is not None else self.model

    def sentence(self) -> str:
        """Returns the verdict in plain English, with what it rests on."""
        asked, shown = self.question, self.shown
        where = "Over all setups" if asked.scope == SUITE else f"On {asked.scope}"
        if self.broken:
            return f"{where}, {asked.a} and {asked.b} are not compared: {self.broken}."
        if self.contradiction:
            return (
                f"{where}, there is no verdict on {asked.a} and {asked.b} in {self.measure}: no "
                f"mean difference agrees with all {self.seeds} seeds, which happens with "
                f"probability {asked.alpha:.2g} at most if seeds are independent draws; see what "
                "changed between them."
            )
        small = shown is not None and max(abs(shown.low), abs(shown.high)) < self.effect
        text = claim(self.verdict, asked.a, asked.b, where, self.measure, self.effect, small=small)
        text += f" ({evidence(shown)})"
        if self.interval is None and self.lost:
            text += (
                f"; {plural(self.lost, 'run')} lost to the machine could have scored anything, "
                "because the range of this score is not known"
            )
        elif self.interval is None and self.model is not None:
            text += "; this rests on a t-test, because the range of this score is not known"
        elif self.verdict is Verdict.UNDECIDED and self.model_verdict is not Verdict.UNDECIDED:
            text += f"; a t-test would already say “{self.model_verdict}”{self._trust()}"
        text += self._permutation()
        return f"{text}." if self.confirmatory else f"Exploratory: {text[0].lower()}{text[1:]}."

    def progress(self, most: int) -> str:
        """Returns how far the question is from being decided.

        Args:
            most: Seeds that the study may have.
        """
        q = self.question
        name = f"{q.a} − {q.b} on {q.scope}, {q.estimand}"
        if self.broken:
            return f"{name}: {self.broken}"
        if self.verdict is not Verdict.UNDECIDED or self.wealth is None or not self.seeds:
            model = " by a t-test, which decides after the last seed alone"
            looked = model if self.interval is None and 0 < self.seeds < most else ""
            return f"{name}: {self.verdict} after {plural(self.seeds, 'seed')}{looked}"
        reached = max(float(side.max()) for side in self.wealth)
        needed = log_threshold(q.alpha)
        text = (
            f"{name}: undecided after {self.seeds} of at most {most} seeds, wealth "
            f"{math.exp(reached):.3g} of {math.exp(needed):.3g}"
        )
        if reached > 0.1:
            left = math.ceil(self.seeds * (needed / reached - 1))
            text += f"; about {plural(left, 'seed')} more at this pace" if left < 10 * most else ""
        return text

    def _permutation(self) -> str:
        """Returns where a permutation test at the same level says something else."""
        p, told_apart = self.permutation_p, self.verdict in (Verdict.BETTER, Verdict.WORSE)
        if p is None or told_apart == (p <= self.question.alpha):
            return ""
        adjusted = f"(adjusted p = {self.permutation_adjusted:.2g})"
        if told_apart:
            return f"; a permutation test alone would not tell them apart {adjusted}"
        return (
            "; a permutation test, which asks only whether the runs could have changed labels, "
            f"would tell them apart {adjusted}"
        )

    def _trust(self) -> str:
        if not self.hidden:
            return ""
        rate = max(self.hidden.values())
        return f"; it trusts that failures rarer than 1 in {1 / rate:.0f} do not exist"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values under the names that outside checks rely on."""
        asked, shown = self.question, self.shown
        return {
            "task": asked.scope,
            "a": asked.a,
            "b": asked.b,
            "estimand": asked.estimand,
            "low": shown.low if shown else None,
            "high": shown.high if shown else None,
            "estimate": shown.estimate if shown else None,
            "verdict": self.verdict.value,
            "n": self.seeds,
            "alpha": asked.alpha,
            "weighted": asked.weighted,
            "confirmatory": self.confirmatory,
            "sentence": self.sentence(),
            "beside": self.beside(),
        }

    def beside(self) -> dict[str, Any]:
        """Returns what stands beside the verdict and decides nothing, as plain values."""
        named = ("model", "percentile", "improvement", "percentile_improvement")
        found = {name: getattr(self, name) for name in named}
        return {
            **{name: None if item is None else item.to_dict() for name, item in found.items()},
            "model_verdict": self.model_verdict.value,
            "permutation_p": self.permutation_p,
            "permutation_adjusted": self.permutation_adjusted,
            "smallest_effect": self.effect,
            "hidden_failure_rates": self.hidden,
            "lost": self.lost,
            "clipped": self.clipped,
            "contradiction": self.contradiction,
        }


def model_coverage(results: Sequence[ComparisonResult]) -> str:
    """Returns how often Welch's interval held the truth in simulations of each pair's shapes.

    Pairs of which the same is to be said are named together; a pair whose shapes were not
    simulated against each other is told so.
    """
    several = len({item.question.scope for item in results}) > 1
    said: dict[str, list[str]] = {}
    for item in results:
        if item.model is None:
            continue
        q, known = item.question, item.model.coverage
        name = f"{q.a} − {q.b}" + (f" on {q.scope}" if several else "")
        sentence = known.sentence() if known else "coverage not simulated for so few runs"
        said.setdefault(sentence, []).append(name)
    parts = [f"{', '.join(names)}: {sentence}" for sentence, names in said.items()]
    return "; ".join(parts) or "No run varies, so it has none"


def compare(
    table: ScoreTable, question: Question, *, confirmatory: bool, beside: bool = True
) -> ComparisonResult:
    """Answers one question.

    Args:
        table: The scored runs.
        question: What is asked.
        confirmatory: Whether the study kept to its plan.
        beside: Whether to resample what stands beside the verdict, which takes most of the time.
    """
    q, said = question, table.study.statistics
    pairs = table.paired(q.a, q.b, q.scope, q.estimand)
    effect = table.smallest_effect(q.estimand, q.scope)
    interval, wealth, contradiction = _from_range(pairs, q.alpha)
    model = _from_model(pairs, q.alpha)
    broken = table.broken((q.a, q.b), q.scope)
    if broken:
        # Not even what could be said of lost runs: these have no score.
        interval = wealth = model = None
    # Without a range nothing is known of what lost runs could have scored.
    decides = model if pairs.bounds is None and not pairs.lost else interval
    verdict = Verdict.UNDECIDED if contradiction else judge(decides, effect)
    # A sensitivity of claims; exploratory comparisons have none.
    p = _permutation_p(pairs, table.rng("permute", *_names(q))) if beside and q.weighted else None
    further = _further(table, q) if beside else dict.fromkeys(_FURTHER)
    return ComparisonResult(
        question=q,
        measure=table.measures[q.estimand],
        seeds=len(pairs.x),
        effect=effect,
        interval=interval,
        model=model,
        permutation_p=p,
        permutation_adjusted=None if p is None else min(1, p * said.alpha / q.alpha),
        contradiction=contradiction,
        verdict=verdict,
        model_verdict=judge(model, effect),
        lost=pairs.lost,
        clipped=pairs.clipped,
        hidden=_hidden(table, q, len(pairs.x)),
        wealth=wealth,
        confirmatory=confirmatory and q.weighted and not broken,
        broken=broken,
        **further,
    )


def _from_range(pairs: Paired, alpha: float) -> tuple[Interval | None, Wealth | None, bool]:
    """Returns the interval, the wealth, and whether the seeds contradict each other."""
    if pairs.bounds is None or not len(pairs.x):
        return None, None, False
    # Runs lost to the machine enter twice: the interval reaches from the worst case to the best.
    worst, best = pairs.differences("worst"), pairs.differences("best")
    half = pairs.half_range
    lower = upper = difference_ends(worst, half, alpha)
    if pairs.lost:
        upper = difference_ends(best, half, alpha)
    interval = Interval(
        estimate=float((worst.mean() + best.mean()) / 2),
        low=lower.low,
        high=upper.high,
        level=1 - alpha,
        kind=KIND,
        estimand="difference",
        runs=len(pairs.x),
        tasks=pairs.x.shape[1],
    )
    # Each side bets against the case that suits it least, as the ends of the interval do.
    wealth = Wealth(log_wealth_above(worst, half), log_wealth_above(-best, half))
    return interval, wealth, lower.contradiction and upper.contradiction


def _from_model(pairs: Paired, alpha: float) -> Interval | None:
    keep = ~(np.isnan(pairs.x).any(axis=1) | np.isnan(pairs.y).any(axis=1))
    x, y = pairs.x[keep], pairs.y[keep]
    if len(x) < 2:
        return None
    moments = welch.difference_moments(x, y)
    if not moments.error > 0:
        return None
    low, high = welch.bounds(moments, 1 - alpha)
    interval = Interval(
        estimate=float(moments.estimate),
        low=float(low),
        high=float(high),
        level=1 - alpha,
        kind="welch-t",
        estimand="difference",
        runs=len(x),
        tasks=x.shape[1],
    )
    return coverage.attach(interval, coverage.classify_pair(x, y))


def _permutation_p(pairs: Paired, rng: np.random.Generator) -> float | None:
    x, y = (values[~np.isnan(values).any(axis=1)].mean(axis=1) for values in (pairs.x, pairs.y))
    return permutation_p_value(x, y, rng) if len(x) and len(y) else None


def _hidden(table: ScoreTable, q: Question, seeds: int) -> dict[str, float]:
    """Returns what failure rate could hide behind the seeds of each arm that never failed."""
    if not seeds:
        return {}
    found = {}
    for label in (q.a, q.b):
        cells = [table.cell(label, setup).loc[: seeds - 1] for setup in table.setups(q.scope)]
        if all((cell["solved"] > 0).all() for cell in cells):
            found[label] = hidden_failure_rate(seeds, q.alpha)
    return found


_FURTHER = ("improvement", "percentile", "percentile_improvement")


def _names(q: Question) -> tuple[str, str, str, str]:
    return q.a, q.b, q.scope, q.estimand


def _further(table: ScoreTable, q: Question) -> dict[str, Interval | None]:
    """Returns what is printed beside the verdict: probability of improvement, other papers'."""
    found: dict[str, Interval | None] = dict.fromkeys(_FURTHER)
    a, b = (table.scores(label, q.scope, q.estimand) for label in (q.a, q.b))
    if a is None or b is None:
        return found
    level = 1 - table.study.statistics.alpha
    with contextlib.suppress(UserError):
        found["improvement"] = intervals.probability_of_improvement(a, b, level)
    with contextlib.suppress(UserError):
        papers = intervals.percentile_pair(a, b, table.rng("percentile", *_names(q)), level)
        found["percentile"] = papers.get("difference")
        found["percentile_improvement"] = papers.get("improvement")
    return found
