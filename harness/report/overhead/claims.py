"""Verdict sentences, each made from findings and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scipy import stats

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.findings import CellFinding, OverheadSummary, Ratio, Speed
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.document import Claim
from pacebench.harness.report.overhead.tables import duration, factor, percent, with_interval
from pacebench.harness.report.tables import count

# What the exponents of a closed form that does O(K d) work may be, measured on a real machine.
LINEAR = 1.1

GOOD, BAD, NEUTRAL, OPEN = "better", "worse", "equivalent", "inconclusive"
TONES = {Speed.SLOWER: BAD, Speed.FASTER: GOOD, Speed.INCONCLUSIVE: OPEN}
_SAID = {
    Speed.SLOWER: "is slower than {}, by a factor of",
    Speed.FASTER: "is faster than {}, with a ratio of times of",
    Speed.INCONCLUSIVE: "cannot be told apart from {}; their ratio is",
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
        if cell.solver is not None:
            yield _solver_claim(cell, cell.solver, cell.methods["spdl-sqp"].ratio)
    for name in (REFERENCE, "spgl-shared"):
        fit = summary.scaling.get(name)
        if fit is not None and fit.beta is not None:
            yield _scaling_claim(name, fit, fit.beta)
    for name, found in summary.quality.items():
        yield _quality_claim(name, found)
    if summary.training is not None:
        yield from _training_claims(summary.training)


def headline_cells(summary: OverheadSummary) -> list[CellFinding]:
    """Returns the recorded streams, or the synthetic cell most like them where there is none."""
    recorded = [cell for cell in summary.cells if cell.kind == "recorded"]

    def distance(cell: CellFinding) -> tuple[float, float]:
        return abs(math.log(cell.d / 3)), abs(math.log(cell.size / 16))

    return recorded or [min(summary.cells, key=distance)]


def _check_claims(summary: OverheadSummary) -> Iterator[Claim]:
    """Says whether the measurement sees a difference, and none where there is none."""
    cells, floor = summary.cells, f"median noise floor {percent(summary.median_floor - 1)}"
    false = sum(cell.twin.speed() is not Speed.INCONCLUSIVE for cell in cells)
    p = float(stats.binomtest(false, len(cells), 0.05, alternative="greater").pvalue)
    chance = p >= 0.05
    yield Claim(
        NEUTRAL if chance else BAD,
        f"{'✓' if chance else '✗'} A/A",
        f"The same curriculum under two names: {false} of {len(cells)} intervals exclude 1, "
        + ("no more than chance gives." if chance else "more than chance gives: read with care."),
        f"5 % expected, p = {p:.2f}; {floor}",
    )
    slowed = sum(cell.slowed.speed(cell.floor) is Speed.SLOWER for cell in cells)
    found = slowed > len(cells) / 2
    yield Claim(
        NEUTRAL if found else BAD,
        f"{'✓' if found else '✗'} 5 %",
        f"An injected slowdown of 5 % is found in {slowed} of {len(cells)} cells"
        + ("." if found else ": differences of that size were not seen here."),
        floor,
    )


def _ratio_claims(cell: CellFinding) -> Iterator[Claim]:
    """Compares every self-paced curriculum with the closed form on one stream."""
    reference = duration(cell.methods[REFERENCE].time.estimate)
    for name, found in cell.rivals.items():
        if found.quality is None:
            continue
        speed, same = found.speed(cell.floor), (found.total, found.ratio)
        yield Claim(
            TONES[speed],
            speed.value,
            f"On {_stream_name(cell)}, {name} {_SAID[speed].format(REFERENCE)} "
            f"{_both(found.total, found.ratio)} (the methods' own steps alone: "
            f"{_both(found.step_total, found.step_ratio)}); {duration(found.time.estimate)} "
            f"against {reference} per update.",
            f"intervals for other instances, from {cell.instances}; {cell.blocks} blocks, noise "
            f"floor {percent(cell.floor - 1)}; for these instances timed again "
            + " and ".join(" to ".join(map(factor, ratio.same_instances)) for ratio in same),
        )


def _both(total: Ratio, each: Ratio) -> str:
    mean = f"{with_interval(each)} in the geometric mean over updates"
    return f"{with_interval(total)} in total and {mean}"


def _solver_claim(cell: CellFinding, solver: Ratio, closed: Ratio) -> Claim:
    """Says which part of the ratio to the published solver a better solver gives already."""
    whole = math.log(solver.estimate * closed.estimate)
    share = math.log(solver.estimate) / whole if whole else 0.0
    return Claim(
        NEUTRAL,
        "where from",
        f"On {_stream_name(cell)}, a better solver of SPDL's own problem already gives a factor "
        f"{with_interval(solver)} per update; the closed form gives a further "
        f"{with_interval(closed)}, and part of that is its smaller family of distributions.",
        f"the solver is {percent(share)} of the way on a logarithmic scale; published solver means "
        "trust-constr with the published settings and analytic gradients",
    )


def _scaling_claim(name: str, fit: findings.ScalingFinding, beta: findings.MeanInterval) -> Claim:
    """Says how a closed form grows, and whether that is linear."""
    linear = fit.alpha.estimate <= LINEAR and beta.estimate <= LINEAR
    of_d, of_k = (with_interval(exponent, "{:.2f}".format) for exponent in (fit.alpha, beta))
    return Claim(
        GOOD if linear else BAD,
        "scaling",
        f"{name} grows as d^{of_d} and K^{of_k} beyond a fixed cost of {duration(fit.fixed)}"
        + ("." if linear else f", which is more than the {LINEAR} that linear work allows."),
        f"t = t₀ + c·dᵅ·Kᵝ over {fit.cells} cells, K·d = {count(fit.range[0])} to "
        f"{count(fit.range[1])}; work dominates in {fit.working} of them; largest misfit "
        f"{percent(math.expm1(fit.misfit))}",
    )


def _quality_claim(name: str, found: findings.QualityFinding) -> Claim:
    """Says which answers are wrong, however fast."""
    faults = []
    if found.over_budget:
        faults.append(
            f"exceeds its KL budget in {found.over_budget} of {found.updates} updates, by up to "
            f"{factor(found.budget_worst)} ε"
        )
    if found.short:
        faults.append(f"falls short of V₋ in {found.short} of {found.converging} convergence steps")
    if found.rejected:
        faults.append(f"rejects {found.rejected} of {found.updates} updates")
    kept = f"keeps its constraints in all {found.updates} updates"
    gap = "none measurable" if math.isnan(found.gap_median) else percent(found.gap_median)
    return Claim(
        BAD if faults else GOOD,
        "quality",
        f"{name} {'; '.join(faults) or kept}.",
        f"median optimality gap {gap} (0 % is the best feasible answer of any method, 100 % is "
        f"not moving), in the {found.problem}-KL problem",
    )


def _training_claims(training: findings.TrainingSummary) -> Iterator[Claim]:
    """Says what the curriculum costs in a whole training run, and what a second buys."""
    methods = training.methods.items()
    where = f"{training.setup}, {count(training.env_steps)} steps"
    strength = f"{training.seeds} seeds, one run at a time, evaluation not counted"
    shares = "; ".join(f"{name} {with_interval(found.share, percent)}" for name, found in methods)
    said = f"The curriculum's share of training time ({where}): {shares}."
    yield Claim(NEUTRAL, "share", said, strength)
    for name, found in methods:
        if (speed := found.ratio.speed()) is not Speed.INCONCLUSIVE:
            said = (
                f"Training with {name} takes {with_interval(found.ratio)} times as long as with "
                f"{REFERENCE} ({where})."
            )
            yield Claim(TONES[speed], speed.value, said, strength)


def _stream_name(cell: CellFinding) -> str:
    size = f"d = {cell.d}, K = {cell.size}"
    if cell.kind == "recorded":
        return f"the stream recorded on {cell.name.removeprefix('recorded-')} ({size})"
    return f"the synthetic stream ({size})"
