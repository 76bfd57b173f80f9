"""What docs/findings.md and the README say is what the committed tables hold."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from pacebench.harness import load_results

ROOT = Path(__file__).parents[2]
FIELD = ROOT / "results/field"
TEXT = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## The field's") : TEXT.index("## The budget ε")]


def rows(table: str, folder: Path = FIELD / "report") -> list[dict[str, str]]:
    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_weighted_verdict_of_the_field_is_told() -> None:
    told = [line for line in SECTION.splitlines() if line.startswith("| `")]
    asked = rows("verdicts")
    assert len(told) == len(asked) == 5
    for row in asked:
        question = f"`{row['method']}` − `{row['control']}`, `{row['setup']}` | {row['runs']} |"
        (line,) = (x for x in told if question in x)
        low, high, mean = (float(row[key]) for key in ("low", "high", "difference"))
        said = f"{mean:.1f} ({low:.1f} to {high:.1f})".replace("-", "−")
        assert said in line
        assert row["verdict"] in line


@pytest.mark.parametrize(
    ("setup", "unnamed"),
    [
        ("point-mass-2d", {"uniform", "acl", "alp-gmm", "goal-gan"}),  # at the floor
        ("point-mass-2", set()),
        ("ball-catching", {"spgl-mixture"}),  # it is `spgl` there
    ],
)
def test_means_of_the_field_are_those_of_the_table(setup: str, unnamed: set[str]) -> None:
    means = {row["method"]: float(row["mean"]) for row in rows(f"results-{setup}")}
    prose = SECTION[SECTION.index("What follows") :]
    for method in means.keys() - unnamed:
        assert f"{means[method]:.1f}" in prose, method


def test_how_often_both_modes_are_held() -> None:
    updates = load_results(FIELD).updates
    updates = updates[updates["setup"] == "point-mass-2d"]
    for label, runs in (("spgl-mixture", "35 of 40"), ("currot", "36 of 40")):
        last = updates[updates["label"] == label].sort_values("env_steps").groupby("seed").last()
        # The modes are at ±3: the mean tells the share of each, where the distance is small.
        share = (np.stack(last["mean"])[:, 0] / 3 + 1) / 2
        both = (np.abs(share - 0.5) <= 0.2) & (last["sliced_wasserstein"] <= 0.05)
        assert runs == f"{both.sum()} of {len(both)}"
        assert f"{runs} runs of `{label}`" in SECTION or f"{runs} of `{label}`" in SECTION


def factor(row: dict[str, str], field: str) -> str:
    """A ratio with its interval, three digits each, as pages show it."""
    numbers = (float(row[key]) for key in (field, f"{field}_low", f"{field}_high"))
    shown = [f"{x:#.3g}" if x < 1000 else f"{round(x, -1):,.0f}".replace(",", " ") for x in numbers]
    mean, low, high = (text.rstrip(".") for text in shown)
    return f"{mean} ({low} to {high})"


def test_factors_of_time_are_those_of_the_table() -> None:
    overhead = ROOT / "results/overhead"
    section = TEXT[TEXT.index("## What a closed form buys") : TEXT.index("## What it would take")]
    timed = {(row["stream"], row["method"]): row for row in rows("headline", overhead)}
    told = [line for line in section.splitlines() if line.startswith("| `")]
    assert len(told) == 4
    for line in told:
        method = line.split("`")[1]
        both = [timed[f"recorded-point-mass-{i}", method] for i in (1, 2)]
        expected = [factor(row, field) for row in both for field in ("total", "ratio")]
        assert [cell.strip() for cell in line.split("|")[2:-1]] == expected
    trained = {row["method"]: row for row in rows("training", overhead)}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for method in ("spdl", "spdl-sqp"):
        assert factor(trained[method], "ratio") in section
        assert factor(trained[method], "ratio") in readme
        assert factor(timed["recorded-point-mass-1", method], "total") in readme
    (moved,) = (row for row in rows("quality", overhead) if row["method"] == "spgl")
    assert f"in {moved['over_budget']} of {moved['updates']}" in section
