"""What captions have in common: names, numbers, and sentences about intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pacebench.harness.analysis.table import SUITE
from pacebench.harness.analysis.verdicts import plural as plural
from pacebench.harness.statistics.interval import Interval, level_words, shape_words

_KINDS = {
    "welch-t": "Welch–Satterthwaite t",
    "confidence-sequence": "confidence-sequence",
    "expanded-percentile": "expanded percentile (Hesterberg)",
    "percentile (rliable)": "percentile bootstrap (rliable)",
    "wilson": "Wilson",
    "learned-miller-thomas": "Learned-Miller–Thomas",
    "logit-brunner-munzel": "logit Brunner–Munzel",
    "kolmogorov": "Kolmogorov",
}


def scope(name: str) -> str:
    """Returns how a scope is printed."""
    return "all setups" if name == SUITE else name


def capital(text: str) -> str:
    """Returns text with a capital first letter, the others as they are."""
    return text[:1].upper() + text[1:]


def extent(values: Iterable[float]) -> str:
    """Returns the smallest and the largest of some numbers, or the one that they all are."""
    ordered = sorted(set(values))
    return "–".join(f"{value:g}" for value in dict.fromkeys((ordered[0], ordered[-1])))


def short_count(value: float) -> str:
    """Returns a number of steps in the fewest characters: 250k, 1.5M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{letter}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def slug(text: str) -> str:
    """Returns text as a file name: a setup may be called anything."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in text)


def intervals(found: Iterable[Interval | None]) -> str:
    """Returns what a caption says of its intervals: level, kind, n and simulated coverage."""
    known = [item for item in found if item is not None]
    if not known:
        return "No interval can be given from so few runs; the points are the runs themselves."
    sentences = []
    for kind in dict.fromkeys(item.kind for item in known):
        mine = [item for item in known if item.kind == kind]
        level = f"{level_words(mine[0].level)} %"
        runs = extent(item.runs for item in mine)
        name = _KINDS.get(kind, kind)
        if kind == "confidence-sequence":
            levels = sorted({level_words(item.level) for item in mine}, key=float)
            shown = levels[0] if len(levels) == 1 else f"{levels[0]}–{levels[-1]}"
            sentences.append(
                f"{shown} % intervals from the range of the scores alone, n = {runs} seeds: they "
                "hold for any shape of scores and at every look."
            )
            continue
        sentences.append(f"{level} {name} intervals, n = {runs} runs per cell; {coverage(mine)}.")
    return " ".join(sentences)


def percentiles(found: Iterable[Interval | None]) -> str:
    """Returns what captions say of the intervals that other papers print; empty without any."""
    known = [item for item in found if item is not None]
    return f"\nFor comparison, as other papers print it: {intervals(known)}" if known else ""


def coverage(found: Sequence[Interval]) -> str:
    """Returns the simulated coverage of intervals of one kind."""
    covered = [item.coverage for item in found if item.coverage is not None]
    if not covered:
        return "coverage not simulated for this case"
    parts = []
    for shape in dict.fromkeys(c.shape for c in covered if c.matched):
        shares = sorted(
            {f"{100 * c.share:.1f}" for c in covered if c.matched and c.shape == shape}, key=float
        )
        shown = shares[0] if len(shares) == 1 else f"{shares[0]}–{shares[-1]}"
        parts.append(f"{shown} % for {shape_words(shape)}")
    low = min(covered, key=lambda c: c.worst)
    parts.append(f"{100 * low.worst:.1f} % for the worst shape, {shape_words(low.worst_shape)}")
    cells = ", ".join(dict.fromkeys(c.cell for c in covered))
    text = f"simulated coverage {', '.join(parts)} ({cells})"
    if not all(c.matched for c in covered):
        text += "; some of these data have a shape that was not simulated"
    lacking = dict.fromkeys(item.estimand for item in found if item.coverage is None)
    if lacking:
        text += f"; not simulated for every {' and '.join(lacking)}"
    if any(item.under_covers for item in found):
        text += "; such intervals are narrower than they claim"
    return text
