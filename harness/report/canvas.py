"""What figures are drawn on: one style for all, and a note of what each drawn thing stands for."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as MplFigure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text

from pacebench.harness.report.figure import Figure as Figure
from pacebench.harness.report.palette import Style
from pacebench.harness.report.svg import BACKGROUND, Mark, inline

WIDTH = 4.7  # inches: one column of the page, and legible when a phone shrinks it
INK, MUTED, GRID, ZONE = "#1b1f24", "#6b7280", "#dfe3e8", "#eef1f4"
PNG_DPI = 160

_RC = {
    **sns.axes_style("ticks"),
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.07,
    "figure.constrained_layout.h_pad": 0.06,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    # Without it the ids inside the file are random, and no two reports are the same.
    "svg.hashsalt": "pacebench",
    # A label is a user's text: a dollar sign in it is a dollar sign.
    "text.parse_math": False,
}


def handle(style: Style) -> Line2D:
    """Returns the line that stands for a curriculum in a legend."""
    return Line2D(
        [], [], color=style.colour, linestyle=style.line, marker=style.marker, markersize=4.5
    )


class Canvas:
    """Draws one figure, as a context manager: matplotlib's settings are changed only inside it."""

    def __init__(
        self,
        name: str,
        title: str,
        *,
        styles: Mapping[str, Style],
        height: float = 3.2,
        width: float = WIDTH,
        rows: int = 1,
        exploratory: bool = False,
    ) -> None:
        self.name, self.title, self.styles = name, title, styles
        self._marks: dict[str, Mark] = {}
        self._exploratory = exploratory
        self._rc: Any = mpl.rc_context(_RC)
        self._size = (width, height)
        self._rows = rows

    def __enter__(self) -> Canvas:
        self._rc.__enter__()
        self.figure = MplFigure(figsize=self._size)
        self.figure.patch.set_gid(BACKGROUND)
        grid = self.figure.subplots(self._rows, 1, sharex=self._rows > 1, squeeze=False)
        self.all_axes: list[Axes] = list(grid[:, 0])
        for axes in self.all_axes:
            # The page shines through; the files have the figure's own white behind it.
            axes.patch.set_alpha(0)
        return self

    def __exit__(self, *failure: object) -> None:
        self._rc.__exit__(*failure)

    @property
    def axes(self) -> Axes:
        """The only, or first, panel."""
        return self.all_axes[0]

    def mark(self, artists: Artist | Iterable[Artist], style: Style | None, tip: str = "") -> None:
        """Notes what drawn things stand for, so that the page can hide or explain them."""
        for artist in [artists] if isinstance(artists, Artist) else artists:
            gid = f"mark-{len(self._marks)}"
            artist.set_gid(gid)
            method = {} if style is None else {"data-m": str(style.index)}
            self._marks[gid] = method | ({"data-tip": tip} if tip else {})

    def legend(self, labels: Iterable[str], axes: Axes | None = None, **options: Any) -> None:
        """Adds a legend of curricula under the axes, each entry marked as its curriculum."""
        chosen = [self.styles[label] for label in labels]
        handles = [handle(style) for style in chosen]
        columns = min(len(chosen), 3 if max(len(s.short) for s in chosen) < 16 else 2)
        placed: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, **options}
        rows = -(-len(chosen) // columns)
        if axes is None and rows > 2:
            # A long legend must not squeeze the panel it explains.
            width, height = self.figure.get_size_inches()
            self.figure.set_size_inches(width, height + 0.19 * (rows - 2))
        where = self.figure if axes is None else axes
        legend: Legend = where.legend(handles, [s.short for s in chosen], **placed)
        entries = zip(legend.legend_handles, legend.get_texts(), chosen, strict=True)
        for drawn, text, style in entries:
            if drawn is not None:
                self.mark([drawn, text], style, style.label)

    def finish(self, caption: str) -> Figure:
        """Renders the figure."""
        if self._exploratory:
            self.figure.text(
                0.004, 0.006, "exploratory", ha="left", va="bottom", fontsize=7.5, color=MUTED,
                style="italic",
            )  # fmt: skip
        for axes in self.all_axes:
            sns.despine(ax=axes)
        for text in self.figure.findobj(Text):
            text.set_parse_math(False)
        svg = io.BytesIO()
        FigureCanvasSVG(self.figure)
        self.figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        # The layout is found; finding it again for the other format would double the time.
        self.figure.set_layout_engine("none")
        png = io.BytesIO()
        FigureCanvasAgg(self.figure)
        self.figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": None})
        colours = {s.colour: f"var(--m{s.index})" for s in self.styles.values()}
        colours |= {
            INK: "currentColor",
            MUTED: "var(--muted)",
            GRID: "var(--grid)",
            ZONE: "var(--zone)",
            "#ffffff": "var(--page)",
        }
        element = inline(svg.getvalue().decode(), self.name, self._marks, colours, self.title)
        files = {".svg": svg.getvalue(), ".png": png.getvalue()}
        return Figure(self.name, self.title, caption, element, files)
