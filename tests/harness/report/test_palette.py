"""Colours: the same for the same curriculum, apart from each other, legible on both pages."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pacebench import curricula
from pacebench.harness.report.palette import DARK_PAGE, LIGHT_PAGE, _luminance, styles
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method


def looks(*names: str) -> list:
    return list(styles(synthetic.study(tuple(Method(name, 0, 0) for name in names))).values())


def test_every_registered_curriculum_has_its_own_colour() -> None:
    colours = [style.colour for style in looks(*curricula.names())]
    assert len(set(colours)) == len(colours)


def test_a_colour_does_not_depend_on_who_else_is_there() -> None:
    (alone,) = looks("spgl")
    _, _, among = looks("default", "spdl", "spgl")
    assert alone.colour == among.colour


@pytest.mark.parametrize("page", [LIGHT_PAGE, DARK_PAGE])
def test_colours_stand_out_from_the_page(page: str) -> None:
    for style in looks(*curricula.names(), "from-elsewhere"):
        colour = style.colour if page == LIGHT_PAGE else style.dark
        light, dark = sorted((_luminance(colour), _luminance(page)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3.0, style


@pytest.mark.parametrize("name", curricula.names())
@pytest.mark.parametrize("page", [LIGHT_PAGE, DARK_PAGE])
def test_the_same_curriculum_with_other_options_gets_a_shade_that_can_be_told_apart(
    name: str, page: str
) -> None:
    methods = tuple(Method(name, 0, 0, label=f"ε {i}") for i in range(3))
    found = list(styles(synthetic.study(methods)).values())
    shades = [_luminance(s.colour if page == LIGHT_PAGE else s.dark) + 0.05 for s in found]
    for first, second in pairwise(shades):
        assert max(first, second) / min(first, second) > 1.3, found
    assert found[0].colour == looks(name)[0].colour


def test_many_of_one_curriculum_differ_in_more_than_shade() -> None:
    methods = tuple(Method("spgl", 0, 0, label=f"ε {i}") for i in range(8))
    found = list(styles(synthetic.study((*methods, Method("mine", 0, 0)))).values())
    assert len({style.colour for style in found}) == 9
    assert all(_luminance(style.colour) > 0.01 for style in found), "none is black"


def test_curricula_from_elsewhere_differ_from_each_other() -> None:
    found = looks(*(f"mine-{i}" for i in range(7)))
    assert len({style.colour for style in found}) == 7


def test_long_labels_are_cut_beside_axes_only() -> None:
    (style,) = styles(synthetic.study((Method("spgl", 0, 0, label="x" * 60),))).values()
    assert len(style.short) == 24
    assert len(style.label) == 60
