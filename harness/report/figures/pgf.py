"""The same figures for LaTeX, by pgfplots, as wide as a column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from pacebench.harness.report.palette import Style
from pacebench.harness.report.tables import escape_tex

if TYPE_CHECKING:
    from pacebench.harness.report.figures.axis import Axis
    from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
    from pacebench.harness.report.figures.rows import RowPlot

# What a manuscript has to load.
PREAMBLE = (
    "\\usepackage{booktabs,pgfplots,xcolor}\n"
    "\\usepgfplotslibrary{groupplots}\n"
    "\\pgfplotsset{compat=1.17}\n"
)
_MARKS = {"solved": "*", "open": "o", "failed": "x"}


def rows(plot: RowPlot) -> str:
    """Returns rows over one axis, the first at the top."""
    count = len(plot.rows)
    drawn = []
    if plot.zone is not None:
        low, high = (_clip(plot.axis, end) for end in plot.zone)
        drawn.append(
            f"\\fill[black!8] (axis cs:{low:g},-0.5) rectangle (axis cs:{high:g},{count - 0.5:g});"
        )
    drawn += [
        f"\\draw[densely dashed,gray] (axis cs:{v:g},-0.5) -- (axis cs:{v:g},{count - 0.5:g});"
        for v in plot.references
    ]
    for i, row in enumerate(plot.rows):
        colour = f"m{row.styles[0].index}"
        if row.bars:
            total = sum(bar.value for bar in row.bars)
            drawn.append(
                f"\\addplot[{colour},line width=4pt] coordinates {{(0,{i}) ({total:g},{i})}};"
            )
        raised = i - 0.22 if row.dots else i
        for kind, mark in _MARKS.items():
            points = [f"({d.value:g},{i + 0.18:g})" for d in row.dots if d.kind == kind]
            if points:
                drawn.append(
                    f"\\addplot[only marks,mark={mark},mark size=1.1pt,{colour}] coordinates "
                    f"{{{' '.join(points)}}};"
                )
        if row.ends is not None:
            ends = " ".join(f"({_clip(plot.axis, end):g},{raised:g})" for end in row.ends)
            drawn.append(f"\\addplot[{colour},line width=1.2pt] coordinates {{{ends}}};")
        if row.estimate is not None:
            drawn.append(
                f"\\addplot[only marks,mark=*,mark size=1.6pt,{colour}] coordinates "
                f"{{({row.estimate:g},{raised:g})}};"
            )
    names = ",".join(f"{{{escape_tex(row.text)}}}" for row in plot.rows)
    return _picture(
        plot.title,
        (style for row in plot.rows for style in row.styles),
        f"\\begin{{axis}}[width=\\columnwidth,height={1.6 + 0.38 * count:.2f}cm,y dir=reverse,"
        f"ymin=-0.6,ymax={count - 0.4:g},xmin={plot.axis.low:g},xmax={plot.axis.high:g},"
        f"ytick={{{','.join(map(str, range(count)))}}},yticklabels={{{names}}},"
        f"xlabel={{{escape_tex(plot.axis.label)}}},xmajorgrids,"
        "tick label style={font=\\scriptsize},label style={font=\\footnotesize}]",
        drawn,
        "\\end{axis}",
    )


def panels(plot: PanelPlot) -> str:
    """Returns panels, two beside each other."""
    drawn = []
    for panel in plot.panels:
        x, y = panel.axes or (plot.x, plot.y)
        drawn.append(
            f"\\nextgroupplot[title={{{escape_tex(panel.title)}}},xmin={x.low:g},xmax={x.high:g},"
            f"ymin={y.low:g},ymax={y.high:g}{',xmode=log' if x.log else ''}"
            f"{',ymode=log' if y.log else ''}]"
        )
        drawn += _inside(plot, panel, x, y)
    high = -(-len(plot.panels) // 2)
    return _picture(
        f"{plot.title}; across: {plot.x.label}; up: {plot.y.label}",
        (style for panel in plot.panels for style in panel.styles),
        f"\\begin{{groupplot}}[group style={{group size=2 by {high},horizontal sep=1.1cm,"
        "vertical sep=0.9cm},width=0.53\\columnwidth,height=3.1cm,"
        "tick label style={font=\\tiny},title style={font=\\scriptsize,yshift=-1ex}]",
        drawn,
        "\\end{groupplot}",
    )


def _inside(plot: PanelPlot, panel: Panel, x: Axis, y: Axis) -> Iterable[str]:
    colour = f"m{panel.styles[0].index}"
    others = (line for each in plot.panels for line in each.means) if plot.compared else ()
    for line in others:
        yield f"\\addplot[black!25] coordinates {{{_points(line, y)}}};"
    for value, _ in (*plot.rules, *panel.rules):
        ends = f"({x.low:g},{value:g}) ({x.high:g},{value:g})"
        yield f"\\addplot[densely dashed,gray] coordinates {{{ends}}};"
    for ellipse in panel.ellipses:
        cx, cy, rx, ry = ellipse.frames[-1]
        look = {"initial": "gray,dashed", "target": "black", "now": f"{colour},thick"}[ellipse.kind]
        yield f"\\draw[{look}] (axis cs:{cx:g},{cy:g}) ellipse [x radius={rx:g},y radius={ry:g}];"
    looks = {
        "run": f"{colour},opacity=0.3",
        "second": f"{colour},dashed",
        "rule": "gray,densely dashed",
        "dots": f"{colour},only marks,mark size=0.8pt",
        "rings": f"{colour},only marks,mark=o,mark size=2pt",
    }
    for line in panel.lines:
        look = looks.get(line.kind, f"{colour},thick")
        stairs = ",const plot" if line.steps else ""
        yield f"\\addplot[{look}{stairs}] coordinates {{{_points(line, y)}}};"


def _points(line: Line, y: Axis) -> str:
    there = np.isfinite(line.x) & np.isfinite(line.y)
    return " ".join(
        f"({a:g},{_clip(y, b):g})"
        for a, b in zip(line.x[there].tolist(), line.y[there].tolist(), strict=True)
    )


def _clip(axis: Axis, value: float) -> float:
    return min(max(value, axis.low), axis.high)


def _picture(
    title: str, styles: Iterable[Style], begin: str, drawn: Iterable[str], end: str
) -> str:
    colours = [
        f"\\definecolor{{m{style.index}}}{{HTML}}{{{style.colour[1:].upper()}}}"
        for style in dict.fromkeys(styles)
    ]
    lines = [f"% {' '.join(title.split())}", *colours, "\\begin{tikzpicture}", begin, *drawn, end]
    return "\n".join([*lines, "\\end{tikzpicture}", ""])
