"""From a results folder to the view: load, score, analyse, and read the diary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

import envs
from envs.setup import Setup
from harness import freeze
from harness.errors import UserError
from harness.freeze import Frozen
from harness.report.bridge import run_table, specification
from harness.report.view import History, View
from harness.scores import Results, planned, scale_of, score_runs, target_curves
from harness.seeding import StudyRole, study_sequence
from harness.statistics.analysis import analyse
from harness.statistics.freeze import deviations
from harness.store import Ledger, Manifest
from harness.study.expand import setup_digest
from harness.study.models import Study

REPORT_EVENT = "report"


def study_of(manifest: Manifest) -> Study:
    """Returns the study that a manifest was written for.

    Raises:
        UserError: The manifest was written for another version of study files.
    """
    try:
        return Study.model_validate(manifest.plan)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UserError(
            f"the manifest of '{manifest.study}' holds a study that this version cannot read "
            f"({'.'.join(map(str, first['loc']))}: {first['msg']}); run the study again."
        ) from None


def view_of(
    results: Results,
    study: Study,
    setups: Mapping[str, Setup],
    *,
    frozen: Frozen | None = None,
    history: History | None = None,
    provenance: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> View:
    """Scores and analyses loaded results.

    Args:
        results: The frames.
        study: The study they belong to.
        setups: Its setups, with anchors.
        frozen: The frozen plan, if there is one.
        history: What the diary says.
        provenance: Terms and values to print.
        notes: Sentences about the data that the reader must know.

    Raises:
        UserError: The results contradict the study, or cannot be analysed.
    """
    history = history or History()
    scales = {name: scale_of(setups[name], study.statistics.floor) for name in study.setups}
    curves = target_curves(results, study, scales)
    scored = score_runs(results, study, scales, curves)
    spec = specification(
        study,
        scales,
        frozen=frozen is not None,
        has_area=len(study.evaluation_steps()) > 1,
    )
    manifest = [(label, s, i) for s in study.setups for label in study.labels
                for i in range(study.seeds.count)]  # fmt: skip
    analysis = analyse(
        run_table(scored),
        spec,
        study_sequence(study.seeds.root, StudyRole.BOOTSTRAP, 0),
        manifest=manifest,
        looks_taken=history.looks,
        deviations=_departures(frozen, study),
    )
    updates = results.updates
    if "current" in updates:
        updates = updates[updates["current"]].reset_index(drop=True)
    return View(
        study=study,
        setups=setups,
        scales=scales,
        scored=scored,
        curves=curves,
        updates=updates.astype({"label": object, "setup": object}),
        retired=len(results.runs) - len(planned(results.runs)),
        analysis=analysis,
        frozen=frozen,
        history=history,
        provenance=provenance,
        notes=notes,
    )


def _departures(frozen: Frozen | None, study: Study) -> list[str]:
    """Returns why a frozen plan does not protect the claims."""
    if frozen is None:
        return []
    said = [f"{frozen.broken[:1].upper()}{frozen.broken[1:]}."] if frozen.broken else []
    current = json.loads(json.dumps(freeze.plan_of(study)))
    changed = deviations(frozen.versions[-1].frozen, current)
    if changed:
        more = f" ({len(changed) - 1} further changes)" if len(changed) > 1 else ""
        said.append(f"The study differs from its frozen plan: {changed[0].sentence()}{more}")
    return said


def setups_of(study: Study, manifest: Manifest) -> tuple[dict[str, Setup], list[str]]:
    """Returns the study's setups, and a sentence about each that has changed since it was run."""
    found = {name: envs.setup(name) for name in study.setups}
    used = {cell.setup: cell.setup_digest for cell in manifest.cells.values()}
    notes = [
        f"The setup {name} has changed since these runs were made; run the study again to compare "
        "like with like."
        for name in study.setups
        if name in used and used[name] != setup_digest(name)
    ]
    return found, notes


def history_of(ledger: Ledger) -> History:
    """Returns what the diary says about looks, retries and damaged runs."""
    entries = ledger.read()
    reports = [entry for entry in entries if entry.get("event") == REPORT_EVENT]
    looks = {int(n) for entry in reports for n in entry.get("runs_known", ()) if int(n) > 0}
    counts = pd.Series([entry.get("event") for entry in entries], dtype=object).value_counts()
    return History(
        looks=tuple(sorted(looks)),
        reports=len(reports),
        retries=int(counts.get("retry", 0)),
        quarantined=int(counts.get("quarantine", 0)),
        shared=int(counts.get("share", 0)),
    )


def look_of(view: View) -> list[int]:
    """Returns the numbers of runs per cell that this report has looked at: fewest and most."""
    known = [cell.planned - cell.unresolved for cell in view.analysis.accounting]
    return sorted({min(known), max(known)})


def provenance_of(manifest: Manifest, ledger_path: Path, history: History) -> list[tuple[str, str]]:
    """Returns where results and report come from; the only part of a report that may change."""
    from harness.store.ledger import now
    from harness.store.provenance import provenance

    here = provenance()
    rows = [("plan", f"digest {manifest.plan_digest}")]
    for change in manifest.history:
        made: dict[str, Any] = change.provenance
        rows.append(
            (
                f"runs planned {change.time}",
                f"{change.added} added, {change.retired} retired; code {_code(made)}",
            )
        )
    if manifest.history:
        last = manifest.history[-1].provenance
        rows.append(("versions of the runs", _versions(last)))
        rows.append(("hardware of the runs", _hardware(last)))
    rows.append(("report", f"{now()}; code {_code(here)}; {_versions(here)}"))
    rows.append(("earlier reports", f"{history.reports} (in {ledger_path.name})"))
    return rows


def _code(made: Mapping[str, Any]) -> str:
    revision = made.get("revision")
    if not revision:
        return "not under version control"
    return f"{revision}{' with uncommitted changes' if made.get('dirty') else ''}"


def _versions(made: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in made.get("versions", {}).items())


def _hardware(made: Mapping[str, Any]) -> str:
    facts = made.get("hardware", {})
    memory = facts.get("memory_bytes")
    parts = [
        str(facts.get("processor", "")),
        f"{facts.get('cores')} cores" if facts.get("cores") else "",
        f"{memory / 2**30:.0f} GiB" if memory else "",
        str(facts.get("system", "")),
    ]
    return ", ".join(part for part in parts if part)
