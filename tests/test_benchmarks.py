"""What `make benchmark` runs exists, imports, and says honestly what is met."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path

import pytest

from benchmarks import __main__ as whole
from benchmarks import table

HELPERS = {"__main__", "table", "jax_ppo"}


def test_every_benchmark_is_in_the_table_and_can_be_imported():
    found = {path.stem for path in Path(table.__file__).parent.glob("*.py")} - HELPERS
    assert found == {name.split()[0] for name in whole.NAMES}
    for name in found:
        assert callable(importlib.import_module(f"benchmarks.{name}").main)


def test_a_row_says_whether_what_is_wanted_is_met(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(table.FILE, str(tmp_path / "rows"))
    assert table.row("a / b", "2 s / 1 s", 2.0, most=2.0)
    assert not table.row("a / b", "3 s / 1 s", 3.0, most=2.0)
    assert not table.row("a / b", "1 / 2", 0.5, least=1.0)
    assert table.row("a / b", "1 / 2", 0.5)
    table.row("a / b", "not installed", math.nan)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [cells[-1] for cells in rows] == ["yes", "NO", "NO", "", ""]
    assert [cells[2] for cells in rows] == ["2", "3", "0.5", "0.5", ""]
    assert "not installed" in capsys.readouterr().out


@pytest.mark.parametrize(("code", "broken"), [(0, False), (table.MISSED, False), (1, True)])
def test_a_benchmark_that_breaks_has_a_row_that_says_so(tmp_path, monkeypatch, code, broken):
    package = tmp_path / "benchmarks"
    package.mkdir()
    text = Path(table.__file__).read_text()
    (package / "table.py").write_text(text)
    (package / "mine.py").write_text(
        f"from benchmarks.table import row\nimport sys\nrow('a / b', '1', 1.0)\nsys.exit({code})\n"
    )
    monkeypatch.chdir(tmp_path)
    rows = whole.rows_of("mine")
    assert rows[0] == ["mine", "a / b", "1", "1", "", ""]
    assert (len(rows) == 2) == broken
    page = whole.page(rows)
    assert "| mine | a / b | 1 | 1 |  |  |" in page
    assert str(tmp_path) not in page
    monkeypatch.setattr(whole, "PAGE", tmp_path / "page.md")
    assert whole.kept_rows() == []
    whole.PAGE.write_text(page)
    assert whole.kept_rows() == rows
