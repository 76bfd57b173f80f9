"""Small panels side by side, one per method, with the others in grey behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from pacebench.harness.report.figure import Figure, standalone
from pacebench.harness.report.figures import pgf
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.palette import Style

FloatArray = NDArray[np.float64]

# Of a panel in the units of its drawing, with the frame inside.
WIDTH, HEIGHT = 200, 116
LEFT, TOP, RIGHT, BOTTOM = 36, 6, 6, 18
_COLUMNS, _HEAD = 4, 18  # of the file
_LEAST, _MOST = 4, 6  # panels in a row of the page


@dataclass(frozen=True)
class Line:
    """One line."""

    x: FloatArray  # its places
    y: FloatArray  # its values; where they are not finite there is a gap
    # `run`, `mean`, `second`, `path`, `rule`, or its points as `dots` or `rings`.
    kind: str = "mean"
    steps: bool = False  # whether it is constant between its points
    unit: int | None = None  # of a run: its number among the observations that the page knows


@dataclass(frozen=True)
class Ellipse:
    """One standard deviation of a distribution."""

    # Centre and half widths, (frames, 4); the last is drawn, the page moves through all.
    frames: FloatArray
    kind: str  # `initial`, `target` or `now`


@dataclass(frozen=True)
class Panel:
    """One panel."""

    title: str  # what stands above it
    styles: Sequence[Style]  # whose it is; the first one's colour is its own
    lines: Sequence[Line]
    # Places, lower and upper edge of the shade.
    band: tuple[FloatArray, FloatArray, FloatArray] | None = None
    ellipses: Sequence[Ellipse] = ()  # distributions
    note: str = ""  # what stands beside the title
    axes: tuple[Axis, Axis] | None = None  # its own axes, where they are not those of all panels
    rules: Sequence[tuple[float, str]] = ()  # horizontal lines of its own, each with its word

    @property
    def means(self) -> list[Line]:
        """Its main lines."""
        return [line for line in self.lines if line.kind == "mean"]


@dataclass(frozen=True)
class PanelPlot(Figure):
    """Panels over the same two axes."""

    x: Axis
    y: Axis
    panels: Sequence[Panel]
    # Horizontal lines, each with its word; of a panel's own axes it draws its own.
    rules: Sequence[tuple[float, str]] = ()
    compared: bool = False  # whether the mean of every panel stands in grey behind all of them
    lead: str = ""  # HTML that the page shows above them
    wide = True

    @property
    def tex(self) -> str:
        """The same for LaTeX."""
        return pgf.panels(self)

    @property
    def svg(self) -> str:
        """The element for the page."""
        # Drawn out of sight, once; every panel shows it again.
        behind = self._backdrop()
        defs = f'<svg class="away" aria-hidden="true">{behind}</svg>' if behind else ""
        panels = "".join(
            f'<div class="panel" data-m="{" ".join(str(s.index) for s in panel.styles)}" '
            f'style="--c:var(--m{panel.styles[0].index})">'
            f'<p><span class="name">{escape(panel.title)}</span> <small>{escape(panel.note)}'
            f"</small></p>"
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escape(f"{self.title}: {panel.title} {panel.note}")}">'
            f"{self._inside(panel)}</svg></div>"
            for panel in self.panels
        )
        label = f"across: {self.x.label}; up: {self.y.label}"
        # Rows of equal length, as long as a wide page has room for.
        rows = -(-len(self.panels) // _MOST)
        across = max(_LEAST, -(-len(self.panels) // rows))
        return (
            f'{self.lead}{defs}<div class="panels" style="--k:{across}">{panels}</div>'
            f'<p class="axislabel">{escape(label)}</p>'
        )

    def _backdrop(self) -> str:
        """Returns the means of all panels, to be shown again in each."""
        if not self.compared:
            return ""
        lines = "".join(
            f'<g data-m="{panel.styles[0].index}">{_path(line, self.x, self.y, "other")}</g>'
            for panel in self.panels
            for line in panel.means
        )
        return f'<defs><g id="{self.name}-back-0">{lines}</g></defs>'

    def _inside(self, panel: Panel) -> Markup:
        x, y = panel.axes or (self.x, self.y)
        right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = []
        for place, text in y.marks():
            at = _up(place)
            parts.append(
                f'<line class="tick" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
                f'<text x="{LEFT - 3}" y="{float(at) + 3.5:.1f}" text-anchor="end">{text}</text>'
            )
        for place, text in x.marks():
            side = "start" if place < 0.1 else "end" if place > 0.85 else "middle"
            parts.append(
                f'<text x="{_across(place)}" y="{HEIGHT - 5}" text-anchor="{side}">{text}</text>'
            )
        parts.append(
            f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{right - LEFT}" '
            f'height="{floor - TOP}"/>'
        )
        for value, word in (*self.rules, *panel.rules):
            at = _up(y.place(value))
            # Below the line, unless that is below the frame.
            under = float(at) + (9 if float(at) < floor - 12 else -3)
            parts.append(
                f'<line class="rule" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
                f'<text x="{right - 3}" y="{under:.1f}" text-anchor="end">{word}</text>'
            )
        if self.compared:
            parts.append(f'<use href="#{self.name}-back-0"/>')
        for ellipse in panel.ellipses:
            parts.append(_ellipse(ellipse, x, y))
        if panel.band is not None:
            places, low, high = panel.band
            there = np.isfinite(low) & np.isfinite(high)
            edge = np.concatenate([places[there], places[there][::-1]])
            shade = Line(edge, np.concatenate([high[there], low[there][::-1]]))
            parts.append(_path(shade, x, y, "band"))
        parts += [_path(line, x, y) for line in panel.lines]
        return Markup("".join(parts))

    @property
    def file(self) -> str:
        """The same as an SVG file."""
        columns = min(_COLUMNS, len(self.panels))
        rows = -(-len(self.panels) // columns)
        tall = HEIGHT + _HEAD
        width, height = columns * WIDTH, 26 + rows * tall + 20
        parts = [
            self._backdrop(),
            f'<text class="title" x="6" y="17">{escape(self.title + self.stamp)}</text>',
        ]
        for i, panel in enumerate(self.panels):
            left, top = (i % columns) * WIDTH, 26 + (i // columns) * tall
            parts.append(
                f'<g transform="translate({left} {top})" '
                f'style="--c:var(--m{panel.styles[0].index})">'
                f'<text x="{LEFT}" y="12">{escape(panel.title)} {escape(panel.note)}</text>'
                f'<g transform="translate(0 {_HEAD})">{self._inside(panel)}</g></g>'
            )
        label = escape(f"across: {self.x.label}; up: {self.y.label}")
        parts.append(f'<text x="{LEFT}" y="{height - 6}">{label}</text>')
        styles = [style for panel in self.panels for style in panel.styles]
        return standalone("".join(parts), width, height, styles, self.title)


def _across(place: float) -> str:
    return f"{LEFT + place * (WIDTH - LEFT - RIGHT):.1f}"


def _up(place: float) -> str:
    return f"{HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM):.1f}"


def _path(line: Line, x: Axis, y: Axis, kind: str = "") -> Markup:
    drawn, down, before = [], False, ""
    for a, b in zip(line.x, line.y, strict=True):
        if not (np.isfinite(a) and np.isfinite(b)):
            down = False
            continue
        across, up = _across(x.place(float(a))), _up(y.place(float(b)))
        if line.kind in ("dots", "rings"):
            # A stroke without length and with round ends is a dot.
            drawn.append(f"M{across} {up}h0")
        elif not down:
            drawn.append(f"M{across} {up}")
        elif line.steps:
            # A stair that does not rise needs no corner.
            drawn.append(f"H{across}" if up == before else f"H{across}V{up}")
        else:
            drawn.append(f"L{across} {up}")
        down, before = True, up
    unit = "" if line.unit is None else f' data-u="{line.unit}"'
    return Markup(f'<path class="{kind or line.kind}"{unit} d="{"".join(drawn)}"/>')


def _ellipse(ellipse: Ellipse, x: Axis, y: Axis) -> Markup:
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    frames = [
        (
            _across(x.place(cx)),
            _up(y.place(cy)),
            f"{max(2.0, rx / (x.high - x.low) * width):.1f}",
            f"{max(2.0, ry / (y.high - y.low) * height):.1f}",
        )
        for cx, cy, rx, ry in ellipse.frames.tolist()
    ]
    cx, cy, rx, ry = frames[-1]
    moving = f' data-frames="{";".join(",".join(f) for f in frames)}"' if len(frames) > 1 else ""
    shape = f'<ellipse class="{ellipse.kind}" cx="{cx}" cy="{cy}" rx="{rx}" ry="{ry}"{moving}/>'
    return Markup(shape)
