"""From a figure's SVG file to a piece of the page: own ids, themed colours, hover, toggles."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DIGITS = re.compile(r"(\.\d\d)\d+")
BACKGROUND = "figure-background"

ET.register_namespace("", _SVG)


# What the page is told of a drawn thing, as attributes of its element: `data-m`, the index of
# its curriculum, and `data-tip`, what hovering over it says.
Mark = Mapping[str, str]


def inline(
    text: str, prefix: str, marks: Mapping[str, Mark], colours: Mapping[str, str], title: str
) -> str:
    """Returns the SVG element to be put into a page.

    Args:
        text: The SVG file as matplotlib writes it.
        prefix: Put in front of every id, because all figures share the page's ids.
        marks: By the id that was given to the artist.
        colours: Colours of the file → what the page uses instead.
        title: What a screen reader says.
    """
    # The document type names a remote file, and nothing of the page may point outside.
    text = re.sub(r"<!DOCTYPE[^>]*>", "", text, count=1)
    root = ET.fromstring(text)
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    root.set("role", "img")
    root.set("aria-label", title)
    for parent in root.iter():
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}metadata" or child.get("id") == BACKGROUND:
                parent.remove(child)
    for element in root.iter():
        _rewrite(element, prefix, marks, colours)
    return ET.tostring(root, encoding="unicode")


def _rewrite(
    element: ET.Element, prefix: str, marks: Mapping[str, Mark], colours: Mapping[str, str]
) -> None:
    name = element.get("id")
    if name is not None:
        for key, value in marks.get(name, {}).items():
            element.set(key, value)
        element.set("id", f"{prefix}-{name}")
    for key in ("href", f"{{{_XLINK}}}href"):
        link = element.get(key)
        if link is not None and link.startswith("#"):
            element.attrib.pop(key)
            element.set("href", f"#{prefix}-{link[1:]}")
    for key in ("d", "x", "y", "transform"):
        if key in element.attrib:
            # A hundredth of a point cannot be seen, and the page is a third lighter.
            element.set(key, _DIGITS.sub(r"\1", element.attrib[key]))
    for key, value in list(element.attrib.items()):
        if key not in ("style", "fill", "stroke", "clip-path"):
            continue
        if "url(#" in value:
            value = value.replace("url(#", f"url(#{prefix}-")
        for old, new in colours.items():
            value = value.replace(old, new)
        element.set(key, value)
