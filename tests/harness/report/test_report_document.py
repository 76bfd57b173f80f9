"""What a report says, in which order, and what it admits."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pacebench.harness.analysis.history import History
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.report import data as gathered
from pacebench.harness.report import tables
from pacebench.harness.report.answer import answer, grid
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.document import Claims, Document, Section, Warned
from pacebench.harness.report.figures import travel
from pacebench.harness.report.gather import report_data
from pacebench.harness.report.make import write
from pacebench.harness.report.plain import embedded
from pacebench.harness.report.render import markdown, page
from pacebench.harness.report.sections import behaviour, claims, closing, curves, scores
from pacebench.harness.report.sections.closing import limitations
from pacebench.harness.report.sections.order import document
from pacebench.harness.report.terminal import first_screen
from pacebench.harness.store.provenance import hostname
from tests.harness.report import synthetic
from tests.harness.report.conftest import HOSTILE, make_view
from tests.harness.report.synthetic import Method

ONE = ("point-mass-1",)


def section(made: Document, name: str) -> Section:
    (found,) = [section for section in made.sections if section.name == name]
    return found


def test_the_order_of_sections(golden_document: Document) -> None:
    assert [section.name for section in golden_document.sections] == [
        "claims",
        "wealth",
        "results",
        "curves",
        "behaviour",
        "episodes",
        "efficiency",
        "cost",
        "accounting",
        "provenance",
        "limits",
    ]


def test_claims_are_the_verdicts_sentences(golden_document: Document) -> None:
    (block,) = [b for b in section(golden_document, "claims").blocks if isinstance(b, Claims)]
    assert [claim.outcome for claim in block.claims] == ["undecided", "undecided"] * 2
    for claim in block.claims:
        assert "12 seeds" in claim.sentence
        assert "exploratory" in claim.strength
    # What is not shown is never called equal.
    assert not any("equal" in claim.sentence for claim in block.claims)


def test_the_sentence_quotes_the_interval_of_the_table(golden_document: Document) -> None:
    (block,) = [b for b in section(golden_document, "claims").blocks if isinstance(b, Claims)]
    rows = next(t for t in golden_document.tables() if t.name == "verdicts").rows
    for claim, row in zip(block.claims, rows, strict=True):
        assert f"{row['low']:.3g}".replace("-", "−") in claim.sentence


def test_an_unfrozen_report_is_watermarked_with_the_reason(golden_document: Document) -> None:
    assert golden_document.exploratory
    warned = section(golden_document, "claims").blocks[0]
    assert isinstance(warned, Warned), "the reason is read before the claims"
    assert any("not frozen" in item for item in warned.items)
    text = markdown(golden_document)
    assert "**exploratory** · " in text
    assert text.index("**Exploratory: ") < text.index("- **")


# Pictures of what happened: what is drawn has neither an estimate nor an interval.
SPREADS = ("kl", "travel-", "time-", "wealth")


def sentences(text: str) -> int:
    """Counts sentences by the marks at their ends."""
    return len(re.findall(r"[.!?](?= [A-ZÀ-Þ“`0-9]|$)", text))


def test_captions_are_two_sentences_and_the_rest_is_folded(golden_document: Document) -> None:
    figures, tables = golden_document.figures(), golden_document.tables()
    assert len(figures) > 15
    for item in (*figures, *tables):
        assert sentences(item.caption) <= 2, (item.name, item.caption)
    for figure in figures:
        if figure.name.startswith("contrasts-"):
            assert "98.8 % intervals from the range of the scores alone" in figure.notes
        elif not figure.name.startswith(SPREADS):
            assert "95 %" in figure.notes, figure.name
            assert re.search(r"coverage (\d|not simulated)", figure.notes), figure.name
        assert "\\begin{tikzpicture}" in figure.tex
        ET.fromstring(figure.file)


def test_the_answer_is_one_sentence_from_the_verdicts(golden_document: Document) -> None:
    assert golden_document.answer == (
        "Exploratory: after 12 seeds none of the 4 questions is decided; nearest to it is spgl "
        "against default on point-mass-1 (difference 20, interval −29.9 to 53.3)."
    )
    assert golden_document.grid is not None
    assert [row.text for row in golden_document.grid.rows] == ["spdl", "spgl"]
    assert golden_document.grid.columns == ("point-mass-1", "point-mass-2")
    words = {chip.word for row in golden_document.grid.rows for chip in row.chips if chip}
    assert words == {"undecided"}


def test_decided_questions_are_told_and_seen_from_the_row() -> None:
    methods = (
        Method("default", -0.19, 0.005),
        Method("spdl", 1.79, 0.005, epsilon=0.05),
        Method("spgl", 1.79, 0.005, epsilon=0.05),
    )
    pairs = [["spgl", "default"], ["spgl", "spdl"]]
    view = make_view(methods=methods, setups=ONE, seeds=12, comparisons=pairs, control="spgl")
    said = answer(view.study, view.family, exploratory=False)
    assert said == (
        "On point-mass-1 spgl is better than default; 1 of 2 questions is undecided after 12 seeds."
    )
    shown = {row.text: row.chips[0] for row in grid(view.study, view.family).rows}
    # The row is default's, which the control beats.
    assert {text: chip.word for text, chip in shown.items() if chip} == {
        "default": "worse",
        "spdl": "undecided",
    }


def test_one_verdict_of_one_sort_is_one_clause() -> None:
    methods = (
        Method("default", -0.09, 0.005),
        Method("spdl", 1.79, 0.005, epsilon=0.05),
        Method("spgl", 1.79, 0.005, epsilon=0.05),
    )
    view = make_view(methods=methods, seeds=12)
    assert answer(view.study, view.family, exploratory=False) == (
        "On point-mass-1 and on point-mass-2 spdl and spgl are better than default."
    )


def test_who_is_better_is_told_before_who_is_alike() -> None:
    view = make_view(setups=ONE, seeds=12, comparisons=[["spgl", "default"], ["spgl", "spdl"]])
    verdicts = (Verdict.EQUIVALENT, Verdict.BETTER)
    decided = [replace(i, verdict=v) for i, v in zip(view.family, verdicts, strict=True)]
    said = answer(view.study, decided, exploratory=False)
    assert said.index("better than spdl") < said.index("equivalent to default")


def test_a_method_shows_the_distances_that_it_has() -> None:
    plan, frames = synthetic.study(setups=ONE, seeds=3), synthetic.frames(setups=ONE, seeds=3)
    spdl, spgl = (frames.updates["label"] == name for name in ("spdl", "spgl"))
    frames.updates["sliced_wasserstein"] = 0.5
    # One has no density at all, the KL of the other is estimated from samples.
    frames.updates.loc[spdl, ["kl_step", "kl_target_forward", "kl_target_reverse"]] = np.nan
    frames.updates["kl_estimated"] = spgl
    view = report_data(frames, plan, {ONE[0]: synthetic.setup(ONE[0])})
    made = document(view, [behaviour.behaviour])
    figures = {figure.name: figure.svg for figure in made.figures()}
    distance = figures["kl_target_forward-point-mass-1"]
    assert "spdl" not in distance
    assert "n = 3, estimated" in distance
    wasserstein = figures["sliced_wasserstein-point-mass-1"]
    assert all(name in wasserstein for name in ("default", "spdl", "spgl"))
    assert "estimated" not in wasserstein
    (table,) = made.tables()
    (row,) = [row for row in table.rows if row["method"] == "spdl"]
    assert row["final_kl"] is None
    assert row["distance"] == 0.5
    (guessed,) = [row for row in table.rows if row["method"] == "spgl"]
    assert guessed["estimated"] == "estimated"
    # One of its steps is twice ε long, which an estimate cannot tell.
    assert (guessed["violations"], guessed["largest_ratio"]) == (None, 2.0)
    # The distance that every method has comes first.
    assert [name.split("-")[0] for name in figures if "target" in name or "sliced" in name] == [
        "sliced_wasserstein",
        "kl_target_forward",
    ]
    run = json.loads(embedded(view))["runs"][view.units["spdl", ONE[0], 0]]
    assert run["wasserstein"]
    assert set(run["far"][1:]) == {0.5}


def test_without_a_budget_nothing_is_said_of_one() -> None:
    """On a target with two modes, by methods that have no ε, and partly no density either."""
    methods, two = (Method("default", 0.4, 0.1), Method("plr", 0.5, 0.1)), ("point-mass-2d",)
    plan, frames = (make(methods, two, 3) for make in (synthetic.study, synthetic.frames))
    kls = ["kl_step", "kl_target_forward", "kl_target_reverse", "ess"]
    frames.updates.loc[frames.updates["label"] == "plr", kls] = np.nan
    frames.updates["sliced_wasserstein"] = 0.5
    made = document(
        report_data(frames, plan, {two[0]: synthetic.setup(two[0])}), [behaviour.behaviour]
    )
    assert "ε" not in markdown(made)
    (table,) = made.tables()
    assert [column.key for column in table.visible][2:] == [
        *("runs", "updates", "rejected", "final_kl", "distance", "on_target")
    ]
    figures = {figure.name: figure.svg for figure in made.figures()}
    assert not any(name.startswith("kl-step") for name in figures)
    # Both modes, in either panel.
    assert figures["travel-point-mass-2d-0-1"].count('<ellipse class="target"') == 4


def test_thinned_diagnostics_are_read_where_they_were_recorded() -> None:
    plan, frames = synthetic.study(setups=ONE, seeds=3), synthetic.frames(setups=ONE, seeds=3)
    setups = {ONE[0]: synthetic.setup(ONE[0])}
    order = frames.updates.groupby(["label", "seed"], observed=True).cumcount()
    frames.updates["sliced_wasserstein"] = order.astype(float)
    columns = ["kl_step", "kl_target_forward", "kl_target_reverse", "sliced_wasserstein"]
    last = order.max()
    expected = frames.updates.loc[order == last - 1].groupby("label", observed=True)[columns]
    frames.updates.loc[order % 2 == last % 2, columns] = np.nan
    made = document(report_data(frames, plan, setups), [behaviour.behaviour])
    (table,) = made.tables()
    for row in table.rows:
        median = expected.median().loc[row["method"]]
        assert row["final_kl"] == median["kl_target_forward"]
        assert row["distance"] == last - 1
    assert "estimated" not in [column.key for column in table.kept]


def test_a_run_is_behind_every_dot(golden_view: ReportData, golden_document: Document) -> None:
    known = json.loads(embedded(golden_view).replace("\\u003c", "<"))
    assert len(known["runs"]) == 72
    (returns,) = [f for f in golden_document.figures() if f.name == "return-point-mass-1"]
    units = [int(n) for n in re.findall(r'href="#r(\d+)"', returns.svg)]
    assert sorted(units) == list(range(36))
    run = known["runs"][units[0]]
    assert (known["methods"][run["m"]], known["setups"][run["s"]]) == ("default", "point-mass-1")
    assert len(run["curve"]) == 6
    assert run["updates"] == 24


def test_of_very_many_runs_the_page_shows_the_first_and_says_so(
    golden_view: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "MOST_ROWS", 30)
    monkeypatch.setattr(gathered, "_LEAST_SINGLE", 5)
    monkeypatch.setattr(tables, "MOST_ROWS", 30)
    monkeypatch.setattr(curves, "MOST_RUNS", 5)
    view = replace(golden_view)  # which has not yet numbered its runs
    known = json.loads(embedded(view).replace("\\u003c", "<"))
    assert [run["seed"] for run in known["runs"]] == [*range(5)] * 6
    made = document(view, [scores.results, curves.learning, closing.accounting])
    (returns,) = [f for f in made.figures() if f.name == "return-point-mass-1"]
    assert sorted(int(n) for n in re.findall(r'href="#r(\d+)"', returns.svg)) == [*range(15)]
    assert returns.caption.endswith("the first 5 seeds are drawn; numbers are of all.")
    assert "/12" in returns.svg
    (curve,) = [f for f in made.figures() if f.name == "curve-return-point-mass-1"]
    assert "the first 5 seeds (thin)" in curve.caption
    assert len(re.findall('class="run"', curve.svg)) == 15
    (table,) = [t for t in made.tables() if t.name == "runs"]
    shown = page(made, view.styles, embedded(view))
    assert len(table.csv().splitlines()) == 73
    assert len(re.findall('<tr[^>]* id="r', shown)) == 30
    assert "30 of 72 rows; the CSV file has all." in shown


def test_few_runs_show_points_instead_of_percentile_intervals() -> None:
    view = make_view(setups=ONE, seeds=4)
    made = document(view, [scores.results])
    (table,) = [t for t in made.tables() if t.name == "results-point-mass-1"]
    assert "rliable" not in {column.key for column in table.visible}
    assert "far less often than it says" in table.notes


def test_failed_and_lost_runs_are_accounted_for_and_bound_the_estimates() -> None:
    methods = (
        Method("default", 0.4, 0.05),
        Method("spgl", 0.8, 0.05, epsilon=0.05, status={0: "diverged", 1: "missing"}),
    )
    view = make_view(methods=methods, setups=ONE, seeds=12)
    made = document(view, [scores.results, closing.accounting])
    (table,) = [t for t in made.tables() if t.name == "accounting"]
    (row,) = [r for r in table.rows if r["method"] == "spgl"]
    assert (row["planned"], row["ok"], row["diverged"], row["missing"]) == (12, 10, 1, 1)
    (failures,) = [t for t in made.tables() if t.name == "failures"]
    assert len(failures.rows) == 2
    (table,) = [t for t in made.tables() if t.name == "results-point-mass-1"]
    (row,) = [r for r in table.rows if r["method"] == "spgl"]
    low, high = row["bounds"]
    assert low < row["mean"] < high
    assert "What the 1 run without a result would have scored." in limitations(view)


@pytest.mark.slow
@pytest.mark.parametrize("setups", [ONE, ("point-mass-1", "point-mass-2")])
def test_whatever_leaves_lost_runs_out_says_so(setups: tuple[str, ...]) -> None:
    methods = (
        Method("default", 0.4, 0.05),
        Method("spgl", 0.8, 0.05, epsilon=0.05, status={1: "missing"}),
    )
    made = document(make_view(methods=methods, setups=setups, seeds=12))
    count = len(setups)
    words = "1 planned run without a result is" if count == 1 else "2 planned runs without a result"
    silent = [f.name for f in made.figures() if words not in f.notes]
    assert all(name.startswith((*SPREADS, "contrasts-")) for name in silent), silent
    for table in made.tables():
        if table.name in ("aggregates", "improvement", "sample-efficiency"):
            assert words in table.notes, table.name
    (aggregates,) = [t for t in made.tables() if t.name == "aggregates"]
    bounds = {(r["method"], r["aggregate"]): r["bounds"] for r in aggregates.rows}
    values = {(r["method"], r["aggregate"]): r["value"] for r in aggregates.rows}
    low, high = bounds["spgl", "mean"]
    assert low < values["spgl", "mean"] < high
    assert bounds["default", "mean"] is None


def test_losing_every_run_of_a_method_is_no_crash() -> None:
    lost = dict.fromkeys(range(6), "crashed-infrastructure")
    methods = (Method("default", 0.4, 0.1), Method("spgl", 0.8, 0.1, status=lost))
    made = document(make_view(methods=methods, setups=ONE, seeds=6))
    (verdicts,) = [t for t in made.tables() if t.name == "verdicts"]
    assert verdicts.rows[0]["verdict"] == "undecided"
    # Lost runs may be anything: the interval reaches from the worst case to the best.
    low, high = verdicts.rows[0]["interval"]
    assert low < -30
    assert high > 30


def test_runs_that_all_agree_are_no_crash() -> None:
    methods = (Method("default", 0.4, 0.0), Method("spgl", 0.8, 0.0, epsilon=0.05))
    made = document(make_view(methods=methods, setups=ONE, seeds=6))
    assert made.tables()


def test_one_curriculum_alone_claims_nothing() -> None:
    made = document(make_view(methods=(Method("default", 0.4, 0.1),), setups=ONE, seeds=3))
    assert not [t for t in made.tables() if t.name == "verdicts" and t.rows]
    assert "nothing to claim" in markdown(made)
    assert "confirmatory" not in markdown(made)


def test_limits_follow_from_facts(golden_view: ReportData) -> None:
    said = " ".join(limitations(golden_view))
    assert "2 setups of one environment (point-mass)" in said
    assert "every run used ppo" in said
    assert "none was tuned here" in said
    assert "after 60,000 environment steps" in said
    assert "“undecided” is not “equal”" in said
    assert "A confirmed finding" in said
    # 12 runs without one: up to 1 − 0.05^(1/12) of all.
    assert "up to 22% of the runs of a cell" in said
    assert "it asks for 100 held-out contexts, here there are 20" in said


def test_looks_are_free() -> None:
    plan, frames = synthetic.study(setups=ONE), synthetic.frames(setups=ONE)
    setups = {"point-mass-1": synthetic.setup("point-mass-1")}
    once = report_data(frames, plan, setups)
    often = report_data(frames, plan, setups, history=History(looks=(5, 12)))
    assert often.analysis.exploratory == once.analysis.exploratory
    assert often.analysis.verdicts() == once.analysis.verdicts()


def test_all_pairs_are_compared_in_the_direction_of_the_study_file() -> None:
    view = make_view(setups=ONE, seeds=3, comparisons="all-pairs")
    asked = [item.question for item in view.comparisons(weighted=True)]
    assert {(q.a, q.b) for q in asked} == {c.pair for c in view.study.comparisons}
    assert len(asked) == 3


def test_weights_share_alpha_and_zero_is_exploratory() -> None:
    pairs = [
        {"pair": ["spgl", "default"], "weight": 3},
        ["spdl", "default"],
        {"pair": ["spgl", "spdl"], "weight": 0},
    ]
    view = make_view(setups=ONE, seeds=3, comparisons=pairs)
    levels = {
        (c.question.a, c.question.b): c.question.alpha for c in view.comparisons(weighted=True)
    }
    assert levels == {
        ("spgl", "default"): pytest.approx(0.0375),
        ("spdl", "default"): pytest.approx(0.0125),
    }
    (free,) = [
        c
        for c in view.comparisons(weighted=False, estimand="return")
        if (c.question.a, c.question.b) == ("spgl", "spdl")
    ]
    assert free.question.alpha == 0.05
    assert free.sentence().startswith("Exploratory: ")


def test_the_suite_is_claimed_as_one_where_scores_are_normalised() -> None:
    view = make_view(seeds=3, primary="normalised")
    assert {c.question.scope for c in view.comparisons(weighted=True)} == {"suite"}
    made = document(view, [claims.claims])
    assert "Over all setups" in markdown(made) or "over all setups" in markdown(made)


def test_several_estimands_are_claimed_side_by_side() -> None:
    view = make_view(setups=ONE, seeds=3, primary=["return", "solved"])
    asked = [item.question for item in view.comparisons(weighted=True)]
    assert {q.estimand for q in asked} == {"return", "solved"}
    assert sum(q.alpha for q in asked) == pytest.approx(0.05)
    made = document(view, [claims.claims])
    assert "share of runs that solve the task" in markdown(made)
    named = {f"{ONE[0]}, return", f"{ONE[0]}, solved"}
    assert {figure.title for figure in claims.contrasts(view)} == named
    (table,) = (t for t in made.tables() if t.name == "verdicts")
    found = [row["estimand"] for row in csv.DictReader(io.StringIO(table.csv()))]
    assert found == [q.estimand for q in asked]
    shown = io.StringIO()
    screen = first_screen(view.study, view.family, exploratory=False)
    Console(width=160, file=shown).print(*screen)
    lines = [line for line in shown.getvalue().splitlines() if " − " in line]
    assert len(lines) == len(asked)
    assert all(f"{ONE[0]}, {q.estimand}" in line for q, line in zip(asked, lines, strict=True))


def test_many_setups_are_shown_as_rows_and_told_once_each() -> None:
    view = make_view(seeds=12, primary=["return", "solved"], comparisons=[["spgl", "default"]])
    asked = grid(view.study, view.family)
    assert asked.turned
    assert asked.heads() == ("spgl",)
    names = [
        f"{setup}, {measure}" for setup in view.study.setups for measure in ("return", "solved")
    ]
    assert [text for text, _ in asked.lines()] == list(asked.columns) == names
    assert [chips for _, chips in asked.lines()] == [(chip,) for chip in asked.rows[0].chips]
    made = document(view, [claims.claims])
    table = ET.fromstring(re.search(r"<table.*?</table>", page(made, {}), re.DOTALL)[0])  # type: ignore[index]
    assert ["".join(row.itertext()).strip() for row in table.iter("th")][2:] == names
    better = [replace(item, verdict=Verdict.BETTER) for item in view.family]
    said = answer(view.study, better, exploratory=False)
    both = "(return, solved)"
    assert said == f"On point-mass-1 {both} and on point-mass-2 {both} spgl is better than default."


def test_a_verdict_by_a_t_test_alone_says_so_at_first_sight() -> None:
    view = make_view(seeds=12, comparisons=[["spgl", "default"]])
    known, unknown = (replace(item, verdict=Verdict.BETTER) for item in view.family)
    family = [known, replace(unknown, interval=None)]
    assert answer(view.study, family, exploratory=False) == (
        "On point-mass-1 spgl is better than default; on point-mass-2 spgl is by a t-test alone "
        "better than default."
    )
    (row,) = grid(view.study, family).rows
    assert [chip.text for chip in row.chips if chip] == ["▲ better", "▲ better, t-test"]


@pytest.mark.parametrize(
    ("ranges", "promise"),
    [
        ((), "no range of scores is known, so that they are right together"),
        (("point-mass-1",), "whatever the shape of the scores; those on point-mass-2, of no known"),
        (("point-mass-1", "point-mass-2"), "at least, whatever the shape of the scores. A verdict"),
    ],
)
def test_scores_without_a_range_are_promised_less(ranges: tuple[str, ...], promise: str) -> None:
    view = make_view()
    vars(view)["family"] = [
        item if item.question.scope in ranges else replace(item, interval=None)
        for item in view.family
    ]
    said = markdown(document(view, [claims.claims]))
    assert promise in said
    assert ("near normal and" in said) == (len(ranges) < 2)


def test_astronomical_wealth_is_drawn_over_powers_of_ten(golden_view: ReportData) -> None:
    view = replace(golden_view)
    rich = []
    for item in view.family:
        assert item.wealth is not None
        logs = np.linspace(0.0, 900.0, item.seeds)
        rich.append(replace(item, wealth=item.wealth._replace(above=logs, below=-logs)))
    vars(view)["family"] = rich
    section = claims.wealth(view)
    assert section is not None
    (figure,) = section.blocks[0].figures  # type: ignore[union-attr]
    numbers = set(re.findall(r'text-anchor="end">(10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)<', figure.svg))
    assert numbers == {"10⁷⁴", "10¹⁵¹", "10²²⁸"}
    assert not re.findall(r">[^<]*G<", figure.svg)
    # The line of decision and the largest wealth are inside the frame.
    assert figure.y.place(2 / rich[0].question.alpha) > 0
    assert figure.y.place(math.exp(700)) < 1


def test_wealth_is_shown_with_the_line_that_decides_its_own_comparison(
    golden_view: ReportData,
) -> None:
    view = replace(golden_view)
    shares = [0.05 / (k + 1) for k in range(len(view.family))]
    vars(view)["family"] = [
        replace(item, question=replace(item.question, alpha=alpha))
        for item, alpha in zip(view.family, shares, strict=True)
    ]
    section = claims.wealth(view)
    assert section is not None
    (figure,) = section.blocks[0].figures  # type: ignore[union-attr]
    assert len(shares) > 1
    lines = re.findall(r"2/α = ([^<]+)<", figure.svg)
    assert lines == [f"{2 / alpha:.3g}" for alpha in shares]


def test_a_killed_report_leaves_nothing_behind_for_long(tmp_path: Path) -> None:
    view = make_view(setups=ONE, seeds=3)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    here = f".new-{hostname()}"
    left = [f"{here}-{dead.pid}-a", f"{here}-{os.getpid()}-b"]
    kept = [f"{here}-{os.getppid()}-c", f".new-elsewhere-{dead.pid}-d"]
    for name in (*left, *kept):
        (tmp_path / name / "tables").mkdir(parents=True)
    write(document(view, [closing.limits]), view, tmp_path)
    assert sorted(path.name for path in tmp_path.glob(".new-*")) == sorted(kept)


def test_hostile_labels_are_text_in_every_format(tmp_path: Path) -> None:
    methods = (Method("default", 0.4, 0.1), Method("spgl", 0.8, 0.1, label=HOSTILE, epsilon=0.05))
    view = make_view(methods=methods, setups=ONE, seeds=3)
    made = document(view, [claims.claims, claims.wealth, curves.learning, closing.accounting])
    html = page(made, view.styles, embedded(view))
    assert HOSTILE not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert HOSTILE not in markdown(made)
    write(made, view, tmp_path)
    for path in tmp_path.rglob("*.svg"):
        assert "<script" not in path.read_text(encoding="utf-8")
    for path in tmp_path.rglob("*.tex"):
        assert "<script" not in path.read_text(encoding="utf-8")


def test_labels_are_not_mathematics() -> None:
    methods = (
        Method("default", 0.4, 0.1, label="$\\frac{"),
        Method("spgl", 0.8, 0.1, label="_hidden", epsilon=0.05),
    )
    made = document(make_view(methods=methods, setups=ONE, seeds=3), [curves.learning])
    (curve,) = [f for f in made.figures() if f.name == "curve-return-point-mass-1"]
    assert "$\\frac{" in curve.svg
    assert "_hidden" in curve.svg


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        view = make_view(setups=ONE, seeds=4)
        write(document(view), view, tmp_path / name)
    first = sorted(p.relative_to(tmp_path / "first") for p in (tmp_path / "first").rglob("*.*"))
    second = sorted(p.relative_to(tmp_path / "second") for p in (tmp_path / "second").rglob("*.*"))
    assert first == second
    assert len(first) > 40
    # The summary says when it was made.
    for path in (path for path in first if path.name != "summary.json"):
        assert (tmp_path / "first" / path).read_bytes() == (tmp_path / "second" / path).read_bytes()


def test_the_page_points_nowhere_else(golden_document: Document, golden_view: ReportData) -> None:
    html = page(golden_document, golden_view.styles)
    for word in ("http://", "https://"):
        places = [html[i : i + 40] for i in range(len(html)) if html.startswith(word, i)]
        assert {place.split('"')[0].split("'")[0] for place in places} <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }


def test_quantiles_of_runs_are_numpys_where_some_have_no_value_yet() -> None:
    rng = np.random.default_rng(0)
    runs = np.where(rng.random((13, 200)) < 0.3, np.nan, rng.normal(size=(13, 200)))
    runs[:, 0], runs[1:, 1] = np.nan, np.nan  # nobody, and one alone
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        expected = np.nanquantile(runs, (0.05, 0.5, 0.95), axis=0)
    found = travel._quantiles(runs, (0.05, 0.5, 0.95))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("pdflatex") is None,
    reason="no LaTeX here; on Debian: apt-get install texlive-latex-recommended texlive-pictures",
)
def test_the_paper_folder_compiles_and_fits_a_column(tmp_path: Path) -> None:
    hostile = r"\evil{x}_1 & 100% #$~^ é漢 <b>"
    methods = (
        Method("default", 0.4, 0.1),
        Method("spgl", 0.8, 0.1, label=hostile, epsilon=0.05, status={1: "diverged"}),
    )
    view = make_view(methods=methods, setups=ONE, seeds=4)
    write(document(view), view, tmp_path)
    # Every table of the report, whatever its width, is LaTeX too.
    everything = tmp_path / "paper" / "all.tex"
    tables = "\n\n".join(
        f"\\input{{../tables/{path.stem}}}" for path in (tmp_path / "tables").glob("*.tex")
    )
    preamble = "\\documentclass{article}\n\\usepackage{booktabs,amssymb}\n"
    everything.write_text(f"{preamble}\\begin{{document}}\n{tables}\n\\end{{document}}\n")
    for name in ("example", "all"):
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
            cwd=tmp_path / "paper",
            env={**os.environ, "openin_any": "a"},
            capture_output=True,
            timeout=120,
            check=False,
        )
        said = done.stdout.decode(errors="replace")
        assert done.returncode == 0, said[-2000:]
        assert (tmp_path / "paper" / f"{name}.pdf").stat().st_size > 10_000
        if name == "example":
            assert "Overfull \\hbox" not in said
