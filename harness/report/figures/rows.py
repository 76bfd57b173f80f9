"""Figures with one row per method or comparison: intervals, every run as a dot, bars.

On the page a figure is a table: names and numbers are text, and each row has a strip of SVG whose
places are shares of its width, so that it fits any screen and rows can be taken out. The file and
the LaTeX figure are made of the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pacebench.harness.report.figure import Figure, standalone
from pacebench.harness.report.figures import pgf
from pacebench.harness.report.figures.axis import Axis, spread
from pacebench.harness.report.palette import Style

_ROW, _TOP, _LABEL, _STRIP, _NOTE = 22, 40, 150, 300, 110  # pixels of the file


@dataclass(frozen=True)
class Dot:
    """One run."""

    value: float
    unit: int | None  # its number among the observations that the page knows, if it does
    kind: str  # `solved`, `open` where it did not solve the task, `failed` where it did not end


@dataclass(frozen=True)
class Bar:
    """One piece of a bar of pieces."""

    value: float
    phase: int
    tip: str


@dataclass(frozen=True)
class Row:
    """One row."""

    styles: Sequence[Style]  # whose it is; the first one's colour is its own
    text: str  # its name
    ends: tuple[float, float] | None = None  # ends of the interval; None where there is none
    estimate: float | None = None  # the point
    dots: Sequence[Dot] = ()  # runs
    bars: Sequence[Bar] = ()  # pieces of a bar, from the left
    note: str = ""  # what stands at its end
    tone: str = ""  # its verdict, which gives the note a sign
    tip: str = ""  # what hovering over it says

    @property
    def drawn(self) -> list[float]:
        """Every value that the axis has to reach."""
        found = [dot.value for dot in self.dots] + [*(self.ends or ())]
        found += [] if self.estimate is None else [self.estimate]
        return [*found, 0.0, sum(bar.value for bar in self.bars)] if self.bars else found


@dataclass(frozen=True)
class RowPlot(Figure):
    """Rows over one axis."""

    axis: Axis
    rows: Sequence[Row]  # the rows, from top to bottom
    # A shaded range, e.g. of differences too small to matter.
    zone: tuple[float, float] | None = None
    references: Sequence[float] = ()  # values with a line
    head: str = ""  # what the notes at the ends are

    @property
    def names(self) -> list[str]:
        """Of its rows."""
        return [row.text for row in self.rows]

    @property
    def tex(self) -> str:
        """The same for LaTeX."""
        return pgf.rows(self)

    def _share(self, value: float) -> str:
        return f"{100 * self.axis.place(value):.1f}%"

    def _backdrop(self) -> Markup:
        parts = []
        if self.zone is not None:
            low, high = (100 * self.axis.place(end) for end in self.zone)
            parts.append(
                f'<rect class="zone" x="{low:.1f}%" width="{high - low:.1f}%" height="100%"/>'
            )
        lines = [("tick", place) for place, _ in self.axis.marks()]
        lines += [("ref", self.axis.place(value)) for value in self.references]
        for kind, place in lines:
            at = f"{100 * place:.1f}%"
            parts.append(f'<line class="{kind}" x1="{at}" x2="{at}" y2="100%"/>')
        return Markup(f'<g id="{self.name}-back">{"".join(parts)}</g>')

    def _numbers(self, y: str) -> Markup:
        texts = []
        for place, text in self.axis.marks():
            side = "start" if place < 0.05 else "end" if place > 0.95 else "middle"
            texts.append(f'<text x="{100 * place:.1f}%" y="{y}" text-anchor="{side}">{text}</text>')
        return Markup("".join(texts))

    def _strip(self, row: Row) -> Markup:
        """Returns what is drawn of a row, in shares of the strip's width and height."""
        parts = [f'<use href="#{self.name}-back"/>']
        left = 0.0
        for bar in row.bars:
            start, end = (100 * self.axis.place(value) for value in (left, left + bar.value))
            left += bar.value
            parts.append(
                f'<rect class="p{bar.phase}" x="{start:.2f}%" width="{max(end - start, 0):.2f}%" '
                f'y="22%" height="56%" data-tip="{escape(bar.tip)}"/>'
            )
        for dot, height in zip(row.dots, spread([dot.value for dot in row.dots]), strict=True):
            x, y = self._share(dot.value), f"{66 + 20 * height:.0f}%"
            drawn = (
                f'<text class="failed" x="{x}" y="{y}">×</text>'
                if dot.kind == "failed"
                else f'<circle class="{dot.kind}" cx="{x}" cy="{y}" r="3.4"/>'
            )
            link = f'<a href="#r{dot.unit}" tabindex="-1">{drawn}</a>'
            parts.append(drawn if dot.unit is None else link)
        y = "22%" if row.dots else "50%"
        tip = f' data-tip="{escape(row.tip)}"' if row.tip else ""
        if row.ends is not None:
            low, high = (self._share(end) for end in row.ends)
            parts.append(f'<line class="bar" x1="{low}" x2="{high}" y1="{y}" y2="{y}"{tip}/>')
        if row.estimate is not None:
            at = self._share(row.estimate)
            parts.append(f'<circle class="point" cx="{at}" cy="{y}" r="4"{tip}/>')
        return Markup("".join(parts))

    @property
    def svg(self) -> str:
        """The element for the page: a table."""
        body = "".join(
            f'<tr data-m="{" ".join(str(s.index) for s in row.styles)}" {_colour(row)}>'
            f'<th scope="row"><span class="name">{escape(row.text)}</span></th>'
            f'<td><svg class="strip" aria-hidden="true">{self._strip(row)}</svg></td>'
            f'<td class="{f"note tone-{row.tone}" if row.tone else "note"}">'
            f"{escape(row.note)}</td></tr>"
            for row in self.rows
        )
        tall = " dots" if any(row.dots for row in self.rows) else ""
        # As wide as the longest name with its mark.
        wide = max(len(row.text) for row in self.rows) + 3
        return (
            f'<table class="rows{tall}" style="--w:{0.98 * wide:.0f}ch;'
            f'--n:{len(self.rows)}"><thead><tr><td></td>'
            f'<td><svg class="strip axis" role="img" aria-label="axis: {escape(self.axis.label)}">'
            f"{self._backdrop()}{self._numbers('11')}</svg></td>"
            f'<td class="note">{escape(self.head)}</td></tr></thead><tbody>{body}</tbody></table>'
            f'<p class="axislabel">{escape(self.axis.label)}</p>'
        )

    @property
    def file(self) -> str:
        """The same as an SVG file."""
        height, width = _TOP + _ROW * len(self.rows) + 26, _LABEL + _STRIP + _NOTE
        strip = f'x="{_LABEL}" width="{_STRIP}"'
        parts = [
            f'<text class="title" x="6" y="16">{escape(self.title + self.stamp)}</text>',
            f'<svg {strip} y="22" height="{_TOP - 22}">{self._backdrop()}{self._numbers("12")}'
            "</svg>",
        ]
        for i, row in enumerate(self.rows):
            y = _TOP + _ROW * i
            parts.append(
                f"<g {_colour(row)}>"
                f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(row.text)}</text>'
                f'<svg {strip} y="{y}" height="{_ROW}">{self._strip(row)}</svg>'
                f'<text x="{_LABEL + _STRIP + 8}" y="{y + 15}">{escape(row.note)}</text></g>'
            )
        middle = _LABEL + _STRIP / 2
        parts.append(
            f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{escape(self.axis.label)}'
            "</text>"
        )
        styles = [style for row in self.rows for style in row.styles]
        return standalone("".join(parts), width, height, styles, self.title)


def _colour(row: Row) -> str:
    return f'style="--c:var(--m{row.styles[0].index})"'
