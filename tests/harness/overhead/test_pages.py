"""The page, the tables and the section are whole and need nothing from outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.compare import compare_runs
from pacebench.harness.overhead.findings import load_summary, write_summary
from pacebench.harness.overhead.summary import summarise
from pacebench.harness.overhead.training import summarise_training
from pacebench.harness.report.document import Claims, Figures
from pacebench.harness.report.overhead.page import document, section, write_agreement, write_pages
from pacebench.harness.report.render import markdown
from tests.harness.overhead.simulated import SETTINGS, simulated_cells
from tests.harness.overhead.test_analysis import MACHINE, training_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("overhead")
    cells, check = simulated_cells(np.random.default_rng(0))
    runs = [
        training_run(name, seed, cost, 10.0 + 0.1 * seed)
        for name, cost in (("spgl", 0.01), ("spdl", 8.0))
        for seed in range(10)
    ]
    write_summary(out, summarise(cells, check, summarise_training(runs), SETTINGS, MACHINE))
    write_pages(out, load_summary(out))
    return out


def test_everything_is_written(folder):
    for name in ("headline", "ratios", "times", "scaling", "quality", "training"):
        for suffix in (".csv", ".tex", ".md"):
            assert (folder / "tables" / f"{name}{suffix}").stat().st_size > 100
    figures = {"time-d", "time-k", "ratio-d", "quality", "share"}
    figures |= {"score-per-step", "score-per-second"}
    assert {p.stem for p in (folder / "figures").glob("*.svg")} <= figures
    assert figures - {"quality"} <= {p.stem for p in (folder / "figures").glob("*.png")}


def test_page_is_self_contained_and_says_what_did_not_finish(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)=["']https?:""", page)
    assert "&gt; 2 s" in page
    assert "> 2 s" in (folder / "tables" / "times.csv").read_text(encoding="utf-8")
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "An injected slowdown of 5 % is found" in text


def test_numbers_in_the_summary_are_json(folder):
    text = (folder / "summary.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert json.loads(text)["cells"]


@pytest.mark.parametrize("name", ["overhead", "overhead-again"])
def test_committed_findings_give_the_committed_report(name):
    kept = Path("results") / name
    whole = document(load_summary(kept))
    text = (kept / "report.md").read_text(encoding="utf-8")
    # Made before Markdown linked to PNG files.
    assert markdown(whole) == re.sub(r"(figures/[a-z-]+)\.svg", r"\1.png", text)
    for table in whole.tables():
        file = kept / "tables" / f"{table.name}.csv"
        if file.parent.exists():
            assert table.csv() == file.read_text(encoding="utf-8")


def test_section_fits_into_a_report(folder):
    made = section(folder)
    assert made.name == "overhead"
    assert [b for b in made.blocks if isinstance(b, Claims)]
    [drawn] = [b for b in made.blocks if isinstance(b, Figures)]
    assert "time-d" in [figure.name for figure in drawn.figures]


def test_a_folder_without_findings_is_refused(tmp_path):
    with pytest.raises(UserError, match="pacebench overhead"):
        load_summary(tmp_path)


def other_run(tmp_path, seed, change=1.0):
    cells, check = simulated_cells(np.random.default_rng(seed))
    for cell in cells:
        for block in cell.blocks.values():
            times = block.times["spgl-shared"]
            wall = tuple(change * t for t in times.wall)
            block.times["spgl-shared"] = times.model_copy(update={"wall": wall})
    write_summary(tmp_path, summarise(cells, check, None, SETTINGS, MACHINE))
    return tmp_path


def test_two_runs_of_one_truth_agree(folder, tmp_path):
    found = compare_runs(other_run(tmp_path, 1), folder)
    assert found.agree
    assert found.ratios >= 30
    write_agreement(tmp_path, found)
    stored = json.loads((tmp_path / "agreement.json").read_text())
    assert stored["agree"]
    assert "agree within their intervals" in stored["sentence"]


def test_a_changed_speed_is_a_disagreement(folder, tmp_path):
    found = compare_runs(other_run(tmp_path, 2, change=1.2), folder)
    assert not found.agree
    assert {row.method for row in found.disagreeing} == {"spgl-shared"}
    assert all(row.shift == pytest.approx(1 / 1.2 - 1, abs=0.1) for row in found.disagreeing)
