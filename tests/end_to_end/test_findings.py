"""What docs/findings.md and the README say is what the committed tables hold.

Verdicts in prose speak one language, "`a` is better than `b` on `setup` in return", which is read
here; every interval in prose must stand in some committed table. Rows of verdicts and of the
published tables are asked for as they must stand there, so that what a failing test prints can be
pasted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pacebench.harness import load_results
from pacebench.harness.tuning.record import read_record

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
TEXT = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
DECIDED = ("better", "worse", "equivalent", "not worse")

_VERBS = {
    "is better than": "better",
    "is worse than": "worse",
    "is equivalent to": "equivalent",
    "is not worse than": "not worse",
    "is undecided against": "undecided",
}
_PLACE = r"`[a-z0-9-]+`(?: in (?:return|solved runs|success)(?: and solved runs)?)?"
_CLAIM = re.compile(
    rf"`([^`]+)` ({'|'.join(_VERBS)}) `([^`]+)` on ({_PLACE}(?:(?:, | and ){_PLACE})*)"
    r"( by a t-test alone)?"
)
# What a sentence that tells a verdict has in it.
_TELLING = re.compile("|".join(_VERBS))
Claim = tuple[str, str, str, str, str, bool]  # a, b, setup, estimand, verdict, by a t-test alone


def section(title: str) -> str:
    start = TEXT.index(f"\n## {title}") + 1
    end = TEXT.find("\n## ", start)
    return TEXT[start : end if end > 0 else None]


def rows(study: str, table: str) -> list[dict[str, str]]:
    folder = RESULTS / study
    folder = folder / "report" if (folder / "report").is_dir() else folder
    return _read(folder / "tables" / f"{table}.csv")


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def verdict(row: dict[str, str], *, several: bool) -> str:
    """A weighted verdict as a row of a document."""
    digits = 1 if row["estimand"] == "return" else 2
    numbers = _interval(row, digits)
    word = f"**{row['verdict']}**" if row["verdict"] in DECIDED else row["verdict"]
    if row["interval_kind"] != "confidence-sequence":
        word += " by a t-test alone"
    where = f"`{row['setup']}`" + (f", {row['estimand']}" if several else "")
    pair = f"`{row['method']}` − `{row['control']}`"
    return f"| {pair}, {where} | {row['runs']} | {numbers} | {word} | {row['model_verdict']} |"


def verdicts(study: str) -> list[str]:
    found = rows(study, "verdicts")
    several = len({row["estimand"] for row in found}) > 1
    return [verdict(row, several=several) for row in found]


def claims(text: str, estimand: str) -> Iterator[Claim]:
    """Yields the verdicts that a text tells; of `estimand` where it names none."""
    for a, verb, b, where, by_model in _CLAIM.findall(text):
        for place in re.findall(_PLACE, where):
            setup, _, measures = place.partition(" in ")
            for measure in measures.split(" and ") if measures else [estimand]:
                name = measure.removesuffix(" runs")
                yield a, b, setup.strip("`"), name, _VERBS[verb], bool(by_model)


def decided(study: str) -> set[Claim]:
    """Returns the weighted verdicts of a study as claims."""
    return {
        (
            row["method"],
            row["control"],
            row["setup"],
            row["estimand"],
            row["verdict"],
            row["interval_kind"] != "confidence-sequence" and row["verdict"] in DECIDED,
        )
        for row in rows(study, "verdicts")
    }


ANSWERS = {
    "Does SPGL beat training on the target": ("paper", {("spgl", "default")}),
    "Does it match SPDL": ("paper", {("spgl", "spdl")}),
    "Which part of it helps": (
        "rule",
        {
            ("recover", "hold"),
            ("closed form", "solver"),
            ("alike", "crossed"),
            ("spgl recover", "linear"),
        },
    ),
    "When everybody is tuned": ("tuned.tuned", {("spgl", "spdl-sqp"), ("spgl", "linear")}),
}


@pytest.mark.parametrize("title", ANSWERS)
def test_an_answer_tells_every_verdict_and_no_other(title: str) -> None:
    study, pairs = ANSWERS[title]
    (bold,) = re.findall(r"^\*\*(.*?)\*\*", section(title), re.MULTILINE)
    expected = {claim for claim in decided(study) if claim[:2] in pairs}
    assert expected
    assert set(claims(bold, "return")) == expected


def test_every_sentence_that_tells_a_verdict_is_read() -> None:
    known = set().union(*(decided(path.parents[2].name) for path in _verdict_tables()))
    for text in (TEXT, README):
        told = list(claims(text, "return"))
        assert len(_TELLING.findall(text)) == len(_CLAIM.findall(text))
        assert set(told) <= known


def test_on_how_many_setups_an_answer_holds() -> None:
    found = decided("paper")
    setups = {claim[2] for claim in found}
    for pair, verdict in ((("spgl", "default"), "better"), (("spgl", "spdl"), "equivalent")):
        where = {c[2] for c in found if c[:2] == pair and c[4] == verdict and not c[5]}
        assert (len(where), len(setups)) == (1, 4)  # "on one setup of four"
    assert not [c for c in found if c[4] == "worse"]  # "on none is it shown to be worse"
    undecided = {c[:3] for c in decided("rule") if c[4] == "undecided"}
    for a, b in (("recover", "hold"), ("closed form", "solver")):
        assert {(a, b, s) for s in ("point-mass-2", "ball-catching")} <= undecided


def _verdict_tables() -> list[Path]:
    return sorted(RESULTS.glob("*/report/tables/verdicts.csv"))


def test_every_interval_stands_in_a_committed_table() -> None:
    """A difference or a factor with its interval, in prose and in tables that are not asked for."""
    known = {"0.63 (−0.16 to 0.79"}  # eight runs of the paper's kind, computed in its sentence
    for path in RESULTS.glob("*/report/tables/*.csv"):
        for row in _read(path):
            if row.get("difference") and row.get("low"):
                known |= {_interval(row, digits) for digits in (1, 2)}
    for row in [*rows("overhead", "headline"), *rows("overhead", "training")]:
        known |= {factor(row, field) for field in ("total", "ratio") if row.get(field)}
    known = {interval.rstrip(")") for interval in known}
    known |= set(_intervals((RESULTS / "overhead" / "report.md").read_text(encoding="utf-8")))
    for text in (TEXT, README):
        assert set(_intervals(text)) <= known


def _intervals(text: str) -> Iterator[str]:
    for mean, low, high in re.findall(r"(−?[\d. ]*\d) \((−?[\d. ]+) to (−?[\d. ]*\d)", text):
        yield f"{mean.strip()} ({low} to {high}"


def _interval(row: dict[str, str], digits: int) -> str:
    numbers = (f"{float(row[key]):.{digits}f}" for key in ("difference", "low", "high"))
    return "{} ({} to {})".format(*numbers).replace("-", "−")


@pytest.mark.parametrize(
    ("study", "titles"),
    [
        ("paper", ("Does SPGL beat training on the target", "Does it match SPDL")),
        ("rule", ("Which part of it helps",)),
        ("field", ("The field's",)),
        ("tuned.tuned", ("When everybody is tuned",)),
    ],
)
def test_every_weighted_verdict_is_told(study: str, titles: tuple[str, ...]) -> None:
    text = "".join(section(title) for title in titles)
    told = [line for line in text.splitlines() if line.startswith("| `")]
    assert sorted(told) == sorted(verdicts(study))


def test_the_first_evidence_is_that_of_the_tables() -> None:
    """At most eight rows, each with a link to the report that has it."""
    start = README.index("## First evidence")
    text = README[start : README.index("\n## ", start + 1)]
    told = [line for line in text.splitlines() if line.startswith("| `")]
    assert 1 <= len(told) <= 8
    for line in told:
        study = line.split("](results/")[1].split("/")[0]
        question, rest = line.split(", [", 1)
        expected = [row for row in verdicts(study) if row.startswith(question)]
        assert rest.split(" | ", 1)[1] in [row.split(" | ", 1)[1] for row in expected], line


def test_the_published_tables_stand_beside_ours() -> None:
    published = _read(ROOT / "docs/spgl-paper.csv")
    text = section("The paper's tables beside ours")
    ours = {
        (name, row["method"]): row
        for name in dict.fromkeys(row["setup"] for row in published)
        for row in rows("paper", f"results-{name}")
    }
    assert len(ours) == len(published)
    expected = [beside(row, ours[row["setup"], row["method"]]) for row in published]
    assert [line for line in text.splitlines() if line.startswith("| `")] == expected


@pytest.mark.parametrize("setup", ["ball-catching", "point-mass-1", "point-mass-2"])
def test_means_of_the_parts_are_those_of_the_table(setup: str) -> None:
    means = {row["method"]: float(row["mean"]) for row in rows("rule", f"results-{setup}")}
    ordered = sorted(means.items(), key=lambda item: -item[1])
    told = ", ".join(f"`{method}` {mean:.1f}" for method, mean in ordered)
    assert f"- `{setup}`: {told}.\n" in section("Which part of it helps")


def test_the_published_solver_did_what_the_tables_say() -> None:
    text = section("Does it match SPDL")
    for setup in ("point-mass-1", "point-mass-2", "ball-catching", "lunar-lander"):
        means = {row["method"]: float(row["mean"]) for row in rows("solver", f"results-{setup}")}
        a, b, c = (means[name] for name in ("spdl published", "spdl", "spgl"))
        assert f"{a:.1f}, {b:.1f} and {c:.1f} on `{setup}`" in text
    unused = {(row["setup"], row["method"]): row for row in rows("solver", "curriculum-behaviour")}
    one, two = (unused[f"point-mass-{i}", "spdl published"] for i in (1, 2))
    assert one["updates"] == two["updates"]
    assert f"{one['rejected']} and {two['rejected']} of {_spaced(one['updates'])} updates" in text
    assert all(row["rejected"] == "0" for row in unused.values() if row["method"] == "spdl")
    assert {row["verdict"] for row in rows("solver", "verdicts")} == {"undecided"}


def _spaced(number: str) -> str:
    return f"{int(number):,}".replace(",", " ")


def test_who_arrives_at_the_target_is_what_the_tables_count() -> None:
    text = section("Convergence to the target")
    found = {
        (row["setup"], row["method"]): row
        for study in ("paper", "rule")
        for row in rows(study, "curriculum-behaviour")
    }

    def ended(setup: str, method: str) -> str:
        row = found[setup, method]
        return f"{row['on_target']} of {row['runs']}"

    for setup in ("point-mass-1", "point-mass-2", "lunar-lander", "ball-catching"):
        both = [ended(setup, method) for method in ("spgl", "spdl")]
        assert any(f"{both[0]}{between}{both[1]}" in text for between in _BETWEEN), (setup, both)
    for method in ("spgl recover", "spdl recover", "spgl hold", "spdl hold"):
        assert re.search(rf"{ended('point-mass-2', method)} (runs )?of `{method}`", text), method
    steps = float(found["ball-catching", "spgl"]["performance"])
    holds = float(found["ball-catching", "spdl"]["hold"])
    assert f"{steps:.0%}".replace("%", " %") in text
    assert f"{holds:.0%}".replace("%", " %") in text


_BETWEEN = (" runs of `spgl` and ", " and ")


def test_the_budget_is_overdrawn_as_the_tables_count() -> None:
    lines = [x for x in section("The budget").splitlines() if x.startswith("| `")]
    found = {(r["setup"], r["method"]): r for r in rows("rule", "curriculum-behaviour")}
    for line in lines:
        method, promise, *cells = (cell.strip(" `") for cell in line.split("|")[1:-1])
        here = [found[s, method] for s in ("ball-catching", "point-mass-1", "point-mass-2")]
        counted = [f"{_spaced(r['violations'])} of {_spaced(r['moved'])}" for r in here]
        assert cells == [*counted, f"{max(float(r['largest_ratio']) for r in here):.2f} ε"]
        assert promise == here[0]["promise"]
    assert len(lines) == 4


def test_what_t_tests_and_means_say_beside_the_verdicts() -> None:
    """The sentences on Ball Catching and Lunar Lander that no interval from the range backs."""
    said = {
        (study, row["method"], row["control"]): row["model_verdict"]
        for study in ("rule", "paper")
        for row in rows(study, "verdicts")
        if (row["setup"], row["estimand"]) == ("ball-catching", "return")
    }
    parts = section("Which part of it helps")
    assert "a t-test calls the closed form worse than the solver" in parts
    assert said["rule", "closed form", "solver"] == said["rule", "alike", "crossed"] == "worse"
    means = {row["method"]: float(row["mean"]) for row in rows("rule", "results-ball-catching")}
    four = [
        means[f"{method} {step}"] for method in ("spdl", "spgl") for step in ("recover", "hold")
    ]
    assert max(four) == means["spdl recover"]
    assert min(four) == means["spgl recover"] < means["linear"]
    assert "a t-test calls SPGL worse there" in section("The paper's tables beside ours")
    assert said["paper", "spgl", "spdl"] == "worse"
    lander = {row["method"]: float(row["mean"]) for row in rows("paper", "results-lunar-lander")}
    assert min(lander, key=lambda method: lander[method]) == "spgl"


def test_what_the_searches_chose_is_in_their_record() -> None:
    text = section("When everybody is tuned")
    searches = read_record(RESULTS / "tuned" / "tuning" / "record.json").searches
    chosen = {
        method: [s for s in searches if s.method == method]
        for method in ("linear", "spdl-sqp", "spgl")
    }
    assert {len(found) for found in chosen.values()} == {10}
    unpaced, at_end = (
        [sum(test(s) for s in chosen[method]) for method in ("spdl-sqp", "spgl")]
        for test in (lambda s: s.point["threshold"] < 0, lambda s: "threshold" in s.boundary)
    )
    assert f"{unpaced[0]} of 10 searches of `spdl-sqp` and {unpaced[1]} of 10 of `spgl`" in text
    assert f"{at_end[0]} and {at_end[1]} of them at the end of the range" in text
    assert all(s.own_candidate.mean < 0.1 for s in chosen["linear"])  # "never gets to the target"
    assert all(s.chosen is not None for s in searches)  # "no search kept what it began with"
    assert f"{np.mean([s.optimism for s in searches]):.3f} more there" in text
    means = {r["method"]: float(r["mean"]) for r in rows("tuned.tuned", "results-point-mass-1")}
    ordered = sorted(means.items(), key=lambda item: -item[1])
    assert "Means of return: " + ", ".join(f"`{m}` {x:.1f}" for m, x in ordered) in text
    solved = {r["method"]: f"{r['solved']} of {r['seeds']}" for r in rows("tuned.tuned", "solved")}
    assert f"{solved['spgl']} searches of `spgl`" in text
    assert (
        f"{solved['linear']} of `linear` and {solved['spdl-sqp']} of `spdl-sqp` solved it" in text
    )
    assert {r["model_verdict"] for r in rows("tuned.tuned", "verdicts")} == {"equivalent"}


def test_levels_are_those_of_the_table() -> None:
    text = section("The paper's tables beside ours")
    levels = [line for line in text.splitlines() if line.startswith("- **Levels differ")]
    for row in rows("level", "results-point-mass-2"):
        assert f"{100 * float(row['success']):.0f} %" in levels[0], row["method"]
    found = {r["method"]: r for r in rows("level-together", "results-point-mass-2")}
    together, alone, target = (
        f"{100 * float(found[name]['success']):.0f} %"
        for name in ("spgl together", "as in paper", "default together")
    )
    assert f"({together} and {alone}), while training on the target falls to {target}" in levels[0]


def beside(published: dict[str, str], ours: dict[str, str]) -> str:
    """A row of a published table, and ours."""
    theirs = [
        f"{float(published['mean']):.1f} ± {float(published['se']):.1f}".replace("-", "−"),
        p_value(published["p"]),
        f"{float(published['success']):.0f} ± {float(published['success_se']):.1f} %",
    ]
    low, high, share = (100 * float(ours[k]) for k in ("success_low", "success_high", "success"))
    mine = [
        f"{float(ours['mean']):.1f} ± {float(ours['standard_error']):.1f}",
        p_value(ours["p_against_best"]),
        f"{share:.0f} % ({low:.0f} to {high:.0f})",
        ours["runs"],
    ]
    cells = " | ".join([*theirs, *mine])
    return f"| `{published['method']}`, `{published['setup']}` | {cells} |"


def p_value(text: str) -> str:
    if not text:
        return "best"
    return f"{float(text):.3f}" if float(text) >= 0.0005 else "< 0.001"


@pytest.mark.parametrize(
    ("setup", "unnamed"),
    [
        ("point-mass-2d", {"uniform", "acl", "alp-gmm", "goal-gan"}),  # at the floor
        ("point-mass-2", set()),
        ("ball-catching", {"spgl-mixture"}),  # it is `spgl` there
    ],
)
def test_means_of_the_field_are_those_of_the_table(setup: str, unnamed: set[str]) -> None:
    means = {row["method"]: float(row["mean"]) for row in rows("field", f"results-{setup}")}
    prose = section("The field's")
    prose = prose[prose.index("What follows") :]
    for method in means.keys() - unnamed:
        assert f"{means[method]:.1f}" in prose, method


def test_how_often_the_task_with_two_modes_is_solved() -> None:
    found = {r["method"]: r for r in rows("field", "solved") if r["setup"] == "point-mass-2d"}
    a, b = (f"{found[m]['solved']} of {found[m]['seeds']}" for m in ("currot", "spgl-mixture"))
    assert f"{a} runs of `currot` and {b} of `spgl-mixture` solve it" in section("The field's")


def test_how_often_both_modes_are_held() -> None:
    updates = load_results(RESULTS / "field").updates
    updates = updates[updates["setup"] == "point-mass-2d"]
    text = section("The field's")
    for label, runs in (("spgl-mixture", "35 of 40"), ("currot", "36 of 40")):
        last = updates[updates["label"] == label].sort_values("env_steps").groupby("seed").last()
        # The modes are at ±3: the mean tells the share of each, where the distance is small.
        share = (np.stack(last["mean"])[:, 0] / 3 + 1) / 2
        both = (np.abs(share - 0.5) <= 0.2) & (last["sliced_wasserstein"] <= 0.05)
        assert runs == f"{both.sum()} of {len(both)}"
        assert f"{runs} runs of `{label}`" in text or f"{runs} of `{label}`" in text


def factor(row: dict[str, str], field: str) -> str:
    """A ratio with its interval, three digits each, as pages show it."""
    numbers = (float(row[key]) for key in (field, f"{field}_low", f"{field}_high"))
    shown = [f"{x:#.3g}" if x < 1000 else f"{round(x, -1):,.0f}".replace(",", " ") for x in numbers]
    mean, low, high = (text.rstrip(".") for text in shown)
    return f"{mean} ({low} to {high})"


def test_factors_of_time_are_those_of_the_table() -> None:
    text = section("What does it cost")
    timed = {(row["stream"], row["method"]): row for row in rows("overhead", "headline")}
    told = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(told) == 4
    for line in told:
        method = line.split("`")[1]
        both = [timed[f"recorded-point-mass-{i}", method] for i in (1, 2)]
        expected = [factor(row, field) for row in both for field in ("total", "ratio")]
        assert [cell.strip() for cell in line.split("|")[2:-1]] == expected
    trained = {row["method"]: row for row in rows("overhead", "training")}
    for method in ("spdl", "spdl-sqp"):
        assert factor(trained[method], "ratio") in text
        assert factor(trained[method], "ratio") in README
        assert factor(timed["recorded-point-mass-1", method], "total") in README
    (moved,) = (row for row in rows("overhead", "quality") if row["method"] == "spgl")
    assert f"in {moved['over_budget']} of {moved['updates']}" in text
