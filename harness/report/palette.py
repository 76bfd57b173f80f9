"""One look per curriculum, the same in every figure of every report.

Colours are Okabe and Ito's, which people with colour-blindness can tell apart, with Tol's for the
rest; each name keeps its own, so two reports can be laid side by side. Rows and panels say by their
names what the colour says, for print in grey.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle

from pacebench.harness.study.models import Study

# Controls are muted, the closed forms warm, the numerical baselines blue; then the field's others.
_COLOURS = {
    "default": "#767676",
    "initial": "#a08c5b",
    "linear": "#8c6bb1",
    "uniform": "#7a8b2c",
    "spdl": "#0072b2",
    "spdl-sqp": "#3a9fd8",
    "spgl": "#d55e00",
    "spgl-shared": "#009e73",
    "spgl-exact-kl": "#e0559b",
    "spgl-exact": "#c98b00",
    "spgl-joint": "#aa4499",
    "spgl-mixture": "#b8432f",
    "acl": "#117a8b",
    "plr": "#5b5bd6",
    "currot": "#4d8f00",
    "alp-gmm": "#8a5a44",
    "procurl": "#c2185b",
    "goal-gan": "#5f7d95",
}
# Shades of one colour that can be told apart.
_SHADES = 3
# For curricula of other packages, and for one that is there more often than it has shades.
_SPARE = ("#44aa99", "#cc6677", "#6699cc", "#997700", "#994455", "#4477aa", "#66884f")

LIGHT_PAGE, DARK_PAGE = "#ffffff", "#14171c"
# Contrast with the page: WCAG asks 3 of graphics; single seeds are drawn faintly, which a dark page
# forgives less.
_CONTRAST = {LIGHT_PAGE: 3.0, DARK_PAGE: 5.0}


@dataclass(frozen=True)
class Style:
    """How one curriculum looks."""

    index: int  # its place in the study, which names it inside the page
    label: str  # how the study calls it
    name: str  # its registered name
    colour: str  # on a light page
    dark: str  # on a dark page

    @property
    def short(self) -> str:
        """The label, cut to what fits beside an axis."""
        return self.label if len(self.label) <= 24 else self.label[:23] + "…"


def styles(study: Study) -> dict[str, Style]:
    """Returns the look of each of a study's curricula by label."""
    return looks([(entry.shown, entry.name) for entry in study.curricula])


def looks(entries: Sequence[tuple[str, str]]) -> dict[str, Style]:
    """Returns the look of each label, given with its registered name."""
    seen: Counter[str] = Counter()
    colours = _colours(name for _, name in entries)
    taken = {colours[name] for _, name in entries}
    spare = cycle([c for c in _SPARE if c not in taken] or _SPARE)
    found: dict[str, Style] = {}
    for i, (label, name) in enumerate(entries):
        colour, repeat = colours[name], seen[name]
        seen[name] += 1
        if repeat >= _SHADES:
            colour, repeat = next(spare), 0
        found[label] = Style(
            index=i,
            label=label,
            name=name,
            colour=_on_page(colour, repeat, LIGHT_PAGE),
            dark=_on_page(colour, repeat, DARK_PAGE),
        )
    return found


def _colours(names: Iterable[str]) -> dict[str, str]:
    """Returns the colour of each name; outside names differ as long as there are spare ones."""
    found = dict(_COLOURS)
    for name in sorted(set(names) - set(_COLOURS)):
        first = int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(_SPARE)
        order = _SPARE[first:] + _SPARE[:first]
        found[name] = next((c for c in order if c not in found.values()), order[0])
    return found


def _on_page(colour: str, repeat: int, page: str) -> str:
    """Returns a colour that stands out from the page, moved away from it as far as that takes.

    A curriculum that is there again with other options gets a further shade, even farther away.
    """
    # Black or white, whichever is opposite to the page.
    away = 0.0 if _luminance(page) > 0.5 else 1.0
    for _ in range(20):
        lighter, darker = sorted((_luminance(colour), _luminance(page)), reverse=True)
        if (lighter + 0.05) / (darker + 0.05) >= _CONTRAST[page]:
            break
        colour = _mixed(colour, away, 0.08)
    return _mixed(colour, away, 1 - 0.55**repeat)


def _mixed(colour: str, grey: float, share: float) -> str:
    """Returns a colour with such a share of a grey mixed in."""
    return "#" + "".join(f"{round(255 * (c + share * (grey - c))):02x}" for c in _rgb(colour))


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
