"""The page, the tables and the section are whole and need nothing from outside."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.findings import SUMMARY, load_summary
from pacebench.harness.overhead.ratios import compare_runs
from pacebench.harness.overhead.summary import summarise
from pacebench.harness.report.overhead.claims import headline_cells
from pacebench.harness.report.overhead.page import write_pages
from tests.harness.overhead.simulated import SETTINGS, SimulatedRuns, simulated_cells
from tests.harness.overhead.test_analysis import MACHINE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("overhead")
    cells = simulated_cells(np.random.default_rng(0))
    trained = SimulatedRuns({"spgl": (0.01, 10.0), "spdl": (8.0, 10.0)})
    summarise(cells, trained, SETTINGS, MACHINE).write(out / SUMMARY)
    write_pages(out, load_summary(out))
    return out


def test_everything_is_written(folder):
    for name in ("headline", "ratios", "scaling", "quality", "training"):
        for suffix in (".csv", ".tex"):
            assert (folder / "tables" / f"{name}{suffix}").stat().st_size > 100
    drawn = {path.stem for path in (folder / "figures").glob("*.svg")}
    assert drawn == {"time-d"}


def test_page_is_self_contained_and_says_what_did_not_finish(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)=["']https?:""", page)
    assert "over the limit at d = 1000" in page
    assert "over the limit" in (folder / "tables" / "ratios.csv").read_text(encoding="utf-8")
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "An injected slowdown of 5 % is found" in text
    assert "other instances of the same workload" in text
    assert "Published solver" in text


def test_numbers_in_the_summary_are_json(folder):
    text = (folder / "summary.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert json.loads(text)["cells"]


def test_tables_follow_the_fields_of_findings(folder):
    rows = list(csv.DictReader((folder / "tables" / "headline.csv").open(encoding="utf-8")))
    found = {row["method"]: row for row in rows}
    [cell] = headline_cells(load_summary(folder))
    shared = cell.methods["spgl-shared"]
    assert float(found["spgl-shared"]["ratio"]) == shared.ratio.estimate
    assert float(found["spgl-shared"]["total_same_low"]) == shared.total.same_instances.low
    assert float(found["spgl-shared"]["cpu"]) == shared.cpu.estimate
    assert found["spgl-shared"]["outcome"] == "slower"
    # What a curriculum costs in training, per update and per 1 000 environment steps.
    trained = list(csv.DictReader((folder / "tables" / "training.csv").open(encoding="utf-8")))
    assert [row["method"] for row in trained] == ["spgl", "spdl"]
    assert [float(row["per_update"]) for row in trained] == pytest.approx([0.005, 4.0])
    assert [float(row["per_1000_steps"]) for row in trained] == pytest.approx([0.01, 8.0])
    # The reference is not compared with itself.
    assert found["spgl"]["ratio"] == found["spgl"]["total_low"] == found["spgl"]["outcome"] == ""


def test_a_folder_without_findings_is_refused(tmp_path):
    with pytest.raises(UserError, match="pacebench overhead"):
        load_summary(tmp_path)


def other_run(tmp_path, seed, change=1.0):
    cells = simulated_cells(np.random.default_rng(seed), slower=change)
    summarise(cells, None, SETTINGS, MACHINE).write(tmp_path / SUMMARY)
    return tmp_path


def test_two_runs_of_one_truth_agree(folder, tmp_path):
    found = compare_runs(other_run(tmp_path, 1), folder)
    assert found.agree
    assert len(found.rows) >= 30
    stored = json.loads((tmp_path / "agreement.json").read_text())
    assert stored["agree"]
    assert "agree within their intervals" in stored["sentence"]


def test_a_small_change_of_speed_is_a_disagreement_because_runs_are_paired(folder, tmp_path):
    # Instances spread by a factor of seven; unpaired, 10 % would drown in that.
    found = compare_runs(other_run(tmp_path, 2, change=1.1), folder)
    assert not found.agree
    assert {row.method for row in found.disagreeing} == {"spgl-shared"}
    assert all(row.shift == pytest.approx(1 / 1.1 - 1, abs=0.03) for row in found.disagreeing)


def test_other_instances_are_not_compared(folder, tmp_path):
    summary = load_summary(folder)
    others = tuple(cell.model_copy(update={"stream": "another"}) for cell in summary.cells)
    summary.model_copy(update={"cells": others}).write(tmp_path / SUMMARY)
    with pytest.raises(UserError, match="same instances"):
        compare_runs(tmp_path, folder)
