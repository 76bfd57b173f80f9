"""Tables: raw values once, shown as HTML, CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

MISSING = "–"
MINUS = "−"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Show = Callable[[Any], str]


@dataclass(frozen=True)
class Column:
    """One column."""

    key: str  # name of the value in each row, and of the column in the CSV file
    heading: str  # what stands above it
    show: Show = str  # from value to text; what is missing never reaches it
    number: bool = False  # whether it is aligned and sorted as a number
    kind: str = "text"  # how the page draws it: `text`, `method`, `verdict` or `mono`
    where: str = "both"  # `both`, or only `shown` (page, LaTeX, Markdown) or only `csv`

    @staticmethod
    def interval(key: str, heading: str, show: Show) -> list[Column]:
        """Returns the columns of an interval: both ends as one to show, and each for the CSV."""
        ends = [Column(end, "", where="csv") for end in _ends(key)]
        return [Column(key, heading, span(show), number=True, where="shown"), *ends]


def counts(*keys: str) -> list[Column]:
    """Returns columns of whole numbers, each called what its key says."""
    return [Column(key, key, number=True) for key in keys]


# The columns that say which cell of the study a row is about.
CELL = (Column("setup", "setup"), Column("method", "method", kind="method"))


@dataclass(frozen=True)
class TableCell:
    """One cell as the page needs it."""

    text: str
    sort: str
    column: Column


# More rows are not read but searched, in the CSV file; a page with all of them opens slowly.
MOST_ROWS = 2_000


@dataclass(frozen=True)
class Table:
    """A table."""

    name: str  # stem of its files, unique in the report
    title: str  # short heading
    caption: str  # what the columns mean, in two sentences at most
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]  # raw values by column key
    folded: bool = False  # whether the page hides it behind a click
    # Keys of columns that are left out, with all that belongs to them (`<key>_…`), where no row
    # fills them.
    optional: Sequence[str] = ()
    # Keys of columns that are not shown where no row fills them; the CSV file has them all.
    unshown: Sequence[str] = ()
    notes: str = ""  # what a reader may ask further, folded: intervals and their coverage

    @cached_property
    def listed(self) -> Sequence[Mapping[str, Any]]:
        """The rows that are shown: of very many only those that the page knows, or the first."""
        if len(self.rows) <= MOST_ROWS:
            return self.rows
        return [row for row in self.rows if row.get("unit") is not None] or self.rows[:MOST_ROWS]

    @property
    def said(self) -> str:
        """The caption, and how many rows are not shown."""
        if len(self.listed) == len(self.rows):
            return self.caption
        return f"{self.caption} {len(self.listed)} of {len(self.rows)} rows; the CSV file has all."

    @property
    def kept(self) -> list[Column]:
        """The columns without those optional ones that no row fills."""
        empty = self._unfilled(self.optional)
        related = tuple(f"{key}_" for key in empty)
        return [c for c in self.columns if c.key not in empty and not c.key.startswith(related)]

    @property
    def visible(self) -> list[Column]:
        """The columns that are shown."""
        empty = self._unfilled(self.unshown)
        return [column for column in self.kept if column.where != "csv" and column.key not in empty]

    def _unfilled(self, keys: Sequence[str]) -> list[str]:
        return [k for k in keys if all(row.get(k) in (None, "") for row in self.rows)]

    def cells(self) -> list[list[TableCell]]:
        """Returns the shown cells row by row."""
        columns = self.visible
        return [
            [TableCell(shown(c, row.get(c.key)), _sort_key(row.get(c.key)), c) for c in columns]
            for row in self.listed
        ]

    def row_methods(self, place: int) -> list[str]:
        """Returns the methods that a row is about."""
        keys = [column.key for column in self.columns if column.kind == "method"]
        return [str(self.listed[place].get(key)) for key in keys]

    def row_unit(self, place: int) -> int | None:
        """Returns the number by which the page knows a row's run, if it is one."""
        return self.listed[place].get("unit")

    def write(self, folder: Path) -> None:
        """Writes the CSV and LaTeX files."""
        (folder / f"{self.name}.csv").write_text(self.csv(), encoding="utf-8", newline="")
        (folder / f"{self.name}.tex").write_text(self.tex(), encoding="utf-8")

    def csv(self) -> str:
        """Returns raw values, comma-separated; what is missing is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        keys = [column.key for column in self.kept if column.where != "shown"]
        writer.writerow(keys)
        writer.writerows([_raw(row.get(key)) for key in keys] for row in self.rows)
        return out.getvalue()

    def tex(self) -> str:
        """Returns a `booktabs` table of the shown values."""
        align = "".join("r" if column.number else "l" for column in self.visible)
        head = " & ".join(escape_tex(column.heading) for column in self.visible)
        body = "\n".join(
            " & ".join(escape_tex(cell.text) for cell in row) + r" \\" for row in self.cells()
        )
        return (
            f"% {self.name}: needs \\usepackage{{booktabs,amssymb}}\n"
            f"\\begin{{tabular}}{{{align}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body}\n"
            f"\\bottomrule\n\\end{{tabular}}\n"
        )

    def markdown(self) -> str:
        """Returns a pipe table of the shown values."""
        head = "| " + " | ".join(escape_markdown(c.heading) for c in self.visible) + " |"
        rule = "|" + "|".join(" ---: " if c.number else " --- " for c in self.visible) + "|"
        rows = [
            "| " + " | ".join(escape_markdown(cell.text) for cell in row) + " |"
            for row in self.cells()
        ]
        return "\n".join([head, rule, *rows])


class _HasEnds(Protocol):
    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def interval_cells(key: str, interval: _HasEnds | None) -> dict[str, Any]:
    """Returns an interval as a row holds it for `Column.interval`."""
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return {key: None if interval is None else ends, **dict(zip(_ends(key), ends, strict=True))}


def _ends(key: str) -> tuple[str, str]:
    """Returns the ends' keys: `low` and `high` of `interval`, `auc_low`, … of `auc_interval`."""
    stem = key.removesuffix("interval").removesuffix("_")
    return (f"{stem}_low", f"{stem}_high") if stem else ("low", "high")


def shown(column: Column, value: Any) -> str:
    """Returns the text of a value."""
    return MISSING if _is_missing(value) else column.show(value)


def number(digits: int = 3) -> Show:
    """Returns a format with so many significant digits, and a true minus."""

    def show(value: Any) -> str:
        value = float(value)
        if math.isinf(value):
            return "∞" if value > 0 else f"{MINUS}∞"
        if value != 0 and not 1e-4 <= abs(value) < 1e6:
            text = f"{value:.{digits - 1}e}"
        else:
            places = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
            text = f"{value:.{places}f}"
        return text.replace("-", MINUS)

    return show


def fixed(places: int) -> Show:
    """Returns a format with so many decimal places, and a true minus."""

    def show(value: Any) -> str:
        text = f"{float(value):.{places}f}"
        # A negative number that rounds to zero would be shown as −0.
        return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)

    return show


def fitted(values: Iterable[Any], digits: int = 3) -> Show:
    """Returns one format for a whole column: so many digits for its largest value."""
    sizes = [abs(v) for v in values if isinstance(v, int | float) and math.isfinite(v) and v]
    if not sizes or not 1e-4 <= max(sizes) < 1e6:
        return number(digits)
    return fixed(max(0, digits - 1 - math.floor(math.log10(max(sizes)))))


def percent(places: int = 0) -> Show:
    """Returns a format for shares."""
    return lambda value: f"{100 * float(value):.{places}f} %"


def span(show: Show) -> Show:
    """Returns a format for intervals, pairs of ends."""

    def both(ends: Any) -> str:
        low, high = (show(end) for end in ends)
        if low == high and ends[0] != ends[1] and low[-1].isdigit():
            # An interval has a width, however few decimals its column has; not without its unit.
            places = 2 - math.floor(math.log10(abs(ends[1] - ends[0])))
            low, high = (fixed(max(0, places))(end) for end in ends)
        return f"{low} to {high}"

    return both


def p_value(value: Any) -> str:
    """Returns a p-value as papers print it."""
    return "< 0.001" if float(value) < 0.001 else f"{float(value):.3f}"


def count(value: Any) -> str:
    """Returns a whole number with thin groups of thousands."""
    return f"{int(value):,}".replace(",", "\u202f")


_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    MINUS: "$-$",
    MISSING: "--",
    "∞": r"$\infty$",
    "ε": r"$\varepsilon$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "±": r"$\pm$",
    "\u202f": r"\,",
    "‖": r"$\Vert$",
    "ψ": r"$\psi$",
    "\0": r"$V_-$",
    "\n": " ",
    "\t": " ",
    "\u00a0": "~",
    "–": "--",
    "—": "---",
    "“": "``",
    "”": "''",
    "’": "'",
    "…": r"\dots{}",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "δ": r"$\delta$",
    "θ": r"$\theta$",
    "τ": r"$\tau$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "△": r"$\triangle$",
    "▽": r"$\triangledown$",
}


def escape_tex(text: str) -> str:
    """Returns text that LaTeX prints as it stands; what its fonts lack, by its code point."""
    text = text.replace("V₋", "\0")
    return "".join(_TEX.get(c, c) if c in _TEX or _in_fonts(c) else _code(c) for c in text)


def _in_fonts(character: str) -> bool:
    """Says whether LaTeX's first encoding has a character: ASCII and most letters of Latin-1."""
    latin = "\u00c0" <= character <= "\u00ff" and character not in "ÐÞðþ×÷"
    return " " <= character <= "~" or latin


def _code(character: str) -> str:
    return f"\\texttt{{U+{ord(character):04X}}}"


def escape_markdown(text: str) -> str:
    """Returns text that Markdown, and the HTML inside it, shows as it stands."""
    for old, new in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
        text = text.replace(old, new)
    return "".join(f"\\{c}" if c in "`*_[]$" else c for c in text.replace("\n", " "))


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _sort_key(value: Any) -> str:
    if _is_missing(value):
        return ""
    if isinstance(value, tuple):
        value = value[0]
    return repr(float(value)) if isinstance(value, int | float) else str(value)


def _raw(value: Any) -> str:
    """Returns a value for CSV: enough digits to compute with, and the same ones on any machine."""
    if _is_missing(value):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(_FORMULA):
        # A spreadsheet would compute what begins like this; an apostrophe keeps it text.
        return f"'{value}"
    return f"{value:.9g}" if isinstance(value, float) else str(value)
