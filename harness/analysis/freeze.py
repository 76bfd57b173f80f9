"""The frozen plan of a study: what was declared before the evaluation runs, and what changed since.

`results/<study>/plan.json` holds every version of the plan with its hash. The first version is the
promise; each further one is a deviation with a reason, and the report lists them all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacebench import envs
from pacebench.harness.analysis.comparisons import RULE, questions
from pacebench.harness.analysis.frozen_plan import Deviation, FrozenPlan, differences
from pacebench.harness.analysis.frozen_plan import freeze as freeze_plan
from pacebench.harness.analysis.scores import CVAR_SHARE
from pacebench.harness.analysis.verdicts import plural
from pacebench.harness.errors import UserError
from pacebench.harness.store.files import make_folder, sha256, write_atomic
from pacebench.harness.store.ledger import Ledger, now
from pacebench.harness.store.provenance import git_state
from pacebench.harness.store.study_files import StudyFiles
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell, by_cell

if TYPE_CHECKING:
    import pandas as pd

NAME = "plan.json"
RESULTS = Path("results")
_MOST_CHANGES = 6  # sentences printed; a changed budget changes every cell


@dataclass(frozen=True)
class Version:
    """One version of the plan.

    Attributes:
        frozen: The plan and its hash.
        time: When it was declared, UTC.
        reason: Why it differs from the one before; empty for the first.
        finished: Evaluation runs that had finished by then: what could have been seen.
        revision: Git revision of the code.
        dirty: Whether the code had been changed since that revision.
        elsewhere: Runs of the plan that other studies in the same folder had finished. Taken over
            or made again, they are the same to the last digit.
        analysis: Hash of the code that turns runs into verdicts; empty in early plans.
    """

    frozen: FrozenPlan
    time: str
    reason: str
    finished: int
    revision: str | None
    dirty: bool | None
    elsewhere: int = 0
    analysis: str = ""

    @property
    def known(self) -> int:
        """Runs whose outcome could have been seen by then."""
        return self.finished + self.elsewhere


@dataclass(frozen=True)
class Amendment:
    """A declared deviation: what changed, why, and how much data there was."""

    time: str
    reason: str
    finished: int
    changes: tuple[Deviation, ...]


@dataclass(frozen=True)
class PlanHistory:
    """A study's frozen plan with its history.

    Attributes:
        versions: From the first to the one in force.
    """

    versions: tuple[Version, ...]

    @property
    def digest(self) -> str:
        """Hash of the plan in force."""
        return self.versions[-1].frozen.digest

    @property
    def early(self) -> bool:
        """Whether it was frozen under the early rule of verdicts, Welch's t with Holm."""
        return "rule" not in self.versions[-1].frozen.plan

    @property
    def amendments(self) -> tuple[Amendment, ...]:
        """Every declared deviation, in order."""
        return tuple(
            Amendment(
                new.time, new.reason, new.known, differences(old.frozen.plan, new.frozen.plan)
            )
            for old, new in pairwise(self.versions)
        )

    @property
    def asking(self) -> Version:
        """The version that last changed what is asked: anything but the number of seeds."""
        choices = [{k: v for k, v in w.frozen.plan.items() if k != "seeds"} for w in self.versions]
        last = len(choices) - 1
        while last and choices[last - 1] == choices[last]:
            last -= 1
        return self.versions[last]

    @property
    def broken(self) -> str:
        """Why the plan does not show that its questions came first; empty where it does."""
        return self.late(self.asking)

    def late(self, version: Version) -> str:
        """Returns that runs had finished when a version was made; empty where none had."""
        if not version.known:
            return ""
        how = "frozen" if version is self.versions[0] else "amended"
        other = f", {version.elsewhere} of them in other studies" if version.elsewhere else ""
        return f"the plan was {how} after {plural(version.known, 'run')} had finished{other}"


def plan_of(study: Study) -> dict[str, Any]:
    """Returns everything that could be chosen to suit the data, as it is chosen now."""
    from pacebench.harness.training.evaluation import held_out_contexts

    planned = expand(study)
    cells: dict[str, dict[str, Any]] = {}
    for runs in by_cell(planned):
        cell = runs[0].cell
        cells.setdefault(runs[0].label, {})[cell.setup] = cell.model_dump(mode="json")
    evaluation = planned[0].cell.evaluation
    held_out = {
        name: sha256(held_out_contexts(study.setup(name), evaluation).tobytes())
        for name in study.setups
    }
    said = study.statistics
    return {
        "study": study.name,
        "question": study.question,
        "rule": RULE,
        "questions": [asdict(q) for q in questions(study, ()) if q.weighted],
        "alpha": said.alpha,
        "smallest_effect": said.smallest_effect,
        "solved": said.solved,
        "cvar_share": CVAR_SHARE,
        "floor": said.floor,
        "ranges": {name: _range(study.setup(name)) for name in study.setups},
        "seeds": study.seeds.model_dump(mode="json"),
        "tuning": study.tuning.model_dump(mode="json") if study.tuning else None,
        "anchors": {name: study.setup(name).to_dict()["anchors"] for name in study.setups},
        "held_out_contexts": held_out,
        "cells": cells,
    }


def _range(setup: envs.Setup) -> list[float | None]:
    return [setup.min_return, setup.max_return]


def _under_early_rule(study: Study, plan: dict[str, Any]) -> dict[str, Any]:
    """Returns what plans said that were frozen when verdicts were Welch's and Holm's."""
    shared = ("study", "question", "floor", "tuning", "anchors", "held_out_contexts", "cells")
    return {
        **{key: plan[key] for key in shared},
        "primary": study.statistics.primary[0],
        "comparisons": [list(declared.pair) for declared in study.comparisons],
        "alpha": study.statistics.alpha,
        "sesoi": study.statistics.smallest_effect,
        "runs": study.seeds.count,
        "root": study.seeds.root,
    }


def load(folder: Path) -> PlanHistory | None:
    """Returns the frozen plan of a results folder, or None where it was never frozen.

    Raises:
        UserError: The file is not ours, or a plan in it does not match its hash.
    """
    path = folder / NAME
    try:
        data = json.loads(StudyFiles(folder).read(NAME))
        versions = tuple(
            Version(FrozenPlan.from_dict(version.pop("frozen")), **version)
            for version in data["versions"]
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path}: is not a frozen plan of ours; restore it.") from None
    if not versions:
        raise UserError(f"{path}: holds no plan; restore it.")
    return PlanHistory(versions)


def freeze(study: Study, folder: Path | None = None, *, amend: str | None = None) -> PlanHistory:
    """Freezes a study's plan, or adds an amended version of it.

    Freezing an unchanged study again changes nothing, nor does freezing one with more seeds.

    Args:
        study: The study.
        folder: Its results folder, `results/<study>` if not given.
        amend: Why the plan is changed, where it was frozen before.

    Raises:
        UserError: The study was frozen and has changed, and no reason is given; or a reason is
            given and there is nothing to amend.
    """
    folder = RESULTS / study.name if folder is None else folder
    current = freeze_plan(plan_of(study))
    known = load(folder)
    if known is None and amend is not None:
        raise UserError(f"study '{study.name}' was never frozen; run `pacebench freeze` first.")
    if known is not None:
        changed = differences(known.versions[-1].frozen.plan, current.plan)
        if amend is None and not _split(changed)[1]:
            return known
        if not changed:
            raise UserError(f"{folder / NAME}: the study has not changed; there is no deviation.")
        if not (amend or "").strip():
            raise _refusal(study, changed)
    finished = StudyFiles(folder).run_ids()
    revision, dirty = git_state()
    version = Version(
        frozen=current,
        time=now(),
        reason=(amend or "").strip(),
        finished=len(finished),
        revision=revision,
        dirty=dirty,
        elsewhere=_elsewhere(study, folder, finished),
        analysis=analysis_code(),
    )
    frozen = PlanHistory((*(known.versions if known else ()), version))
    plain = [{**asdict(v), "frozen": v.frozen.to_dict()} for v in frozen.versions]
    text = json.dumps({"format": 1, "versions": plain}, indent=1, ensure_ascii=False)
    make_folder(folder)
    write_atomic(folder / NAME, text.encode() + b"\n")
    event = "amend" if amend else "freeze"
    Ledger(folder).append(event, plan=current.digest, reason=version.reason)
    return frozen


def check(study: Study, folder: Path | None = None) -> PlanHistory | None:
    """Refuses a study that was frozen and has changed since without being amended.

    Args:
        study: The study that is about to run.
        folder: Its results folder, `results/<study>` if not given.

    Returns:
        The frozen plan, or None where the study was never frozen.

    Raises:
        UserError: With one sentence for what to do and one for each of the first changes.
    """
    known = load(RESULTS / study.name if folder is None else folder)
    if known is None:
        return None
    _, bound = undeclared(known, study)
    if bound:
        raise _refusal(study, bound)
    return known


def undeclared(
    frozen: PlanHistory, study: Study, runs: pd.DataFrame | None = None
) -> tuple[tuple[Deviation, ...], tuple[Deviation, ...]]:
    """Returns how a study differs from its plan in force: as the rule allows, and otherwise.

    Args:
        frozen: The plan.
        study: The study as it is now.
        runs: The planned runs that were made, with the digests of their cells. Runs of the frozen
            cells keep to the plan, whatever code is installed by the time they are reported.
    """
    plan = json.loads(json.dumps(plan_of(study)))
    promised = frozen.versions[-1].frozen.plan.get("cells", {})
    if runs is not None and set(runs["cell"]) <= {
        Cell.model_validate(cell).digest for cells in promised.values() for cell in cells.values()
    }:
        plan["cells"] = promised
    if frozen.early:
        early = frozen.versions[-1].frozen.plan
        said = {
            **{key: early[key] for key in early if key not in ("family", "estimands", "looks")},
            "primary": early["estimands"]["primary"],
            "comparisons": early["family"]["comparisons"],
            "alpha": early["family"]["alpha"],
        }
        return _split(differences(said, _under_early_rule(study, plan)))
    return _split(differences(frozen.versions[-1].frozen.plan, plan))


def _split(
    changes: Sequence[Deviation],
) -> tuple[tuple[Deviation, ...], tuple[Deviation, ...]]:
    """Returns the changes that only add seeds, which may be done at any look, and the others."""
    fewer = any(c.key in ("seeds.count", "runs") and c.current < c.frozen for c in changes)
    seeds = () if fewer else ("seeds.count", "seeds.start", "seeds.step", "runs")
    return (
        tuple(change for change in changes if change.key in seeds),
        tuple(change for change in changes if change.key not in seeds),
    )


def _refusal(study: Study, found: Sequence[Deviation]) -> UserError:
    more = len(found) - _MOST_CHANGES
    return UserError(
        f"study '{study.name}' was frozen and has changed since; undo the change, or declare it "
        'with `pacebench freeze --amend "reason"`, which the report will list.',
        *(change.sentence() for change in found[:_MOST_CHANGES]),
        *((f"{more} further values changed.",) if more > 0 else ()),
    )


def analysis_code() -> str:
    """Returns a hash of the sources of `harness.statistics` and `harness.analysis`."""
    home = Path(__file__).parents[1]
    files = sorted(p for room in ("statistics", "analysis") for p in (home / room).glob("*.py"))
    named = b"".join(f"{p.parent.name}/{p.name}\0".encode() + p.read_bytes() for p in files)
    return sha256(named)


def _elsewhere(study: Study, folder: Path, here: set[str]) -> int:
    """Returns how many of the study's runs are finished in other studies, and not here."""
    others = [path for path in folder.parent.glob("*/") if path != folder]
    there: set[str] = set().union(*(StudyFiles(path).run_ids() for path in others))
    return len({run.run_id for run in expand(study)} & there - here)
