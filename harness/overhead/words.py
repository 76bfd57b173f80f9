"""Verdict sentences, each made from findings and from nothing else."""

from __future__ import annotations

import math
from typing import Any

from pacebench.harness.overhead.ratios import Speed
from pacebench.harness.overhead.settings import REFERENCE

Finding = dict[str, Any]
# What the exponents of a closed form that does O(K d) work may be, measured on a real machine.
LINEAR = 1.1


def duration(seconds: float) -> str:
    """Returns a time with two or three significant digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.2g} {unit}"
    raise AssertionError("unreachable")


def factor(value: float) -> str:
    """Returns a ratio: three digits near one, whole numbers where it is large."""
    if value >= 99.5:
        digits = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}".replace(",", "\u202f")
    return f"{value:.3g}" if value >= 9.95 else f"{value:.2f}"


def count(value: int) -> str:
    """Returns a whole number in groups of three digits."""
    return f"{value:,}".replace(",", "\u202f")


def percent(value: float) -> str:
    """Returns a share with two significant digits."""
    value *= 100
    shown = f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %"
    return shown.replace("-", "−")


def clock_name(summary: Finding) -> str:
    """Returns what the clock that verdicts go by measures."""
    return "Wall-clock time" if summary["clock"] == "wall" else "Processor time"


def claim(outcome: str, word: str, sentence: str, strength: str = "") -> Finding:
    """Returns one claim as plain JSON."""
    return {"outcome": outcome, "word": word, "sentence": sentence, "strength": strength}


def all_claims(summary: Finding) -> list[Finding]:
    """Returns the verdicts of a measurement, the self-check first."""
    claims = [*check_claims(summary["check"], summary["twins"])]
    if summary["clock"] == "cpu":
        said = (
            "The machine was busy with other work, so verdicts go by processor time: the wall "
            f"clock ran {percent(summary['wall_over_cpu'] - 1)} ahead of it."
        )
        claims.append(claim("inconclusive", "clock", said, "both are in the tables"))
    for cell in headline_cells(summary):
        claims += ratio_claims(cell)
    claims += reach_claims(summary)
    claims += scaling_claims(summary["scaling"])
    claims += quality_claims(summary["quality"])
    if summary["training"]:
        claims += training_claims(summary["training"])
    return claims


def headline_cells(summary: Finding) -> list[Finding]:
    """Returns the recorded streams, or the synthetic cell most like them where there is none."""
    cells: list[Finding] = summary["cells"]
    recorded = [cell for cell in cells if cell["kind"] == "recorded"]
    if recorded:
        return recorded
    return [min(cells, key=lambda c: (abs(math.log(c["d"] / 3)), abs(math.log(c["size"] / 16))))]


def check_claims(check: Finding, twins: Finding) -> list[Finding]:
    """Says whether the measurement sees a difference, and none where there is none."""
    again, slowed = check["again"], check["slowed"]
    quiet = again["outcome"] == Speed.INCONCLUSIVE.value
    found = slowed["outcome"] == Speed.SLOWER.value
    strength = f"{check['blocks']} blocks, noise floor {percent(check['floor'] - 1)}"
    claims = [
        claim(
            "equivalent" if quiet else "worse",
            "✓ A/A" if quiet else "✗ A/A",
            f"The same curriculum under two names: time ratio {_spread(again)}, "
            + ("inconclusive as it must be." if quiet else "a difference that is not there."),
            strength,
        ),
        claim(
            "equivalent" if found else "worse",
            "✓ 5 %" if found else "✗ 5 %",
            f"An injected slowdown of 5 % is {'found' if found else 'not found'}: time ratio "
            f"{_spread(slowed)}.",
            strength,
        ),
    ]
    chance = twins["p_value"] >= 0.05
    claims.append(
        claim(
            "equivalent" if chance else "worse",
            "✓ A/A" if chance else "✗ A/A",
            f"Over the grid, {twins['false']} of {twins['cells']} A/A intervals exclude 1, "
            + (
                "no more than chance gives."
                if chance
                else "more than chance gives: read with care."
            ),
            f"5 % expected, p = {twins['p_value']:.2f}; median noise floor "
            f"{percent(twins['median_floor'] - 1)}",
        )
    )
    return claims


def ratio_claims(cell: Finding) -> list[Finding]:
    """Compares every self-paced curriculum with the closed form on one stream."""
    reference = cell["methods"].get(REFERENCE, {})
    claims = []
    for name, found in cell["methods"].items():
        if name == REFERENCE or "quality" not in found or found["status"] != "ok":
            continue
        against = found["ratio"]
        outcome = against["outcome"]
        times = (
            f"{duration(found['time']['estimate'])} against "
            f"{duration(reference['time']['estimate'])} per update"
        )
        strength = (
            f"{against['blocks']} paired blocks; by the wall clock {_spread(found['wall_ratio'])}, "
            f"processor time {_spread(found['cpu_ratio'])}; noise floor "
            f"{percent(against['floor'] - 1)}"
        )
        where = f"On {stream_name(cell)}, {name}"
        if outcome == Speed.SLOWER.value:
            said = f"{where} takes {_spread(against)} times as long as {REFERENCE}: {times}."
            claims.append(claim("worse", "slower", said, strength))
        elif outcome == Speed.FASTER.value:
            said = f"{where} takes {_spread(against)} of the time of {REFERENCE}: {times}."
            claims.append(claim("better", "faster", said, strength))
        else:
            said = (
                f"{where} and {REFERENCE} cannot be told apart: ratio {_spread(against)}, {times}."
            )
            claims.append(claim("inconclusive", "inconclusive", said, strength))
    solver = cell.get("pairs", {}).get("spdl/spdl-sqp")
    closed = cell["methods"].get("spdl-sqp", {}).get("ratio")
    if solver and closed:
        total = math.log(solver["estimate"] * closed["estimate"])
        share = math.log(solver["estimate"]) / total if total else 0.0
        claims.append(
            claim(
                "equivalent",
                "where from",
                f"On {stream_name(cell)}, a better solver of SPDL's own problem already gives a "
                f"factor {_spread(solver)}; the closed form gives a further {_spread(closed)}, and "
                "part of that is its smaller family of distributions.",
                f"the solver is {percent(share)} of the way on a logarithmic scale",
            )
        )
    return claims


def reach_claims(summary: Finding) -> list[Finding]:
    """Says how far each self-paced curriculum gets within the limit."""
    limit = summary["settings"]["limit"]
    cells = [cell for cell in summary["cells"] if cell["kind"] == "synthetic"]
    largest = max(cell["d"] for cell in cells)
    said = []
    for name in summary["quality"]:
        done = [cell["d"] for cell in cells if cell["methods"][name]["status"] == "ok"]
        failed = sorted({c["d"] for c in cells if c["methods"][name]["status"] == "failed"})
        reach = f"{name} {f'd = {count(max(done))}' if done else 'nowhere'}"
        if failed:
            reach += f" (and raised an error at d = {', '.join(map(str, failed))})"
        said.append(reach)
    return [
        claim(
            "equivalent",
            "reach",
            f"Largest d at which an update takes at most {limit:g} s for some K of the grid: "
            f"{'; '.join(said)}.",
            f"the grid ends at d = {count(largest)}",
        )
    ]


def scaling_claims(scaling: Finding) -> list[Finding]:
    """Says how the closed forms grow, and whether that is linear."""
    claims = []
    for name in (REFERENCE, "spgl-shared"):
        fit = scaling.get(name)
        if fit is None or fit["size"] is None:
            continue
        linear = fit["d"]["estimate"] <= LINEAR and fit["size"]["estimate"] <= LINEAR
        claims.append(
            claim(
                "better" if linear else "worse",
                "scaling",
                f"{name} grows as d^{_exponent(fit['d'])} and K^{_exponent(fit['size'])} beyond a "
                f"fixed cost of {duration(fit['fixed'])}"
                + ("" if linear else f", which is more than the {LINEAR} that linear work allows")
                + ".",
                f"t = t₀ + c·dᵅ·Kᵝ over {fit['cells']} cells, K·d = {count(fit['range'][0])} to "
                f"{count(fit['range'][1])}; work dominates in {fit['working']} of them; largest "
                f"misfit {percent(math.expm1(fit['misfit']))}",
            )
        )
    return claims


def quality_claims(pooled: Finding) -> list[Finding]:
    """Says which answers are wrong, however fast."""
    claims = []
    for name, found in pooled.items():
        n = found["updates"]
        gap = "none measurable" if found["gap_median"] is None else percent(found["gap_median"])
        parts = []
        if found["over_budget"]:
            parts.append(
                f"exceeds its KL budget in {found['over_budget']} of {n} updates, by up to "
                f"{factor(found['budget_worst'])} ε"
            )
        if found["short"]:
            parts.append(
                f"falls short of V₋ in {found['short']} of {found['converging']} convergence steps"
            )
        if found["rejected"]:
            parts.append(f"rejects {found['rejected']} of {n} updates")
        said = f"{name} " + (
            "; ".join(parts) if parts else f"keeps its constraints in all {n} updates"
        )
        claims.append(
            claim(
                "worse" if parts else "better",
                "quality",
                f"{said}.",
                f"median optimality gap {gap} (0 % is the best feasible answer of any method, "
                f"100 % is not moving), in the {found['problem']}-KL problem",
            )
        )
    return claims


def training_claims(training: Finding) -> list[Finding]:
    """Says what the curriculum costs in a whole training run, and what a second buys."""
    methods = training["methods"]
    where = f"{training['setup']}, {count(training['env_steps'])} steps"
    strength = f"{training['seeds']} seeds, one run at a time, evaluation not counted"
    shares = [
        f"{name} {percent(found['share']['estimate'])} ({percent(found['share']['low'])} to "
        f"{percent(found['share']['high'])})"
        for name, found in methods.items()
    ]
    claims = [
        claim(
            "equivalent",
            "share",
            f"The curriculum's share of training time ({where}): {'; '.join(shares)}.",
            strength,
        )
    ]
    for name, found in methods.items():
        longer = found.get("training_ratio")
        if longer and longer["outcome"] != Speed.INCONCLUSIVE.value:
            slower = longer["outcome"] == Speed.SLOWER.value
            claims.append(
                claim(
                    "worse" if slower else "better",
                    longer["outcome"],
                    f"Training with {name} takes {_spread(longer)} times as long as with "
                    f"{REFERENCE} ({where}).",
                    strength,
                )
            )
    scores = [
        f"{name} {found['at_common']['estimate']:.3g} and {found['final']['estimate']:.3g}"
        for name, found in methods.items()
    ]
    claims.append(
        claim(
            "inconclusive",
            "scores",
            f"Target return after {duration(training['common_seconds'])} of training, and after "
            f"all {count(training['env_steps'])} steps: {'; '.join(scores)}.",
            f"means over {training['seeds']} seeds, intervals in the table; no comparison was "
            "declared, so this ranks nothing",
        )
    )
    return claims


def stream_name(cell: Finding) -> str:
    """Returns how prose calls the stream of a cell."""
    size = f"d = {cell['d']}, K = {cell['size']}"
    if cell["kind"] == "recorded":
        return f"the stream recorded on {cell['name'].removeprefix('recorded-')} ({size})"
    return f"the synthetic stream ({size})"


def _spread(found: Finding) -> str:
    return f"{factor(found['estimate'])} ({factor(found['low'])} to {factor(found['high'])})"


def _exponent(found: Finding) -> str:
    return f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
