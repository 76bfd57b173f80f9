"""From a results folder to the view: load, score, analyse, and read the diary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pacebench import envs
from pacebench.envs.setup import Setup
from pacebench.harness.analysis.bridge import run_table, specification
from pacebench.harness.analysis.deviations import deviations
from pacebench.harness.analysis.freeze import PlanHistory
from pacebench.harness.analysis.history import History
from pacebench.harness.analysis.scores import (
    UNRESOLVED,
    ResultFrames,
    planned,
    scale_of,
    score_runs,
    target_curves,
)
from pacebench.harness.analysis.units import Units
from pacebench.harness.report.data import ReportData
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.statistics.analysis import analyse
from pacebench.harness.store.ledger import now
from pacebench.harness.store.load import Results
from pacebench.harness.store.manifest import Manifest
from pacebench.harness.store.provenance import (
    REPORT_PACKAGES,
    code_words,
    package_versions,
    provenance,
    version_words,
)
from pacebench.harness.study.fingerprint import other_code
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.record import TuningRecord, read_record


def report_data(
    results: ResultFrames,
    study: Study,
    setups: Mapping[str, Setup],
    *,
    frozen: PlanHistory | None = None,
    history: History | None = None,
    provenance: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    tuning: TuningRecord | None = None,
) -> ReportData:
    """Scores and analyses loaded results.

    Args:
        results: The frames.
        study: The study they belong to.
        setups: Its setups, with anchors.
        frozen: The frozen plan, if there is one.
        history: What the diary says.
        provenance: Terms and values to print.
        notes: Sentences about the data that the reader must know.
        tuning: What tuning found, where methods were tuned.

    Raises:
        UserError: The results contradict the study, or cannot be analysed.
    """
    history = history or History()
    scales = {name: scale_of(setups[name], study.statistics.floor) for name in study.setups}
    curves = target_curves(results, study, scales)
    runs = scored = score_runs(results, study, scales, curves)
    updates = results.updates
    if "current" in updates:
        updates = updates[updates["current"]].reset_index(drop=True)
    updates = updates.astype({"label": object, "setup": object})
    manifest = [(label, s, i) for s in study.setups for label in study.labels
                for i in range(study.seeds.count)]  # fmt: skip
    looks = history.looks
    compared = study
    units = Units.of(study)
    if units is not None:
        compared = units.study
        scored, curves = units.scored(runs, study.budget), units.curves(curves)
        updates = units.updates(updates, study)
        manifest = units.planned(study)
        # The diary counts runs; once all are known, so are all searches.
        looks = tuple(n for n in looks if n < study.seeds.count)
    spec = specification(
        compared,
        scales,
        frozen=frozen is not None,
        searches=None if units is None else units.replicates,
        has_area=len(study.evaluation_steps()) > 1,
    )
    analysis = analyse(
        run_table(scored),
        spec,
        study_sequence(study.seeds.root, StudyRole.BOOTSTRAP, 0),
        manifest=manifest,
        looks_taken=looks,
        deviations=deviations(frozen, study, results.runs, history),
    )
    return ReportData(
        study=compared,
        declared=study,
        setups=setups,
        scales=scales,
        runs=runs,
        scored=scored,
        curves=curves,
        updates=updates,
        retired=len(results.runs) - len(planned(results.runs)),
        analysis=analysis,
        frozen=frozen,
        history=history,
        provenance=provenance,
        notes=notes,
        tuning=tuning,
    )


def setups_of(study: Study, manifest: Manifest) -> tuple[dict[str, Setup], list[str]]:
    """Returns the study's setups, and a sentence about all code that is not what made the runs."""
    found = {name: envs.setup(name) for name in study.setups}
    changes = other_code(manifest.current_cells())
    return found, [f"Made by other code than is installed: {change}." for change in changes]


def tuning_of(study: Study, root: Path) -> tuple[TuningRecord | None, list[str]]:
    """Returns the record of the tuning that a study's values come from, and what to say of it.

    A tuned study points to the record from its own file. Results may have been moved without that
    file, so the record is looked for where `pacebench tune` puts it: beside the study's results.
    """
    pointers = sorted({entry.tuned.record for entry in study.curricula if entry.tuned})
    if not pointers:
        return None, []
    # <study>/tuning/record.json
    paths = [root.parent.joinpath(*Path(pointer).parts[-3:]) for pointer in pointers]
    if len(paths) == 1 and paths[0].is_file():
        return read_record(paths[0]), []
    said = (
        "its tuned methods come from several tuning records"
        if len(paths) > 1
        else f"the tuning record {pointers[0]} is not there"
    )
    return None, [f"What tuning cost and how it went cannot be shown: {said}."]


def look_of(view: ReportData) -> list[int]:
    """Returns the numbers of runs per cell that this report has looked at: fewest and most."""
    known = view.runs["how"] != UNRESOLVED
    counts = known.groupby([view.runs["label"], view.runs["setup"]]).sum()
    return sorted({int(counts.min()), int(counts.max())})


def provenance_of(results: Results, ledger_path: Path, history: History) -> list[tuple[str, str]]:
    """Returns where results and report come from; the only part of a report that may change."""
    manifest = results.manifest
    rows = [("digest of the study file", manifest.plan_digest)]
    for change in manifest.history:
        rows.append(
            (
                f"runs planned {change.time}",
                f"{change.added} added, {change.retired} retired; code "
                f"{code_words(change.provenance)}",
            )
        )
    asked = planned(results.runs)
    for column in ("code", "versions", "hardware"):
        for text, runs in asked[column].dropna().astype(str).value_counts().items():
            several = "s" if runs > 1 else ""
            rows += [(f"{column} of {runs} run{several}", str(text))] if text else []
    for setup in dict.fromkeys(asked["setup"]):
        cells = {cell for cell, known in manifest.cells.items() if known.setup == setup}
        hashes = {
            manifest.evaluation_hashes[cell] for cell in cells & manifest.evaluation_hashes.keys()
        }
        rows += [(f"held-out contexts of {setup}", f"SHA-256 {found}") for found in sorted(hashes)]
    here = provenance()
    versions = version_words({"versions": package_versions(REPORT_PACKAGES)})
    rows.append(("report", f"{now()}; code {code_words(here)}; {versions}"))
    rows.append(("earlier reports", f"{history.reports} (in {ledger_path.name})"))
    return rows
