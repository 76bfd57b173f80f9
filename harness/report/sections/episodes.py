"""What a solved and a failed target episode look like, from the policies that runs left."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pandas as pd

from pacebench.envs.pictures import film
from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.errors import UserError
from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.runner.playing import load_player
from pacebench.harness.store.runs import POLICY
from pacebench.harness.store.study_files import StudyFiles
from pacebench.harness.study.models import Study

_WIDTH = 168  # pixels of a picture


def episodes(data: ReportData) -> doc.Section:
    """Returns the pictures, or the sentence that there are none."""
    if not data.episodes:
        text = (
            "There are no pictures of episodes: these results hold no policies. Runs made again "
            "with `pacebench run` leave theirs, and `pacebench play` films them."
        )
        return doc.Section("episodes", "Episodes on the target", [doc.Text(text)])
    text = (
        "The target's mean context, played by the final policy of one run that solved the task "
        "and of one that did not, per curriculum and setup."
    )
    blocks: list[doc.Block] = [doc.Text(text), doc.Pictures(data.episodes)]
    return doc.Section("episodes", "Episodes on the target", blocks)


def film_episodes(root: Path, study: Study, runs: pd.DataFrame) -> list[doc.Picture]:
    """Plays the target episode of a solved and of an unsolved run of every cell."""
    files = StudyFiles(root)
    found = []
    for setup in study.setups:
        for label in study.labels:
            cell = of_cell(runs, setup, label).sort_values("seed")
            cell = cell[cell["how"] == MEASURED]
            for word, solved in (("solved", 1.0), ("not solved", 0.0)):
                for run in cell[cell["solved"] == solved].to_dict("records"):
                    if files.exists(f"runs/{run['run_id']}/{POLICY}"):
                        text = f"{setup}, seed {run['seed']}: run {word}"
                        found += _picture(root, run["run_id"], run["label"], text)
                        break
    return found


def _picture(root: Path, run: str, label: str, text: str) -> list[doc.Picture]:
    from PIL import Image

    try:
        player = load_player(root / "runs" / run)
    except UserError:
        return []  # The accounting names what is wrong with it.
    shown = film(player.setup, player.setup.target_mean, player, moving=False)
    image = Image.fromarray(shown.still)
    image = image.resize((_WIDTH, round(image.height * _WIDTH / image.width)))
    out = io.BytesIO()
    image.quantize(64).save(out, "PNG", optimize=True)
    source = f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
    ending = "success" if shown.success else "no success"
    return [doc.Picture(label, f"{text}; return {shown.total:.3g}, {ending}", source)]
