"""Do two runs of the measurement agree within their intervals?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.pages import load_summary
from pacebench.harness.statistics.multiplicity import holm
from pacebench.harness.store.files import write_atomic

COMPARISON = "agreement.json"


def compare_runs(folder: Path | str, other: Path | str) -> dict[str, Any]:
    """Compares every ratio that both runs have; writes `agreement.json` into the first folder.

    Each ratio of either run has a t interval on the logarithmic scale. The difference of the two
    logarithms, in its own standard error, is Welch's t. With Holm's correction over all ratios, the
    runs disagree if any is rejected at 5 %.

    Raises:
        UserError: The runs have no ratio in common.
    """
    ours, theirs = _ratios(load_summary(folder)), _ratios(load_summary(other))
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        raise UserError(
            f"{folder} and {other} have no ratio in common; measure the same cells in both."
        )
    rows = []
    for key in shared:
        a, b = ours[key], theirs[key]
        shift, p = _difference(a, b)
        rows.append(
            {
                "cell": key[0],
                "method": key[1],
                "ratio": a["estimate"],
                "other": b["estimate"],
                "shift": math.expm1(shift),
                "p_value": p,
            }
        )
    p_values = np.array([row["p_value"] for row in rows])
    rejected = holm(p_values) < 0.05
    alone = int((p_values < 0.05).sum())
    disagreeing = [row for row, bad in zip(rows, rejected, strict=True) if bad]
    agree = not disagreeing
    worst = max(rows, key=lambda row: abs(math.log1p(row["shift"])))
    sentence = (
        f"Of {len(rows)} ratios that both runs have, {alone} differ at the 5 % level taken alone "
        f"({0.05 * len(rows):.1f} expected by chance) and {len(disagreeing)} after Holm's "
        f"correction: the runs {'agree' if agree else 'do not agree'} within their intervals. "
        f"Median change {np.median([abs(row['shift']) for row in rows]):.1%}, largest "
        f"{worst['shift']:+.0%} ({worst['method']} in {worst['cell']})."
    )
    found = {
        "agree": agree,
        "ratios": len(rows),
        "alone": alone,
        "disagreeing": disagreeing,
        "median_change": float(np.median([abs(row["shift"]) for row in rows])),
        "sentence": sentence,
        "rows": rows,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    write_atomic(Path(folder) / COMPARISON, (text + "\n").encode())
    return found


def _ratios(summary: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (cell["name"], name): found["ratio"]
        for cell in summary["cells"]
        for name, found in cell["methods"].items()
        if "ratio" in found
    }


def _difference(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, float]:
    """Returns the difference of the logarithms b − a and Welch's two-sided p-value."""
    errors, dfs = [], []
    for found in (a, b):
        df = found["blocks"] - 1
        half = 0.5 * math.log(found["high"] / found["low"])
        errors.append((half / float(stats.t.ppf(0.975, df))) ** 2)
        dfs.append(df)
    total = sum(errors)
    freedom = total**2 / sum(e**2 / df for e, df in zip(errors, dfs, strict=True))
    shift = math.log(b["estimate"] / a["estimate"])
    return shift, float(2 * stats.t.sf(abs(shift) / math.sqrt(total), freedom))
