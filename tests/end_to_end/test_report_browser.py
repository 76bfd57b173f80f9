"""The report in a real browser: opened from disk, alone, in light, in dark and on a phone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pacebench.harness.report import studies
from pacebench.harness.report.gather import report_data
from pacebench.harness.report.make import write
from pacebench.harness.report.sections.order import document
from tests.end_to_end import chromium
from tests.end_to_end.chromium import Chromium
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

HOSTILE = "<script>alert(1)</script>"
# `npm install axe-core` in some folder, and this variable for its axe.min.js.
AXE = Path(os.environ.get("PACEBENCH_AXE", "node_modules/axe-core/axe.min.js"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.find() is None, reason="no Chromium here; on Debian: apt-get install chromium"
    ),
]


def written(folder: Path, methods: tuple[Method, ...], setups: tuple[str, ...], seeds: int) -> Path:
    """Writes a report, and returns its page, moved away from its other files."""
    plan = synthetic.study(methods, setups, seeds)
    question = f"Is it safe to compare so many? {HOSTILE}"
    plan = plan.model_copy(update={"question": question, "name": f"{plan.name}-{len(methods)}"})
    frames = synthetic.frames(methods, setups, seeds, plan=plan)
    view = report_data(frames, plan, {name: synthetic.setup(name) for name in setups})
    write(document(view), view, folder / "report")
    # What is left is one file: a reader mails the page, not the folder.
    return (folder / "report" / "index.html").rename(folder / "alone.html")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of hostile labels, with failed and lost runs."""
    methods = (
        Method("default", 0.40, 0.10),
        Method("spdl", 0.42, 0.12, epsilon=0.05, label='"><img src=x onerror=alert(2)>'),
        Method("spgl", 0.80, 0.08, epsilon=0.05, label=HOSTILE, status={1: "diverged"}),
    )
    return written(tmp_path_factory.mktemp("hostile"), methods, ("point-mass-1",), 6)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten curricula on two setups, ten runs each."""
    names = ("default", "initial", "linear", "uniform", "spdl", "spdl-sqp", "spgl")
    names += ("spgl-shared", "spgl-exact-kl", "spgl-exact")
    methods = tuple(
        Method(name, 0.2 + 0.06 * i, 0.1, epsilon=0.05 if name[:2] == "sp" else None)
        for i, name in enumerate(names)
    )
    setups = ("point-mass-1", "point-mass-2")
    return written(tmp_path_factory.mktemp("large"), methods, setups, 10)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def several(page: Path, large: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An index of two studies, and the two side by side."""
    folders = [path.parent / "report" for path in (large, page)]
    found = [(folder.parent.name, studies.read_summary(folder)) for folder in folders]
    index = studies.write_index(tmp_path_factory.mktemp("index"), found)
    return {"index": index, "comparison": studies.compare(*folders)}


@pytest.fixture
def browser(shared: Chromium, page: Path) -> Chromium:
    return opened(shared, page)


def opened(
    browser: Chromium,
    page: Path,
    width: int = 1400,
    height: int = 900,
    scheme: str = "light",
    *,
    ready: bool = True,
) -> Chromium:
    """Opens a page afresh, and forgets what the browser noted before."""
    browser.size(width, height, phone=width < 500)
    browser.prefer(scheme)
    browser.blank()
    browser.problems.clear()
    browser.requests.clear()
    browser.open(page, ready=ready)
    return browser


def test_it_opens_from_disk_without_errors_requests_or_alien_code(
    browser: Chromium, page: Path
) -> None:
    assert browser.problems == []
    outside = [url for url in browser.requests if not url.startswith("data:")]
    assert outside == [page.as_uri()]
    assert browser.dialogs == []
    # The page's own script, and its data, which nobody runs.
    kinds = browser.run("[...document.scripts].map(s => s.type)")
    assert sorted(kinds) == ["", "application/json"]
    assert browser.run("document.querySelectorAll('img').length") == 0
    for place in (".question", ".answer", ".claims", ".grid"):
        assert HOSTILE in browser.run(f"document.querySelector('{place}').textContent"), place
    # Beside an axis it is cut.
    assert HOSTILE[:23] in browser.run("document.querySelector('.contrasts').textContent")
    labels = browser.run("[...document.querySelectorAll('.toggle span')].map(e => e.textContent)")
    assert HOSTILE in labels


def test_an_injected_script_would_be_refused(browser: Chromium) -> None:
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.broken = true'}))"
    )
    assert browser.run("window.broken === undefined")
    assert any("Content Security Policy" in problem for problem in browser.problems)


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1400, 900, "light"), (390, 844, "light"), (1400, 900, "dark"), (390, 844, "dark")],
)
def test_the_first_screen_holds_answer_grid_and_contrasts(
    shared: Chromium, large: Path, width: int, height: int, scheme: str
) -> None:
    opened(shared, large, width, height, scheme)
    boxes = shared.run(
        "['.question', '.answer', '.grid table', '.contrasts table:last-of-type',"
        " '.contrasts figure:last-child table'].map(s => {"
        " const b = document.querySelector(s).getBoundingClientRect();"
        " return [b.left, b.top, b.right, b.bottom]; })"
    )
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    # Nothing else is above the fold.
    assert (
        shared.run("document.querySelector('nav.tools').getBoundingClientRect().top") >= height - 1
    )
    assert shared.run("document.documentElement.scrollWidth") <= width
    assert shared.problems == []


def test_the_page_is_light_and_short(shared: Chromium, large: Path) -> None:
    assert large.stat().st_size < 1_500_000
    opened(shared, large)
    assert shared.run("document.documentElement.scrollHeight") <= 10 * 900
    sections = "[...document.querySelectorAll('section')].map(s => [s.id, s.offsetHeight])"
    for name, height in shared.run(sections):
        assert height <= 900, name
    names = "[...document.querySelectorAll('.figures .rows th .name')].filter(e => e.offsetWidth)"
    assert shared.run(f"Math.min(...{names}.map(e => e.offsetWidth))") > 40
    # How soon it can be used depends on the machine; how much there is to do does not.
    assert shared.run("document.querySelectorAll('*').length") < 14_000
    assert shared.run("document.getElementById('data').textContent.length") < 150_000
    timing = "performance.getEntriesByType('navigation')[0]"
    print("interactive after (ms):", shared.run(f"{timing}.domInteractive"))


def test_paper_has_the_figures_and_not_the_tools(shared: Chromium, large: Path) -> None:
    # The width of A4 within its margins.
    opened(shared, large, 718, 1000)
    shared.call("Emulation.setEmulatedMedia", media="print")
    try:
        visible = (
            "s => [...document.querySelectorAll(s)].filter(e => e.getClientRects().length).length"
        )
        for shown, least in (("line.bar", 50), (".point", 50), (".claims summary", 18)):
            assert shared.run(f"({visible})('{shown}')") >= least, shown
        for hidden in (".tools", ".slider", ".file", "details.notes", "details.fold"):
            assert shared.run(f"({visible})('{hidden}')") == 0, hidden
        assert shared.run("document.documentElement.scrollWidth") <= 718
        shared.run("document.querySelector('details.fold').open = true")
        assert shared.run(f"({visible})('details.fold')") == 1
    finally:
        shared.call("Emulation.setEmulatedMedia", media="")


def test_without_scripts_everything_is_there_and_folds_are_open(
    shared: Chromium, page: Path
) -> None:
    shared.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        opened(shared, page, ready=False)
    finally:
        shared.call("Emulation.setScriptExecutionDisabled", value=False)
    height = shared.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
    opened(shared, page)
    folded = shared.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
    assert height > 1.5 * folded


@pytest.mark.parametrize("name", ["index", "comparison"])
@pytest.mark.parametrize(
    ("width", "height", "scheme"), [(1400, 900, "light"), (390, 844, "light"), (1400, 900, "dark")]
)
def test_pages_of_several_studies_fit_the_screen(
    shared: Chromium, several: dict[str, Path], name: str, width: int, height: int, scheme: str
) -> None:
    opened(shared, several[name], width, height, scheme)
    assert shared.problems == []
    assert shared.run("document.documentElement.scrollWidth") <= width
    # Every verdict is in sight, and beside its study where there is room.
    grids = (
        "[...document.querySelectorAll('.grid')].map(g => [g.scrollWidth <= g.clientWidth,"
        " g.getBoundingClientRect().top < g.parentElement.querySelector('h3')"
        ".getBoundingClientRect().top])"
    )
    found = shared.run(grids)
    assert len(found) == 2
    if width == 1400:
        assert found == [[True, True], [True, True]]


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core; npm install it and set PACEBENCH_AXE")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "index", "comparison"])
def test_axe_finds_nothing_serious(
    shared: Chromium, page: Path, several: dict[str, Path], name: str, scheme: str
) -> None:
    opened(shared, several.get(name, page), scheme=scheme)
    shared.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    shared.run(AXE.read_text(encoding="utf-8") + "; 0")
    found = shared.run(
        "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
        ".map(v => [v.id, v.nodes.length, v.nodes[0].html, v.nodes[0].failureSummary]))"
    )
    assert found == [], json.dumps(found, indent=1)


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


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_a_table_keeps_its_first_and_its_verdict_column_in_sight(
    shared: Chromium, page: Path, width: int, height: int
) -> None:
    opened(shared, page, width, height)
    shared.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    cells = (
        "(() => { const box = document.querySelector('#table-verdicts .scroll');"
        " box.scrollLeft = 1e4;"
        " const r = box.getBoundingClientRect(), row = box.querySelector('tbody tr');"
        " return [row.cells[0], row.querySelector('td.fixed')].map(c => c.getBoundingClientRect())"
        ".map(b => b.left >= r.left - 1 && b.right <= r.right + 1); })()"
    )
    assert shared.run(cells) == [True, True]
    assert shared.run("document.documentElement.scrollWidth") <= width


def test_figures_are_visible_and_ids_unique(browser: Chromium) -> None:
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    sizes = browser.run(
        "[...document.querySelectorAll('.panel svg, svg.strip')].map(s => {"
        " const b = s.getBoundingClientRect(); return [b.width, b.height, s.children.length]; })"
    )
    assert len(sizes) > 35
    for width, height, inside in sizes:
        assert width > 100
        assert height > 12
        assert inside > 0
    ids = browser.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_toggling_a_curriculum_takes_it_out_everywhere_and_stays_in_the_address(
    browser: Chromium, page: Path
) -> None:
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    shown = (
        "[...document.querySelectorAll('[data-m~=\"1\"]')]"
        ".filter(e => e.getClientRects().length).length"
    )
    before = browser.run(shown)
    assert before > 30
    browser.run("document.querySelector('.toggle[data-method=\"1\"]').click()")
    assert browser.run(shown) == 0
    rows = "[...document.querySelectorAll('tbody tr')].filter(e => e.getClientRects().length)"
    assert browser.run(f"{rows}.filter(r => r.textContent.includes('<img')).length") == 0
    assert browser.run("location.hash") == "#off=1"
    # Whoever is sent the address sees the same.
    browser.blank()
    browser.open(page, "#off=1")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("document.querySelectorAll('.toggle[aria-pressed=false]').length") == 1
    assert browser.run(shown) == 0
    browser.run("document.querySelector('.toggle[data-method=\"1\"]').click()")
    assert browser.run("location.hash") == ""


def test_a_dot_leads_to_its_run(browser: Chromium) -> None:
    where = browser.run(
        "(() => { const dot = document.querySelector('#figure-return-point-mass-1 a circle');"
        " dot.scrollIntoView({block: 'center'}); const b = dot.getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.settle()
    browser.point(*where)
    assert browser.run("document.getElementById('tip').textContent").startswith("default on point-")
    browser.run(
        "document.querySelector('#figure-return-point-mass-1 svg a')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
    )
    said = browser.run("document.querySelector('dialog[open]').textContent")
    for part in (
        "default on point-mass-1, seed 0",
        "curriculum updates24",
        "pacebench play results/",
    ):
        assert part in said
    assert browser.run("document.querySelectorAll('dialog svg polyline').length") == 2
    assert browser.run("location.hash") == "#run=0"
    browser.run("document.querySelector('dialog .close').click()")
    browser.settle()
    assert browser.run("location.hash") == ""
    # By keyboard: the table of all runs links to each.
    assert browser.run("document.querySelectorAll('#table-runs tbody a').length") == 18


def test_the_slider_moves_every_distribution(browser: Chromium) -> None:
    place = (
        "[...document.querySelectorAll('ellipse.now')].map(e => [e.getAttribute('cx'),"
        " e.getAttribute('cy')].join())"
    )
    end = browser.run(place)
    assert len(end) == 9  # Three methods, three pairs of dimensions.
    browser.run(
        "(() => { const r = document.querySelector('.slider input'); r.value = 4;"
        " r.dispatchEvent(new Event('input')); })()"
    )
    early = browser.run(place)
    assert sum(a != b for a, b in zip(early, end, strict=True)) == 6, "all but the fixed one"
    assert browser.run("location.hash") == "#t=4"
    assert browser.run("document.querySelector('.slider output').textContent") == "17 %"


def test_dark_mode_follows_the_system_and_the_button(browser: Chromium) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.panel svg text')).fill"
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


def test_the_watermark_is_on_the_page(browser: Chromium) -> None:
    assert browser.run("document.body.classList.contains('exploratory')")
    assert "exploratory" in browser.run("getComputedStyle(document.body, '::after').maskImage")
    assert browser.run("document.querySelector('.answer').textContent").startswith("Exploratory: ")
