"""A study that is right in every part, for tests to break."""

from __future__ import annotations

import copy
from typing import Any

VALID: dict[str, Any] = {
    "name": "example",
    "question": "Does it work?",
    "curricula": [
        "default",
        {"name": "spgl", "epsilon": 0.05, "threshold": 4.0, "options": {"on_shortfall": "hold"}},
        {"name": "spgl", "label": "spgl-wide", "epsilon": 0.2},
        "spdl-sqp",
    ],
    "setups": ["point-mass-1", "point-mass-2"],
    "learner": {"name": "ppo", "params": {"learning_rate": 7e-4}},
    "seeds": {"count": 10, "root": 7},
    "budget": 40_960,
    "evaluation": {"steps": [10_240, 40_960], "contexts": 100},
    "schedule": {"every": 1, "warm_up": 2, "min_episodes": 10, "value_signal": "return"},
    "statistics": {
        "primary": "return",
        "secondary": ["success", "auc"],
        "control": "default",
        "comparisons": [["spgl", "default"], ["spgl", "spdl-sqp"]],
        "smallest_effect": 0.05,
        "alpha": 0.05,
        "looks": [5],
    },
    "tuning": {
        "curricula": ["spgl"],
        "trials": 10,
        "seeds_per_trial": 3,
        "space": {"spgl": {"epsilon": {"low": 0.01, "high": 0.2, "log": True}}},
    },
}


def broken(**changes: Any) -> dict[str, Any]:
    """Returns the valid study with dotted keys replaced; `...` removes a key."""
    study = copy.deepcopy(VALID)
    for dotted, value in changes.items():
        place: Any = study
        *parents, last = (int(p) if p.isdigit() else p for p in dotted.split("."))
        for parent in parents:
            place = place[parent]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return study
