"""Verdict sentences, each made from findings and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.compare import Agreement
from pacebench.harness.overhead.findings import CellFinding, OverheadSummary, Ratio, Speed
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.document import Claim
from pacebench.harness.report.overhead.tables import duration, factor, percent, with_interval
from pacebench.harness.report.tables import count

# What the exponents of a closed form that does O(K d) work may be, measured on a real machine.
LINEAR = 1.1

GOOD, BAD, NEUTRAL, OPEN = "better", "worse", "equivalent", "inconclusive"
TONES = {Speed.SLOWER: BAD, Speed.FASTER: GOOD, Speed.INCONCLUSIVE: OPEN}


def all_claims(summary: OverheadSummary) -> Iterator[Claim]:
    """Yields the verdicts of a measurement, the self-check first."""
    yield from _check_claims(summary.twins)
    if summary.clock == "cpu":
        said = (
            "The machine was busy with other work, so verdicts go by processor time: the wall "
            f"clock ran {percent(summary.wall_over_cpu - 1)} ahead of it."
        )
        yield Claim(OPEN, "clock", said, "both are in the tables")
    for cell in headline_cells(summary):
        yield from _ratio_claims(cell)
        yield from _solver_claims(cell)
    for name in (REFERENCE, "spgl-shared"):
        if name in summary.scaling:
            yield from _scaling_claims(name, summary.scaling[name])
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


def _check_claims(check: findings.CheckFinding) -> Iterator[Claim]:
    """Says whether the measurement sees a difference, and none where there is none."""
    floor = f"median noise floor {percent(check.median_floor - 1)}"
    chance = check.p_value >= 0.05
    yield Claim(
        NEUTRAL if chance else BAD,
        f"{'✓' if chance else '✗'} A/A",
        f"The same curriculum under two names: {check.false} of {check.cells} intervals exclude 1, "
        + ("no more than chance gives." if chance else "more than chance gives: read with care."),
        f"5 % expected, p = {check.p_value:.2f}; {floor}",
    )
    if check.slowed is not None:
        found = check.slowed > check.cells / 2
        yield Claim(
            NEUTRAL if found else BAD,
            f"{'✓' if found else '✗'} 5 %",
            f"An injected slowdown of 5 % is found in {check.slowed} of {check.cells} cells"
            + ("." if found else ": differences of that size were not seen here."),
            floor,
        )


def _ratio_claims(cell: CellFinding) -> Iterator[Claim]:
    """Compares every self-paced curriculum with the closed form on one stream."""
    reference = cell.timed[REFERENCE].time.estimate
    for name, found in cell.timed.items():
        if found.ratio is None or found.outcome is None or found.quality is None:
            continue
        ratio = _both(found.total, found.ratio)
        if found.step_ratio is not None:
            ratio += f" (the methods' own steps alone: {_both(found.step_total, found.step_ratio)})"
        times = f"{duration(found.time.estimate)} against {duration(reference)} per update"
        said = {
            Speed.SLOWER: f"{name} is slower than {REFERENCE}, by a factor of",
            Speed.FASTER: f"{name} is faster than {REFERENCE}, with a ratio of times of",
            Speed.INCONCLUSIVE: f"{name} and {REFERENCE} cannot be told apart; their ratio is",
        }
        strength = [f"{found.ratio.blocks} blocks, noise floor {percent(found.ratio.floor - 1)}"]
        if found.total is not None:
            strength.insert(0, f"intervals for other instances, from {found.total.instances}")
            strength.append(
                f"for these instances timed again {_same(found.total)} and {_same(found.ratio)}"
            )
        where = f"On {_stream_name(cell)}, {said[found.outcome]} {ratio}; {times}."
        yield Claim(TONES[found.outcome], found.outcome.value, where, "; ".join(strength))


def _both(total: Ratio | None, each: Ratio) -> str:
    said = f"{with_interval(each)} in the geometric mean over updates"
    return said if total is None else f"{with_interval(total)} in total and {said}"


def _same(ratio: Ratio) -> str:
    ends = ratio.same_instances
    return "unknown" if ends is None else f"{factor(ends.low)} to {factor(ends.high)}"


def _solver_claims(cell: CellFinding) -> Iterator[Claim]:
    """Says which part of the ratio to the published solver a better solver gives already."""
    solver = cell.pairs.get("spdl/spdl-sqp")
    closed = cell.timed["spdl-sqp"].ratio if "spdl-sqp" in cell.timed else None
    if solver is None or closed is None:
        return
    whole = math.log(solver.estimate * closed.estimate)
    share = math.log(solver.estimate) / whole if whole else 0.0
    yield Claim(
        NEUTRAL,
        "where from",
        f"On {_stream_name(cell)}, a better solver of SPDL's own problem already gives a factor "
        f"{with_interval(solver)} per update; the closed form gives a further "
        f"{with_interval(closed)}, and part of that is its smaller family of distributions.",
        f"the solver is {percent(share)} of the way on a logarithmic scale; published solver means "
        "trust-constr with the published settings and analytic gradients",
    )


def _scaling_claims(name: str, fit: findings.ScalingFinding) -> Iterator[Claim]:
    """Says how a closed form grows, and whether that is linear."""
    if fit.size is None:
        return
    linear = fit.d.estimate <= LINEAR and fit.size.estimate <= LINEAR
    alpha, beta = (with_interval(exponent, "{:.2f}".format) for exponent in (fit.d, fit.size))
    yield Claim(
        GOOD if linear else BAD,
        "scaling",
        f"{name} grows as d^{alpha} and K^{beta} beyond a fixed cost of {duration(fit.fixed)}"
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
    steps = count(training.env_steps)
    where = f"{training.setup}, {steps} steps"
    strength = f"{training.seeds} seeds, one run at a time, evaluation not counted"
    shares = "; ".join(f"{name} {with_interval(found.share, percent)}" for name, found in methods)
    said = f"The curriculum's share of training time ({where}): {shares}."
    yield Claim(NEUTRAL, "share", said, strength)
    for name, found in methods:
        longer = found.training_ratio
        if longer is not None and longer.outcome is not Speed.INCONCLUSIVE:
            said = (
                f"Training with {name} takes {with_interval(longer)} times as long as with "
                f"{REFERENCE} ({where})."
            )
            yield Claim(TONES[longer.outcome], longer.outcome.value, said, strength)


def _stream_name(cell: CellFinding) -> str:
    size = f"d = {cell.d}, K = {cell.size}"
    if cell.kind == "recorded":
        return f"the stream recorded on {cell.name.removeprefix('recorded-')} ({size})"
    return f"the synthetic stream ({size})"


def agreement_sentence(found: Agreement) -> str:
    """Says whether two measurements of the same streams agree."""
    worst = max(found.rows, key=lambda row: abs(math.log1p(row.shift)))
    return (
        f"Of {found.ratios} ratios that both have on the same instances, {found.alone} differ at "
        f"the 5 % level taken alone ({0.05 * found.ratios:.1f} expected by chance) and "
        f"{len(found.disagreeing)} after Holm's correction: the measurements "
        f"{'agree' if found.agree else 'do not agree'} within their intervals. Median change "
        f"{found.median_change:.1%}, largest {worst.shift:+.0%} ({worst.method} in {worst.cell})."
    )
