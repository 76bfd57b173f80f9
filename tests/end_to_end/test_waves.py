"""An adaptive study on every executor, and killed in the middle of a wave: the same study."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pacebench import harness
from pacebench.harness.analysis.waves import open_questions, scored_table
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.store.manifest import study_of
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import to_yaml
from tests.end_to_end.test_kill import RECORDED
from tests.harness.runner.plans import REPOSITORY, digests

pytestmark = pytest.mark.slow

STUDY = Study.model_validate(
    {
        "name": "waves",
        "question": "Does every executor make the same waves?",
        "curricula": ["default", "initial"],
        "setups": ["point-mass-2"],
        "seeds": {"start": 2, "step": 2, "max": 4, "root": 5},
        "budget": 2_048,
        "evaluation": {"points": 1, "contexts": 3},
        "learner": {"name": "ppo", "params": {"n_steps": 64}},
    }
)


def outcome(root: Path) -> tuple[dict[str, str], dict[str, bytes], list[dict[str, Any]]]:
    """Returns the records, their bytes, and the verdicts."""
    store = RunStore(root)
    manifest = store.manifest()
    assert manifest is not None
    recorded = {
        f"{run.name}/{name}": (run / name).read_bytes()
        for run in sorted((root / "runs").iterdir())
        for name in RECORDED
    }
    verdicts = [item.to_dict() for item in open_questions(scored_table(study_of(manifest), root))]
    return digests(root), recorded, verdicts


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    results = tmp_path_factory.mktemp("local")
    options = RunOptions(workers=1, display=Display())
    first = harness.run(STUDY, results=results, options=options, until_decided=False)
    assert first.made == 4
    summary = harness.run(STUDY, results=results, options=options)
    assert summary.total > first.total, "there is more than one wave"
    return outcome(results / "waves")


@pytest.mark.parametrize("executor", ["ray", "slurm"])
def test_waves_are_the_same_on_every_executor(
    tmp_path: Path, expected: tuple[Any, ...], executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"ray": "ray", "slurm": "submitit"}[executor])
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    slurm = {"cluster": "local"} if executor == "slurm" else {}
    options = RunOptions(executor=executor, workers=2, slurm=slurm, display=Display())
    harness.run(STUDY, results=tmp_path, options=options)
    assert outcome(tmp_path / "waves") == expected
    if executor == "ray":
        import ray

        ray.shutdown()


def noted(root: Path, event: str) -> int:
    """Returns how often the ledger notes an event; its last line may be half written."""
    path = root / "ledger.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(f'"event": "{event}"' in line or f'"event":"{event}"' in line for line in lines)


def killed_at(file: Path, root: Path, event: str, times: int = 1) -> bool:
    """Runs a study and kills it with −9 once an event was noted so often; says if it was."""
    command = [sys.executable, "-m", "pacebench.harness", "run", str(file)]
    before = noted(root, event)
    runner = subprocess.Popen(
        [*command, "--results", str(root.parent), "--workers", "1"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 600
    killed = False
    while runner.poll() is None and not killed and time.monotonic() < end:
        if noted(root, event) >= before + times:
            os.killpg(runner.pid, signal.SIGKILL)
            killed = True
        time.sleep(0.02)
    runner.wait(600)
    return killed


def test_a_wave_that_is_killed_is_resumed(tmp_path: Path, expected: tuple[Any, ...]) -> None:
    """The runner dies with −9 in its first wave, in a later one, and between two."""
    file = tmp_path / "waves.yaml"
    file.write_text(to_yaml(STUDY.model_dump(mode="json")))
    root = tmp_path / "results" / "waves"
    assert all(killed_at(file, root, event) for event in ("start", "end", "start"))
    harness.run(STUDY, results=root.parent, options=RunOptions(workers=1, display=Display()))
    assert outcome(root) == expected
