"""Tables in four formats, and text that stays text in each of them."""

from __future__ import annotations

import csv
import io

import pytest

from pacebench.harness.report.tables import (
    Column,
    Table,
    count,
    escape_markdown,
    escape_tex,
    fitted,
    fixed,
    interval_cells,
    number,
    p_value,
    percent,
    span,
)
from pacebench.harness.statistics.interval import Interval

HOSTILE = r"<script>alert(1)</script> & 100% \evil{x}_1 $y$ #|~^ `code`"


def table(label: str = "a") -> Table:
    columns = (
        Column("label", "label"),
        Column("mean", "mean", number(3), number=True),
        Column("interval", "interval", span(number(3)), number=True, where="shown"),
        Column("low", "low", where="csv"),
    )
    rows = [
        {"label": label, "mean": 1.5, "interval": (1.0, 2.0), "low": 1.0},
        {"label": "b", "mean": None, "interval": None, "low": float("nan")},
    ]
    return Table("some", "Some", "A caption.", columns, rows)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.5678, 4, "1235"),
        (0.0, 3, "0.00"),
        (-1.0, 3, "−1.00"),
        (0.00001234, 3, "1.23e−05"),
        (12345678.0, 3, "1.23e+07"),
        (float("inf"), 3, "∞"),
        (0.0099999, 2, "0.0100"),
    ],
)
def test_numbers(value: float, digits: int, text: str) -> None:
    assert number(digits)(value) == text


def test_other_formats() -> None:
    assert fixed(2)(-0.001) == "0.00"
    assert fixed(1)(-3.14) == "−3.1"
    assert percent(1)(0.125) == "12.5 %"
    assert p_value(0.0004) == "< 0.001"
    assert p_value(0.0504) == "0.050"
    assert count(1234567) == "1\u202f234\u202f567"


def test_one_column_has_one_number_of_decimals() -> None:
    show = fitted([20.0, 1.0, None, float("nan")])
    assert [show(20.0), show(1.0)] == ["20.0", "1.0"]


def test_an_interval_is_printed_with_a_width() -> None:
    show = span(fixed(2))
    assert show((0.531, 0.534)) == "0.53100 to 0.53400"
    assert show((-1.0, 2.5)) == "−1.00 to 2.50"
    assert show((0.5, 0.5)) == "0.50 to 0.50", (
        "two equal ends are no interval, and stay as they are"
    )
    assert span(percent(1))((0.0151, 0.0152)) == "1.5 % to 1.5 %", "never without the unit"


def test_csv_keeps_values_and_leaves_missing_ones_empty() -> None:
    rows = list(csv.reader(io.StringIO(table(HOSTILE).csv())))
    assert rows == [["label", "mean", "low"], [HOSTILE, "1.5", "1"], ["b", "", ""]]


@pytest.mark.parametrize("label", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_spreadsheet_computes_a_label(label: str) -> None:
    rows = list(csv.reader(io.StringIO(table(label).csv())))
    assert rows[1] == [f"'{label}", "1.5", "1"]
    assert table("a-1").csv().splitlines()[1].startswith("a-1,"), (
        "what is no formula stays as it is"
    )
    negative = Table("n", "n", "", (Column("x", "x"),), [{"x": -1.5}, {"x": -2}])
    assert negative.csv() == "x\n-1.5\n-2\n", "numbers stay numbers"


def test_an_interval_is_shown_as_one_column_and_kept_as_two() -> None:
    columns = Column.interval("auc_interval", "interval", fixed(1))
    there = Interval(1.5, 1.0, 2.0, 0.95, "welch-t", "mean", runs=12, tasks=1)
    rows = [interval_cells("auc_interval", found) for found in (there, None)]
    made = Table("some", "", "", columns, rows)
    assert [[cell.text for cell in row] for row in made.cells()] == [["1.0 to 2.0"], ["–"]]
    assert made.csv() == "auc_low,auc_high\n1,2\n,\n"


def test_optional_columns_that_no_row_fills_are_left_out() -> None:
    columns = [Column("n", "n"), *Column.interval("rliable", "", fixed(1)), Column("note", "note")]
    rows = [{"n": 0, "note": "", **interval_cells("rliable", None)}]
    assert Table("some", "", "", columns, rows).csv() == "n,rliable_low,rliable_high,note\n0,,,\n"
    optional = ["n", "rliable", "note"]
    assert Table("some", "", "", columns, rows, optional=optional).csv() == "n\n0\n"


def test_sorting_uses_values_and_puts_missing_ones_apart() -> None:
    first, second = table().cells()
    assert [cell.sort for cell in first] == ["a", "1.5", "1.0"]
    assert [cell.sort for cell in second] == ["b", "", ""]
    assert second[1].text == "–"


def test_markdown_shows_hostile_text_as_it_stands() -> None:
    text = escape_markdown(HOSTILE)
    assert "<" not in text
    assert "\\|" in text
    assert "\\`code\\`" in text


def test_tex_escapes_every_special_character() -> None:
    text = escape_tex(HOSTILE)
    for bare in ("<", ">", "\\evil", " & ", "100%"):
        assert bare not in text
    assert r"\textbackslash{}evil\{x\}\_1 \$y\$ \#\textbar{}" in text
    assert escape_tex("V₋ ≥ −1") == r"$V_-$ $\ge$ $-$1"


def test_tex_prints_what_its_fonts_lack_by_its_code_point() -> None:
    assert escape_tex("é 漢\u200b") == r"é \texttt{U+6F22}\texttt{U+200B}"
