"""One line of a benchmark: printed, and kept where `python -m benchmarks` asks for it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

# The file that `python -m benchmarks` collects the rows of a benchmark from.
FILE = "PACEBENCH_BENCHMARK_ROWS"
# The exit code of a benchmark that ran and missed what is wanted; Python's own for an error is 1.
MISSED = 3


def row(
    compared: str,
    sides: str,
    ratio: float = math.nan,
    *,
    least: float | None = None,
    most: float | None = None,
) -> bool:
    """Prints one comparison.

    Args:
        compared: What is compared with what.
        sides: Both sides, with their units.
        ratio: The first over the second, or the share; NaN where nothing could be measured.
        least: The smallest ratio that is wanted, if one is.
        most: The largest.

    Returns:
        Whether the ratio is as wanted; True where nothing is.
    """
    wanted = f"≥ {least:.3g}" if least is not None else f"≤ {most:.3g}" if most is not None else ""
    met = (least is None or ratio >= least) and (most is None or ratio <= most)
    said = ("yes" if met else "NO") if wanted and not math.isnan(ratio) else ""
    shown = "" if math.isnan(ratio) else f"{ratio:.3g}"
    cells = [compared, sides, shown, wanted, said]
    print(f"{compared:52} {sides:48} {shown:>7} {wanted:>7} {said}", flush=True)
    if path := os.environ.get(FILE):
        with Path(path).open("a") as file:
            file.write(json.dumps(cells, ensure_ascii=False) + "\n")
    return met
