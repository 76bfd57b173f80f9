"""From a results folder to the report's data: load, score, analyse, and read the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pacebench.envs.setup import Setup
from pacebench.harness.analysis import freeze, scores
from pacebench.harness.analysis.analyse import analyse
from pacebench.harness.analysis.deviations import standing
from pacebench.harness.analysis.freeze import PlanHistory
from pacebench.harness.analysis.history import History, history_of
from pacebench.harness.analysis.table import ScoreTable
from pacebench.harness.analysis.units import Units
from pacebench.harness.report import words
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.sections.episodes import film_episodes
from pacebench.harness.report.sections.learner import read_diagnostics
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.store import provenance
from pacebench.harness.store.ledger import Ledger, now
from pacebench.harness.store.load import Results
from pacebench.harness.store.manifest import Change, study_of
from pacebench.harness.store.runs import LOG
from pacebench.harness.store.study_files import StudyFiles
from pacebench.harness.study.fingerprint import other_code
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.record import TuningRecord, read_record


def report_data(
    results: scores.ResultFrames,
    study: Study,
    setups: Mapping[str, Setup],
    *,
    frozen: PlanHistory | None = None,
    history: History | None = None,
    changes: Sequence[Change] = (),
) -> ReportData:
    """Scores and analyses loaded results of a study, whose setups come with anchors.

    What is known of its plan comes from the frozen one, if there is one, from the ledger's history,
    and from every version of the study file that was run.

    Raises:
        UserError: The results contradict the study, or cannot be analysed.
    """
    history = history or History()
    scales = scores.scales_of(study, setups)
    curves = scores.target_curves(results, study, scales)
    runs = scored = scores.score_runs(results, study, scales, curves)
    updates = results.updates
    if "current" in updates:
        updates = updates[updates["current"]].reset_index(drop=True)
    updates = updates.astype({"label": object, "setup": object})
    compared, units = study, Units.of(study)
    if units is not None:
        compared = units.study
        scored, curves = units.scored(runs, study.budget), units.curves(curves)
        updates = units.updates(updates)
    root = study_sequence(study.seeds.root, StudyRole.BOOTSTRAP, 0)
    table = ScoreTable(compared, scales, scored, root)
    analysis = analyse(table, standing(frozen, study, results.runs, history, changes))
    return ReportData(
        study=compared,
        declared=study,
        setups=setups,
        scales=scales,
        runs=runs,
        scored=scored,
        curves=curves,
        updates=updates,
        retired=len(results.runs) - len(scores.planned(results.runs)),
        analysis=analysis,
        frozen=frozen,
        history=history,
    )


def gather(root: Path, results: Results, ledger: Ledger) -> ReportData:
    """Returns the data of a results folder, with its provenance and what the reader must know."""
    manifest, history = results.manifest, history_of(ledger)
    study = study_of(manifest)
    changed = [
        f"Made by other code than is installed: {change}."
        for change in other_code(manifest.current_cells())
    ]
    damaged = [
        f"Run {run_id} is on disk but not to be trusted and counts as missing: {reason}."
        for run_id, reason in sorted(results.problems.items())
    ]
    broken = [
        f"{label} on {setup} is broken: every run of it crashed with {crash}. It has no score and "
        "no verdict."
        for (label, setup), crash in scores.broken_cells(scores.planned(results.runs)).items()
    ]
    tuning, lacking = tuning_of(study, StudyFiles(root).folder)
    setups = {name: study.setup(name) for name in study.setups}
    frozen, changes = freeze.load(root), manifest.history
    data = report_data(results, study, setups, frozen=frozen, history=history, changes=changes)
    return replace(
        data,
        provenance=_provenance(results, ledger.path.name, history),
        notes=[*broken, *changed, *damaged, *lacking],
        tuning=tuning,
        logs=_logs(StudyFiles(root), data.runs["run_id"]),
        diagnostics=read_diagnostics(StudyFiles(root), data.runs),
        episodes=film_episodes(root, study, data.runs),
    )


def _logs(files: StudyFiles, runs: Iterable[str]) -> dict[str, str]:
    """Returns the log of every run that has one."""
    return {
        run: files.read(f"runs/{run}/{LOG}").decode(errors="replace")
        for run in runs
        if files.exists(f"runs/{run}/{LOG}")
    }


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


def _provenance(results: Results, ledger: str, history: History) -> list[tuple[str, str]]:
    """Returns where results and report come from; the only part of a report that may change."""
    manifest = results.manifest
    rows = [("digest of the study file", manifest.plan_digest)]
    for change in manifest.history:
        code = provenance.code_words(change.provenance)
        said = f"{change.added} added, {change.retired} retired; code {code}"
        rows.append((f"runs planned {change.time}", said))
    asked = scores.planned(results.runs)
    for column in ("code", "versions", "hardware"):
        for text, runs in asked[column].dropna().astype(str).value_counts().items():
            rows += [(f"{column} of {words.plural(runs, 'run')}", str(text))] if text else []
    for setup in dict.fromkeys(asked["setup"]):
        hashes = {
            manifest.evaluation_hashes[name]
            for name, cell in manifest.cells.items()
            if cell.setup == setup and name in manifest.evaluation_hashes
        }
        rows += [(f"held-out contexts of {setup}", f"SHA-256 {found}") for found in sorted(hashes)]
    earlier = f"{history.reports} (in {ledger})"
    return [*rows, ("report", report_made()), ("earlier reports", earlier)]


def report_made() -> str:
    """Returns when a report that is made now was made, and by which code."""
    packages = provenance.package_versions(provenance.REPORT_PACKAGES)
    code = provenance.code_words(provenance.provenance())
    return f"{now()}; code {code}; {provenance.version_words({'versions': packages})}"
