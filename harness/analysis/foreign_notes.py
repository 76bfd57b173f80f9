"""What must be said of scores that were not made here, and what cannot be known of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from pacebench.harness.analysis.scores import Scale
from pacebench.harness.analysis.verdicts import number, plural

_SHOWN = 3


def about_scores(
    runs: pd.DataFrame, scales: Mapping[str, Scale], lost: Sequence[str], effect: float
) -> Iterator[str]:
    """Yields what the reader must know of the scores, one sentence or two each.

    Args:
        runs: One row per run.
        scales: The scale of each task.
        lost: What became of each run without a final score.
        effect: The smallest effect of interest.
    """
    cells = {
        (method, task): frozenset(group["named_seed"])
        for (method, task), group in runs.groupby(["label", "setup"])
    }
    methods = list(dict.fromkeys(runs["label"]))
    counts = {(m, t): len(cells.get((m, t), ())) for t in scales for m in methods}
    few, most = min(counts.values()), max(counts.values())
    if few < most:
        method, task = min(counts, key=lambda cell: counts[cell])
        yield (
            f"The methods do not have equally many runs: {few} to {most} per task, the fewest "
            f"{method} on {task}. A comparison has as many seeds as the shorter side."
        )
    if any(len({cells.get((m, task)) for m in methods}) > 1 for task in scales):
        yield (
            "Not all methods have the same seeds: those that they share are compared with each "
            "other, the rest in their order."
        )
    if lost:
        more = f" And {len(lost) - _SHOWN} more." if len(lost) > _SHOWN else ""
        yield (
            f"{plural(len(lost), 'run')} without a final score: {' '.join(lost[:_SHOWN])}{more} "
            "With a range, such a run counts as the best and as the worst it could be."
        )
    unbounded = [task for task, scale in scales.items() if not scale.bounded]
    if unbounded:
        where = "" if len(unbounded) == len(scales) else f" of {', '.join(unbounded)}"
        units = any(scales[task].raw_only for task in unbounded)
        yield (
            f"The range of scores{where} was not given, so that intervals rest on a t-test, which "
            "trusts that scores are near normal; `--range LOW HIGH` gives intervals that do not."
            + (
                f" The smallest effect, {number(effect)}, is in units of the score."
                if units
                else ""
            )
        )


def unknowns(scales: Mapping[str, Scale]) -> Iterator[str]:
    """Yields what cannot be known of scores that were not made here, one sentence or two each."""
    yield (
        "The plan: nothing shows what was asked before the data were seen, or how often they were "
        "looked at. Every verdict is exploratory."
    )
    yield (
        "The denominator: runs that crashed, diverged or were left out are not in a file of "
        "scores, and cannot be counted here. If there are any, the intervals are of the runs that "
        "were kept."
    )
    yield (
        "How scores were measured: on which contexts, over how many episodes, and whether at the "
        "last checkpoint or at the best, which flatters."
    )
    yield (
        "Whether the methods had the same budget, tuning and code, and whether seeds are "
        "independent draws."
    )
    ranges = {
        f"{number(scale.raw(scale.lowest))} to {number(scale.raw(scale.highest))}"
        for scale in scales.values()
        if scale.bounded
    }
    if ranges:
        yield (
            f"Whether a score could lie outside the range ({'; '.join(sorted(ranges))}): it was "
            "declared when the scores were analysed, and every verdict rests on it."
        )
