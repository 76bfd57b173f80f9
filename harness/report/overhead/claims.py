"""Verdict sentences, each made from findings and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scipy import stats

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.findings import CellFinding, OverheadSummary, Ratio
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.document import Claim
from pacebench.harness.report.overhead.tables import duration, factor, percent
from pacebench.harness.report.tables import Show, count

# What the exponents of a closed form that does O(K d) work may be, measured on a real machine.
LINEAR = 1.1

GOOD, BAD, NEUTRAL, OPEN = "better", "worse", "equivalent", "inconclusive"
_TONES = {"slower": BAD, "faster": GOOD, "inconclusive": OPEN}
_SAID = {
    "slower": f"is slower than {REFERENCE}, by a factor of",
    "faster": f"is faster than {REFERENCE}, with a ratio of times of",
    "inconclusive": f"cannot be told apart from {REFERENCE}; their ratio is",
}


def all_claims(summary: OverheadSummary) -> Iterator[Claim]:
    """Yields the verdicts of a measurement, the self-check first."""
    yield from _check_claims(summary)
    if summary.clock == "cpu":
        said = (
            "The machine was busy with other work, so verdicts go by processor time: the wall "
            f"clock ran {percent(summary.wall_over_cpu - 1)} ahead of it."
        )
        yield Claim(OPEN, "clock", said, "both are in the tables")
    for cell in headline_cells(summary):
        yield from _ratio_claims(cell)
    for name in (REFERENCE, "spgl-shared"):
        if (fit := summary.scaling.get(name)) is not None:
            yield _scaling_claim(name, fit)
    for name, found in summary.quality.items():
        yield _quality_claim(name, found)
    if summary.training is not None:
        yield from _training_claims(summary.training)


def headline_cells(summary: OverheadSummary) -> list[CellFinding]:
    """Returns the recorded streams, or the synthetic cell most like them where there is none."""
    recorded = [cell for cell in summary.cells if cell.kind == "recorded"]
    return recorded or [min(summary.cells, key=lambda cell: (abs(cell.d - 3), abs(cell.size - 16)))]


def _check_claims(summary: OverheadSummary) -> Iterator[Claim]:
    """Says whether the measurement sees a difference, and none where there is none."""
    cells, floor = summary.cells, f"median noise floor {percent(summary.median_floor - 1)}"
    false = sum(cell.twin.speed() != "inconclusive" for cell in cells)
    p = float(stats.binomtest(false, len(cells), 0.05, alternative="greater").pvalue)
    end = "no more than chance gives" if p >= 0.05 else "more than chance gives: read with care"
    said = (
        f"The same curriculum under two names: {false} of {len(cells)} intervals exclude 1, {end}."
    )
    yield _checked(p >= 0.05, "A/A", said, f"5 % expected, p = {p:.2g}; {floor}")
    slowed = sum(cell.slowed.speed(cell.floor) == "slower" for cell in cells)
    found = slowed > len(cells) / 2
    end = "" if found else ": differences of that size were not seen here"
    said = f"An injected slowdown of 5 % is found in {slowed} of {len(cells)} cells{end}."
    yield _checked(found, "5 %", said, floor)


def _checked(passed: bool, name: str, said: str, strength: str) -> Claim:
    tone, sign = (NEUTRAL, "✓") if passed else (BAD, "✗")
    return Claim(tone, f"{sign} {name}", said, strength)


def _ratio_claims(cell: CellFinding) -> Iterator[Claim]:
    """Compares every self-paced curriculum with the closed form on one stream."""
    stream = "the synthetic stream"
    if cell.kind == "recorded":
        stream = f"the stream recorded on {cell.name.removeprefix('recorded-')}"
    where = f"On {stream} (d = {cell.d}, K = {cell.size}),"
    reference = duration(cell.methods[REFERENCE].time.estimate)
    for name, found in cell.rivals.items():
        if found.quality is None:
            continue
        speed, again = found.speed(cell.floor), (found.total, found.ratio)
        yield Claim(
            _TONES[speed],
            speed,
            f"{where} {name} {_SAID[speed]} {_both(found.total, found.ratio)} (the methods' own "
            f"steps alone: {_both(found.step_total, found.step_ratio)}); "
            f"{duration(found.time.estimate)} against {reference} per update.",
            f"intervals for other instances, from {cell.instances}; {cell.blocks} blocks, noise "
            f"floor {percent(cell.floor - 1)}; for these instances timed again "
            + " and ".join(" to ".join(map(factor, ratio.same_instances)) for ratio in again),
        )
    if (solver := cell.solver) is None:
        return
    closed = cell.methods["spdl-sqp"].ratio
    whole = math.log(solver.estimate * closed.estimate)
    share = math.log(solver.estimate) / whole if whole else 0.0
    yield Claim(
        NEUTRAL,
        "where from",
        f"{where} a better solver of SPDL's own problem already gives a factor "
        f"{_with_interval(solver)} per update; the closed form gives a further "
        f"{_with_interval(closed)}, and part of that is its smaller family of distributions.",
        f"the solver is {percent(share)} of the way on a logarithmic scale; published solver means "
        "trust-constr with the published settings and analytic gradients",
    )


def _with_interval(found: findings.MeanInterval, show: Show = factor) -> str:
    return f"{show(found.estimate)} ({show(found.low)} to {show(found.high)})"


def _both(total: Ratio, each: Ratio) -> str:
    mean = f"{_with_interval(each)} in the geometric mean over updates"
    return f"{_with_interval(total)} in total and {mean}"


def _scaling_claim(name: str, fit: findings.ScalingFinding) -> Claim:
    """Says how a closed form grows, and whether that is linear."""
    linear = max(fit.alpha.estimate, fit.beta.estimate) <= LINEAR
    of_d, of_k = (_with_interval(exponent, "{:.2f}".format) for exponent in (fit.alpha, fit.beta))
    end = "" if linear else f", which is more than the {LINEAR} that linear work allows"
    return Claim(
        GOOD if linear else BAD,
        "scaling",
        f"{name} grows as d^{of_d} and K^{of_k} beyond a fixed cost of {duration(fit.fixed)}{end}.",
        f"t = t₀ + c·dᵅ·Kᵝ over {fit.cells} cells, K·d = {count(fit.range[0])} to "
        f"{count(fit.range[1])}; work dominates in {fit.working} of them; largest misfit "
        f"{percent(math.expm1(fit.misfit))}",
    )


def _quality_claim(name: str, found: findings.QualityFinding) -> Claim:
    """Says which answers are wrong, however fast."""
    of, over = f"of {found.updates} updates", f"by up to {factor(found.budget_worst)} ε"
    short = f"falls short of V₋ in {found.short} of {found.converging} convergence steps"
    faults = {
        f"exceeds its KL budget in {found.over_budget} {of}, {over}": found.over_budget,
        short: found.short,
        f"rejects {found.rejected} {of}": found.rejected,
    }
    said = "; ".join(fault for fault, times in faults.items() if times)
    gap = "none measurable" if math.isnan(found.gap_median) else percent(found.gap_median)
    return Claim(
        BAD if said else GOOD,
        "quality",
        f"{name} {said or f'keeps its constraints in all {found.updates} updates'}.",
        f"median optimality gap {gap} (0 % is the best feasible answer of any method, 100 % is "
        f"not moving), in the {found.problem}-KL problem",
    )


def _training_claims(training: findings.TrainingSummary) -> Iterator[Claim]:
    """Says what the curriculum costs in a whole training run, and what a second buys."""
    methods = training.methods.items()
    where = f"({training.setup}, {count(training.env_steps)} steps)"
    strength = f"{training.seeds} seeds, one run at a time, evaluation not counted"
    shares = "; ".join(f"{name} {_with_interval(found.share, percent)}" for name, found in methods)
    said = f"The curriculum's share of training time {where}: {shares}."
    yield Claim(NEUTRAL, "share", said, strength)
    for name, found in methods:
        if (speed := found.ratio.speed()) != "inconclusive":
            longer = f"takes {_with_interval(found.ratio)} times as long as with {REFERENCE}"
            said = f"Training with {name} {longer} {where}."
            yield Claim(_TONES[speed], speed, said, strength)
