"""Small tuning studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.study.load import load_study
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import to_yaml
from pacebench.harness.tuning.launch import TuningSummary, tune
from tests.harness.tuning.substitutes import HERE


def plan(**tuning: Any) -> dict[str, Any]:
    """Returns a study that tunes two methods on one setup."""
    return {
        "name": "tiny",
        "question": "Does tuning work?",
        "curricula": ["default", "spgl", "linear"],
        "setups": ["point-mass-2"],
        "seeds": {"count": 3, "root": 5},
        "budget": 40_000,
        "evaluation": {"points": 2, "contexts": 4},
        "tuning": {"curricula": ["spgl", "linear"], "trials": 3, "rerank": 2, **tuning},
    }


def load(folder: Path, data: dict[str, Any]) -> tuple[Study, Path]:
    """Writes a study file and loads it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{data['name']}.yaml"
    file.write_text(to_yaml(data))
    return load_study(file), file


def run(folder: Path, train: str, workers: int = 1, **tuning: Any) -> TuningSummary:
    """Tunes a small study with a substitute for training."""
    study, file = load(folder, plan(**tuning))
    options = RunOptions(train=f"{HERE}:{train}", workers=workers)
    return tune(study, file, results=folder / "results", options=options)
