"""Verdict sentences, each made from findings and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.compare import Agreement
from pacebench.harness.overhead.findings import CellFinding, OverheadSummary, Speed
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.document import Claim
from pacebench.harness.report.overhead.formats import duration, factor, percent, with_interval
from pacebench.harness.report.tables import count
from pacebench.harness.statistics.verdicts import VerdictKind

# What the exponents of a closed form that does O(K d) work may be, measured on a real machine.
LINEAR = 1.1

GOOD, BAD = VerdictKind.BETTER.value, VerdictKind.WORSE.value
NEUTRAL, OPEN = VerdictKind.EQUIVALENT.value, VerdictKind.INCONCLUSIVE.value
TONES = {Speed.SLOWER: BAD, Speed.FASTER: GOOD, Speed.INCONCLUSIVE: OPEN}


def all_claims(summary: OverheadSummary) -> list[Claim]:
    """Returns the verdicts of a measurement, the self-check first."""
    claims = [*_check_claims(summary.check, summary.twins)]
    if summary.clock == "cpu":
        said = (
            "The machine was busy with other work, so verdicts go by processor time: the wall "
            f"clock ran {percent(summary.wall_over_cpu - 1)} ahead of it."
        )
        claims.append(Claim(OPEN, "clock", said, "both are in the tables"))
    for cell in headline_cells(summary):
        claims += [*_ratio_claims(cell), *_solver_claims(cell)]
    claims.append(_reach_claim(summary))
    for name in (REFERENCE, "spgl-shared"):
        if name in summary.scaling:
            claims += _scaling_claims(name, summary.scaling[name])
    claims += [_quality_claim(name, found) for name, found in summary.quality.items()]
    if summary.training is not None:
        claims += _training_claims(summary.training)
    return claims


def headline_cells(summary: OverheadSummary) -> list[CellFinding]:
    """Returns the recorded streams, or the synthetic cell most like them where there is none."""
    recorded = [cell for cell in summary.cells if cell.kind == "recorded"]

    def distance(cell: CellFinding) -> tuple[float, float]:
        return abs(math.log(cell.d / 3)), abs(math.log(cell.size / 16))

    return recorded or [min(summary.cells, key=distance)]


def _check_claims(check: findings.CheckFinding, twins: findings.TwinsFinding) -> Iterator[Claim]:
    """Says whether the measurement sees a difference, and none where there is none."""
    strength = f"{check.blocks} blocks, noise floor {percent(check.floor - 1)}"
    quiet = check.again.outcome is Speed.INCONCLUSIVE
    yield _checked(
        quiet,
        "A/A",
        f"The same curriculum under two names: time ratio {with_interval(check.again)}, "
        + ("inconclusive as it must be." if quiet else "a difference that is not there."),
        strength,
    )
    found = check.slowed.outcome is Speed.SLOWER
    yield _checked(
        found,
        "5 %",
        f"An injected slowdown of 5 % is {'found' if found else 'not found'}: time ratio "
        f"{with_interval(check.slowed)}.",
        strength,
    )
    chance = twins.p_value >= 0.05
    yield _checked(
        chance,
        "A/A",
        f"Over the grid, {twins.false} of {twins.cells} A/A intervals exclude 1, "
        + ("no more than chance gives." if chance else "more than chance gives: read with care."),
        f"5 % expected, p = {twins.p_value:.2f}; median noise floor "
        f"{percent(twins.median_floor - 1)}",
    )


def _checked(passed: bool, word: str, sentence: str, strength: str) -> Claim:
    return Claim(NEUTRAL if passed else BAD, f"{'✓' if passed else '✗'} {word}", sentence, strength)


def _ratio_claims(cell: CellFinding) -> Iterator[Claim]:
    """Compares every self-paced curriculum with the closed form on one stream."""
    for name, found in cell.timed.items():
        against = found.ratio
        if against is None or found.quality is None:
            continue
        assert found.wall_ratio is not None
        assert found.cpu_ratio is not None
        reference = cell.timed[REFERENCE].time.estimate
        times = f"{duration(found.time.estimate)} against {duration(reference)} per update"
        ratio = with_interval(against)
        said = {
            Speed.SLOWER: f"{name} takes {ratio} times as long as {REFERENCE}: {times}.",
            Speed.FASTER: f"{name} takes {ratio} of the time of {REFERENCE}: {times}.",
            Speed.INCONCLUSIVE: f"{name} and {REFERENCE} cannot be told apart: ratio {ratio}, "
            f"{times}.",
        }
        yield Claim(
            TONES[against.outcome],
            against.outcome.value,
            f"On {_stream_name(cell)}, {said[against.outcome]}",
            f"{against.blocks} paired blocks; by the wall clock {with_interval(found.wall_ratio)}, "
            f"processor time {with_interval(found.cpu_ratio)}; noise floor "
            f"{percent(against.floor - 1)}",
        )


def _solver_claims(cell: CellFinding) -> Iterator[Claim]:
    """Says which part of the ratio to the published solver a better solver gives already."""
    solver = cell.pairs.get("spdl/spdl-sqp")
    closed = cell.timed["spdl-sqp"].ratio if "spdl-sqp" in cell.timed else None
    if solver is None or closed is None:
        return
    total = math.log(solver.estimate * closed.estimate)
    share = math.log(solver.estimate) / total if total else 0.0
    yield Claim(
        NEUTRAL,
        "where from",
        f"On {_stream_name(cell)}, a better solver of SPDL's own problem already gives a factor "
        f"{with_interval(solver)}; the closed form gives a further {with_interval(closed)}, and "
        "part of that is its smaller family of distributions.",
        f"the solver is {percent(share)} of the way on a logarithmic scale",
    )


def _reach_claim(summary: OverheadSummary) -> Claim:
    """Says how far each self-paced curriculum gets within the limit."""
    cells = [cell for cell in summary.cells if cell.kind == "synthetic"]
    reaches = []
    for name in summary.quality:
        done = [cell.d for cell in cells if name in cell.timed]
        failed = sorted({cell.d for cell in cells if cell.methods[name].status == "failed"})
        reach = f"{name} d = {count(max(done))}" if done else f"{name} nowhere"
        if failed:
            reach += f" (and raised an error at d = {', '.join(map(str, failed))})"
        reaches.append(reach)
    return Claim(
        NEUTRAL,
        "reach",
        f"Largest d at which an update takes at most {summary.settings.limit:g} s for some K of "
        f"the grid: {'; '.join(reaches)}.",
        f"the grid ends at d = {count(max(cell.d for cell in cells))}",
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
    scores = "; ".join(
        f"{name} {found.at_common.estimate:.3g} and {found.final.estimate:.3g}"
        for name, found in methods
    )
    yield Claim(
        OPEN,
        "scores",
        f"Target return after {duration(training.common_seconds)} of training, and after all "
        f"{steps} steps: {scores}.",
        f"means over {training.seeds} seeds, intervals in the table; no comparison was declared, "
        "so this ranks nothing",
    )


def _stream_name(cell: CellFinding) -> str:
    size = f"d = {cell.d}, K = {cell.size}"
    if cell.kind == "recorded":
        return f"the stream recorded on {cell.name.removeprefix('recorded-')} ({size})"
    return f"the synthetic stream ({size})"


def agreement_sentence(found: Agreement) -> str:
    """Says whether two runs agree within their intervals."""
    worst = max(found.rows, key=lambda row: abs(math.log1p(row.shift)))
    return (
        f"Of {found.ratios} ratios that both runs have, {found.alone} differ at the 5 % level "
        f"taken alone ({0.05 * found.ratios:.1f} expected by chance) and "
        f"{len(found.disagreeing)} after Holm's correction: the runs "
        f"{'agree' if found.agree else 'do not agree'} within their intervals. Median change "
        f"{found.median_change:.1%}, largest {worst.shift:+.0%} ({worst.method} in {worst.cell})."
    )
