"""The page of scores from elsewhere: that of our own results, and what cannot be known."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.analysis.foreign import ForeignQuestions, foreign_study
from pacebench.harness.cli import app
from pacebench.harness.report.foreign import report_foreign
from pacebench.harness.store.foreign.sources import scores_in_memory
from tests.harness.analysis.test_foreign import table


def test_a_csv_becomes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = table(18, ppo=0.1, sac=0.9)
    both = [frame.assign(step=100, score=frame["score"] / 2), frame.assign(step=200)]
    lines = [part.to_csv(index=False, header=not i) for i, part in enumerate(both)]
    (tmp_path / "my scores.csv").write_text("".join(lines))
    result = CliRunner().invoke(app, ["analyse", "my scores.csv", "--range", "0", "1"])
    assert result.exit_code == 0, result.output
    assert "sac is better than ppo" in " ".join(result.stdout.split())
    assert result.stdout.rstrip().endswith("Report: my-scores-report/index.html")
    folder = tmp_path / "my-scores-report"
    said = (folder / "report.md").read_text()
    for words in ("The plan:", "The denominator:", "How the evidence grew", "Learning curves"):
        assert words in said
    # Nothing that only results of ours have.
    assert not re.search("curricul|learner|held-out|target return|planned run", said, re.IGNORECASE)
    (verdict,) = json.loads((folder / "summary.json").read_text())["verdicts"]
    assert (verdict["verdict"], verdict["n"]) == ("better", 18)
    assert not verdict["confirmatory"]
    page = (folder / "index.html").read_text()
    assert "hop/0" in page  # each run under its name
    assert (folder / "tables" / "runs.csv").read_text().count("\n") == 37
    # The page's own table of runs can be analysed again.
    again = CliRunner().invoke(
        app, ["analyse", str(folder / "tables" / "runs.csv"), "--range", "0", "1", "--json"]
    )
    assert json.loads(again.stdout)[0]["low"] == pytest.approx(verdict["low"], abs=1e-6)


def test_without_a_range_the_page_does_not_promise_any_shape(tmp_path: Path) -> None:
    made = foreign_study(scores_in_memory(table(5, a=0.1, b=0.9)), ForeignQuestions())
    report = report_foreign(made, tmp_path / "page")
    said = (tmp_path / "page" / "report.md").read_text()
    assert "only if scores are near normal" in said
    assert "whatever the shape" not in said
    assert repr(report) == f"<Report {tmp_path / 'page' / 'index.html'}>"
