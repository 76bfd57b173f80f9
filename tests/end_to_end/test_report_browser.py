"""The report in a real browser: opened from disk, alone, in light, in dark and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pacebench.harness.report.gather import report_data
from pacebench.harness.report.make import write
from pacebench.harness.report.sections.order import document
from tests.end_to_end import chromium
from tests.end_to_end.chromium import Chromium
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

HOSTILE = "<script>alert(1)</script>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.find() is None, reason="no Chromium here; on Debian: apt-get install chromium"
    ),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of hostile labels, with failed and lost runs, moved away from its other files."""
    methods = (
        Method("default", 0.40, 0.10),
        Method("spdl", 0.42, 0.12, epsilon=0.05, label='"><img src=x onerror=alert(2)>'),
        Method("spgl", 0.80, 0.08, epsilon=0.05, label=HOSTILE, status={1: "diverged"}),
    )
    plan = synthetic.study(methods, ("point-mass-1",), 6)
    plan = plan.model_copy(update={"question": f"Is it safe? {HOSTILE}"})
    frames = synthetic.frames(methods, ("point-mass-1",), 6, plan=plan)
    view = report_data(frames, plan, {"point-mass-1": synthetic.setup("point-mass-1")})
    folder = tmp_path_factory.mktemp("report")
    write(document(view), view, folder)
    # What is left is one file: a reader mails the page, not the folder.
    alone = tmp_path_factory.mktemp("alone") / "report.html"
    (folder / "index.html").rename(alone)
    return alone


@pytest.fixture
def browser(page: Path, tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile") as found:
        found.size(1280)
        found.prefer("light")
        found.open(page)
        yield found


def test_it_opens_from_disk_without_errors_requests_or_alien_code(
    browser: Chromium, page: Path
) -> None:
    assert browser.problems == []
    outside = [url for url in browser.requests if not url.startswith("data:")]
    assert outside == [page.as_uri()]
    assert browser.dialogs == []
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.run("document.querySelector('.question').textContent")
    assert HOSTILE in browser.run("document.querySelector('.claims').textContent")
    assert browser.run(
        f"[...document.querySelectorAll('.toggle span')].some(e => e.textContent === '{HOSTILE}')"
        .replace("</script>", "<\\/script>")
    )  # fmt: skip
    # A label is also text of the figures, in a legend.
    assert browser.run(
        "[...document.querySelectorAll('svg text')].some(e => e.textContent.startsWith('<script>'))"
    )


def test_an_injected_script_would_be_refused(browser: Chromium) -> None:
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.broken = true'}))"
    )
    assert browser.run("window.broken === undefined")
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_tables_sort_numbers_as_numbers_and_back(browser: Chromium) -> None:
    column = (
        "(() => { const t = document.querySelector('#table-results-point-mass-1 table');"
        " const i = [...t.tHead.rows[0].cells].findIndex(c => c.textContent === 'mean return');"
        " return {t, i}; })()"
    )
    values = (
        f"(() => {{ const {{t, i}} = {column};"
        " return [...t.tBodies[0].rows].map(r => parseFloat(r.cells[i].dataset.sort)); })()"
    )
    click = (
        f"(() => {{ const {{t, i}} = {column}; const th = t.tHead.rows[0].cells[i];"
        " th.querySelector('button').click(); return th.getAttribute('aria-sort'); })()"
    )
    given = browser.run(values)
    assert len(given) == 3
    assert browser.run(click) == "ascending"
    assert browser.run(values) == sorted(given)
    assert browser.run(click) == "descending"
    assert browser.run(values) == sorted(given, reverse=True)


def test_missing_values_sort_last_in_both_directions(browser: Chromium) -> None:
    table = "document.querySelector('#table-runs table')"
    column = f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent === 'steps to V₋')"
    values = f"[...{table}.tBodies[0].rows].map(r => r.cells[{column}].dataset.sort)"
    for _ in range(2):
        browser.run(f"{table}.tHead.rows[0].cells[{column}].querySelector('button').click()")
        found = browser.run(values)
        there = [value for value in found if value]
        assert 0 < len(there) < len(found)
        assert found[: len(there)] == there


def test_figures_are_visible(browser: Chromium) -> None:
    sizes = browser.run(
        "[...document.querySelectorAll('figure svg')].map(s => {"
        " const b = s.getBoundingClientRect();"
        " return [b.width, b.height, s.querySelectorAll('path').length]; })"
    )
    assert len(sizes) >= 12
    for width, height, paths in sizes:
        assert width > 250
        assert height > 80
        assert paths > 5
    ids = browser.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_toggling_a_curriculum_takes_it_out_of_every_figure(browser: Chromium) -> None:
    shown = (
        "[...document.querySelectorAll('svg [data-method=\"0\"]')]"
        ".filter(e => getComputedStyle(e).display !== 'none').length"
    )
    before = browser.run(shown)
    assert before > 30
    browser.run("document.querySelector('.toggle[data-method=\"0\"]').click()")
    assert browser.run(shown) == 0
    assert browser.run("document.querySelectorAll('svg [data-method=\"1\"].off').length") == 0
    browser.run("document.querySelector('.toggle[data-method=\"0\"]').click()")
    assert browser.run(shown) == before


def test_hovering_over_a_seed_says_whose_it_is(browser: Chromium) -> None:
    where = browser.run(
        "(() => { const figure = document.getElementById('figure-return-point-mass-1');"
        " const m = [...figure.querySelectorAll('[data-tip]')]"
        ".find(e => e.dataset.tip.startsWith('default, seed'));"
        " m.scrollIntoView({block: 'center', behavior: 'instant'});"
        " const b = m.getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2, m.dataset.tip]; })()"
    )
    browser.settle()
    browser.point(where[0], where[1])
    assert browser.run("document.getElementById('tip').classList.contains('on')")
    assert browser.run("document.getElementById('tip').textContent").startswith("default, seed")


def test_dark_mode_follows_the_system_and_the_button(browser: Chromium) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('figure svg text')).fill"
    assert browser.run(paper) == "rgb(255, 255, 255)"
    light = browser.run(ink)
    browser.prefer("dark")
    assert browser.run(paper) == "rgb(20, 23, 28)"
    assert browser.run(ink) != light
    browser.run("document.getElementById('theme').click()")  # auto → light
    assert browser.run(paper) == "rgb(255, 255, 255)"
    browser.prefer("light")
    browser.run("document.getElementById('theme').click()")  # light → dark
    assert browser.run(paper) == "rgb(20, 23, 28)"


def test_it_fits_a_phone(browser: Chromium, page: Path) -> None:
    browser.size(390, 844, phone=True)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    widths = browser.run(
        "[...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect().width)"
    )
    assert min(widths) > 300
    assert browser.problems == []


def test_the_watermark_is_on_the_page(browser: Chromium) -> None:
    assert browser.run("document.body.classList.contains('exploratory')")
    assert "exploratory" in browser.run("getComputedStyle(document.body, '::after').maskImage")
