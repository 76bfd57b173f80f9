"""What docs/findings.md and the README say is what the committed tables hold.

Rows of verdicts and of the published tables are asked for as they must stand there, so that what a
failing test prints can be pasted.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from pacebench.harness import load_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
TEXT = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
DECIDED = ("better", "worse", "equivalent", "not worse")


def section(title: str) -> str:
    start = TEXT.index(f"\n## {title}") + 1
    end = TEXT.find("\n## ", start)
    return TEXT[start : end if end > 0 else None]


def rows(study: str, table: str) -> list[dict[str, str]]:
    folder = RESULTS / study
    folder = folder / "report" if (folder / "report").is_dir() else folder
    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def verdict(row: dict[str, str], *, several: bool) -> str:
    """A weighted verdict as a row of a document."""
    digits = 1 if row["estimand"] == "return" else 2
    mean, low, high = (f"{float(row[key]):.{digits}f}" for key in ("difference", "low", "high"))
    numbers = f"{mean} ({low} to {high})".replace("-", "−")
    word = f"**{row['verdict']}**" if row["verdict"] in DECIDED else row["verdict"]
    if row["interval_kind"] != "confidence-sequence":
        word += " by a t-test alone"
    where = f"`{row['setup']}`" + (f", {row['estimand']}" if several else "")
    pair = f"`{row['method']}` − `{row['control']}`"
    return f"| {pair}, {where} | {row['runs']} | {numbers} | {word} | {row['model_verdict']} |"


def verdicts(study: str) -> list[str]:
    found = rows(study, "verdicts")
    several = len({row["estimand"] for row in found}) > 1
    return [verdict(row, several=several) for row in found]


@pytest.mark.parametrize(
    ("study", "titles"),
    [
        ("paper", ("Does SPGL beat training on the target", "Does it match SPDL")),
        ("rule", ("Which part of it helps",)),
        ("field", ("The field's",)),
    ],
)
def test_every_weighted_verdict_is_told(study: str, titles: tuple[str, ...]) -> None:
    text = "".join(section(title) for title in titles)
    told = [line for line in text.splitlines() if line.startswith("| `")]
    assert sorted(told) == sorted(verdicts(study))


def test_the_first_evidence_is_that_of_the_tables() -> None:
    """At most eight rows, each with a link to the report that has it."""
    start = README.index("## First evidence")
    text = README[start : README.index("\n## ", start + 1)]
    told = [line for line in text.splitlines() if line.startswith("| `")]
    assert 1 <= len(told) <= 8
    for line in told:
        study = line.split("](results/")[1].split("/")[0]
        question, rest = line.split(", [", 1)
        expected = [row for row in verdicts(study) if row.startswith(question)]
        assert rest.split(" | ", 1)[1] in [row.split(" | ", 1)[1] for row in expected], line


def test_the_published_tables_stand_beside_ours() -> None:
    with (ROOT / "docs/spgl-paper.csv").open(encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    text = section("The paper's tables beside ours")
    ours = {
        (name, row["method"]): row
        for name in dict.fromkeys(row["setup"] for row in published)
        for row in rows("paper", f"results-{name}")
    }
    assert len(ours) == len(published)
    expected = [beside(row, ours[row["setup"], row["method"]]) for row in published]
    assert [line for line in text.splitlines() if line.startswith("| `")] == expected


def test_levels_are_those_of_the_table() -> None:
    text = section("The paper's tables beside ours")
    levels = [line for line in text.splitlines() if line.startswith("- **Levels differ")]
    for row in rows("level", "results-point-mass-2"):
        assert f"{100 * float(row['success']):.0f} %" in levels[0], row["method"]


def beside(published: dict[str, str], ours: dict[str, str]) -> str:
    """A row of a published table, and ours."""
    theirs = [
        f"{float(published['mean']):.1f} ± {float(published['se']):.1f}".replace("-", "−"),
        p_value(published["p"]),
        f"{float(published['success']):.0f} ± {float(published['success_se']):.1f} %",
    ]
    low, high, share = (100 * float(ours[k]) for k in ("success_low", "success_high", "success"))
    mine = [
        f"{float(ours['mean']):.1f} ± {float(ours['standard_error']):.1f}",
        p_value(ours["p_against_best"]),
        f"{share:.0f} % ({low:.0f} to {high:.0f})",
        ours["runs"],
    ]
    cells = " | ".join([*theirs, *mine])
    return f"| `{published['method']}`, `{published['setup']}` | {cells} |"


def p_value(text: str) -> str:
    if not text:
        return "best"
    return f"{float(text):.3f}" if float(text) >= 0.0005 else "< 0.001"


@pytest.mark.parametrize(
    ("setup", "unnamed"),
    [
        ("point-mass-2d", {"uniform", "acl", "alp-gmm", "goal-gan"}),  # at the floor
        ("point-mass-2", set()),
        ("ball-catching", {"spgl-mixture"}),  # it is `spgl` there
    ],
)
def test_means_of_the_field_are_those_of_the_table(setup: str, unnamed: set[str]) -> None:
    means = {row["method"]: float(row["mean"]) for row in rows("field", f"results-{setup}")}
    prose = section("The field's")
    prose = prose[prose.index("What follows") :]
    for method in means.keys() - unnamed:
        assert f"{means[method]:.1f}" in prose, method


def test_how_often_both_modes_are_held() -> None:
    updates = load_results(RESULTS / "field").updates
    updates = updates[updates["setup"] == "point-mass-2d"]
    text = section("The field's")
    for label, runs in (("spgl-mixture", "35 of 40"), ("currot", "36 of 40")):
        last = updates[updates["label"] == label].sort_values("env_steps").groupby("seed").last()
        # The modes are at ±3: the mean tells the share of each, where the distance is small.
        share = (np.stack(last["mean"])[:, 0] / 3 + 1) / 2
        both = (np.abs(share - 0.5) <= 0.2) & (last["sliced_wasserstein"] <= 0.05)
        assert runs == f"{both.sum()} of {len(both)}"
        assert f"{runs} runs of `{label}`" in text or f"{runs} of `{label}`" in text


def factor(row: dict[str, str], field: str) -> str:
    """A ratio with its interval, three digits each, as pages show it."""
    numbers = (float(row[key]) for key in (field, f"{field}_low", f"{field}_high"))
    shown = [f"{x:#.3g}" if x < 1000 else f"{round(x, -1):,.0f}".replace(",", " ") for x in numbers]
    mean, low, high = (text.rstrip(".") for text in shown)
    return f"{mean} ({low} to {high})"


def test_factors_of_time_are_those_of_the_table() -> None:
    text = section("What does it cost")
    timed = {(row["stream"], row["method"]): row for row in rows("overhead", "headline")}
    told = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(told) == 4
    for line in told:
        method = line.split("`")[1]
        both = [timed[f"recorded-point-mass-{i}", method] for i in (1, 2)]
        expected = [factor(row, field) for row in both for field in ("total", "ratio")]
        assert [cell.strip() for cell in line.split("|")[2:-1]] == expected
    trained = {row["method"]: row for row in rows("overhead", "training")}
    for method in ("spdl", "spdl-sqp"):
        assert factor(trained[method], "ratio") in text
        assert factor(trained[method], "ratio") in README
        assert factor(timed["recorded-point-mass-1", method], "total") in README
    (moved,) = (row for row in rows("overhead", "quality") if row["method"] == "spgl")
    assert f"in {moved['over_budget']} of {moved['updates']}" in text
