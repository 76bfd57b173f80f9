"""The studies we ship: each is valid, and the large ones run, here with a tiny budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench import curricula
from pacebench.harness import load_results
from pacebench.harness.cli.app import app
from pacebench.harness.runner.local import kept_workers
from pacebench.harness.study.yaml_nodes import read_document, to_yaml
from tests.end_to_end.test_waves import killed_at

STUDIES = Path(__file__).parents[2] / "studies"
# Parts of SPGL that other studies ask about.
ABLATIONS = {"spgl-shared", "spgl-exact-kl", "spgl-exact", "spgl-joint"}


@pytest.fixture(autouse=True, scope="module")
def _kept() -> Iterator[None]:
    """One study after another is trained by the same worker: it imports torch once."""
    with kept_workers():
        yield


@pytest.mark.parametrize("file", sorted(STUDIES.glob("*.yaml")), ids=lambda file: file.stem)
def test_check_accepts_every_shipped_study(file: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(file), "--no-estimate"])
    assert result.exit_code == 0, result.output
    assert "the clearest difference takes" in " ".join(result.output.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "field"])
def test_large_studies_run_with_a_tiny_budget(name: str, tmp_path: Path) -> None:
    data = read_document(STUDIES / f"{name}.yaml").data
    # Two rollouts and the curriculum updates between them, on every setup and by every curriculum.
    seeds = 1 if name == "field" else 2
    data |= {"budget": 6_000, "seeds": {"count": seeds, "root": 9}}
    data["evaluation"] = {"points": 1, "contexts": 3}
    file = tmp_path / f"{name}.yaml"
    file.write_text(to_yaml(data))
    results = tmp_path / "results"
    if name == "field":
        # Every method goes on from where a runner was killed.
        assert killed_at(file, results / name, "finish", times=20)
        assert 20 <= len(list((results / name).glob("runs/*/run.json"))) < 13 * 3
    run = CliRunner().invoke(app, ["run", str(file), "--results", str(results), "--workers", "1"])
    assert run.exit_code == 0, run.output
    found = load_results(results / name)
    assert len(found.runs) == seeds * len(data["curricula"]) * len(data["setups"])
    assert set(found.runs["status"]) == {"ok"}
    moved = set(found.updates["label"])
    assert {"spgl"} <= moved, "its curriculum was updated"
    if name == "field":
        assert moved == {"plr-robust", *curricula.names()} - {"initial", "spdl", *ABLATIONS}
        assert found.updates["sliced_wasserstein"].notna().all()
    made = CliRunner().invoke(app, ["report", str(file), "--results", str(results)])
    assert made.exit_code == 0, made.output
    assert (results / name / "report" / "index.html").stat().st_size > 100_000
    # What the policies were evaluated on is in the manifest, cell by cell, and in the report.
    manifest = found.manifest
    assert manifest.evaluation_hashes.keys() == manifest.cells.keys()
    assert len(set(manifest.evaluation_hashes.values())) == len(data["setups"])
    text = (results / name / "report" / "report.md").read_text(encoding="utf-8")
    assert all(hashed in text for hashed in manifest.evaluation_hashes.values())
    for fact in ("code", "versions", "hardware"):
        assert f"{fact} of {len(found.runs)} runs: " in text
