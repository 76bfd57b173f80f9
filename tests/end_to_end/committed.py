"""The committed studies, and copies of them that tests may change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pacebench.harness.store.elsewhere import ELSEWHERE
from pacebench.harness.store.study_files import ARCHIVE, StudyFiles

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def copied(study: str, results: Path) -> Path:
    """Copies a study without its report, and what is packed of those to which it leaves runs."""
    copy = results / study
    shutil.copytree(RESULTS / study, copy, ignore=shutil.ignore_patterns("report"))
    files = StudyFiles(RESULTS / study)
    if ELSEWHERE in files.packed:
        for other in json.loads(files.read_packed(ELSEWHERE)):
            (results / other).mkdir()
            shutil.copy(RESULTS / other / ARCHIVE, results / other)
    return copy
