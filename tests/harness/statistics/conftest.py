"""A small synthetic study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest

MakeRuns = Callable[..., pd.DataFrame]


@pytest.fixture(scope="session")
def make_runs() -> MakeRuns:
    """Makes the table of runs of a synthetic study, with one shift of the mean per method."""

    def make(
        shifts: Mapping[str, float],
        setups: tuple[str, ...] = ("ball-catching", "point-mass"),
        runs: int = 12,
        seed: int = 0,
    ) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        rows = []
        for method, shift in shifts.items():
            for setup in setups:
                for number in range(runs):
                    score = float(np.clip(shift + rng.normal(), -10, 10))
                    rows.append(
                        {
                            "method": method,
                            "setup": setup,
                            "seed": number,
                            "status": "ok",
                            "score": score,
                            "success": float(score > 0),
                            "normalised": score / 4,
                            "auc": score / 2,
                            "cvar": score - 1,
                            "steps_to_threshold": 60 - 20 * score if score > -1 else np.nan,
                        }
                    )
        frame = pd.DataFrame(rows)
        frame["steps_to_threshold"] = frame["steps_to_threshold"].clip(lower=0)
        return frame

    return make
