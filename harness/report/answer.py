"""The answer of a study in one sentence, and the grid of its verdicts.

Both come from the weighted comparisons alone; the page, the index of studies and the terminal show
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pacebench.harness.analysis.comparisons import ComparisonResult
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.analysis.verdicts import Verdict, evidence, number
from pacebench.harness.report import words
from pacebench.harness.study.models import Study

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "≈", "not worse": "△", "undecided": "?"}
SIGNS["not better"] = "▽"
# Seen from the other side.
_FLIPPED = {"better": "worse", "worse": "better", "not worse": "not better"}
_VERBS = {
    Verdict.BETTER: "better than",
    Verdict.WORSE: "worse than",
    Verdict.EQUIVALENT: "equivalent to",
    Verdict.NOT_WORSE: "not worse than",
}
_CLAUSES = 4  # that one can read in a sentence
MOST_COLUMNS = 3  # of verdicts, beside the intervals behind them


def answer(
    study: Study,
    family: Sequence[ComparisonResult],
    *,
    exploratory: bool,
    unit: str = "seeds",
) -> str:
    """Returns what the weighted comparisons of a study say, in one sentence.

    Args:
        study: The study, one entry per method.
        family: Its weighted comparisons.
        exploratory: Whether nothing of it is a claim.
        unit: What the observations are.
    """
    if not family:
        return "Nothing is claimed: the study declares no comparison."
    open_ = [item for item in family if item.verdict is Verdict.UNDECIDED]
    seeds = f"{words.extent(item.seeds for item in family)} {unit}"
    if len(open_) == len(family):
        nearest = max(family, key=_nearness)
        q = nearest.question
        which = (
            f"the question whether {q.a} and {q.b} differ {_place(q.scope)} is undecided"
            if len(family) == 1
            else f"none of the {len(family)} questions is decided; nearest to it is {q.a} against "
            f"{q.b} {_place(q.scope)}"
        )
        text = f"After {seeds} {which} ({_short(nearest)})."
    else:
        clauses = _clauses(study, [item for item in family if item not in open_])
        more = len(clauses) - _CLAUSES
        text = "; ".join(clauses[:_CLAUSES]) + (f"; and {more} more" if more > 0 else "")
        if len(family) == 1:
            text += f" ({evidence(family[0].shown)})"
        elif open_:
            rest = f"{len(open_)} of {len(family)} questions"
            text += f"; {rest} {'is' if len(open_) == 1 else 'are'} undecided after {seeds}"
        text = f"{words.capital(text)}."
    return f"Exploratory: {text[0].lower()}{text[1:]}" if exploratory else text


def places(family: Iterable[ComparisonResult]) -> dict[tuple[str, str], str]:
    """Returns how every scope and estimand is printed: by the setup alone where one is measured."""
    keys = dict.fromkeys((item.question.scope, item.question.estimand) for item in family)
    several = len({estimand for _, estimand in keys}) > 1
    return {(s, e): words.scope(s) + (f", {e}" if several else "") for s, e in keys}


def in_order(study: Study, items: Iterable[ComparisonResult]) -> list[ComparisonResult]:
    """Returns comparisons in the order of setups, the suite last, and of the study file."""
    place = study.compared.index
    scopes = (*study.setups, SUITE)
    return sorted(
        items,
        key=lambda c: (scopes.index(c.question.scope), place(c.question.a), place(c.question.b)),
    )


def _clauses(study: Study, decided: Sequence[ComparisonResult]) -> list[str]:
    """Returns who is what against whom, those of one sort together."""
    groups: dict[tuple[str, str, tuple[str, str], bool], list[str]] = {}
    several = len({item.question.estimand for item in decided}) > 1
    # Who is better comes first: only so many clauses are read.
    for item in sorted(decided, key=lambda c: c.verdict not in (Verdict.BETTER, Verdict.WORSE)):
        q = item.question
        fixed_second = q.b == study.control
        kept, listed = (q.b, q.a) if fixed_second else (q.a, q.b)
        place = (q.scope, q.estimand if several else "")
        said = ("by a t-test alone " if _by_model(item) else "") + _VERBS[item.verdict]
        groups.setdefault((said, kept, place, fixed_second), []).append(listed)
    merged: dict[tuple[str, str, tuple[str, ...], bool], list[tuple[str, str]]] = {}
    for (said, kept, place, fixed_second), listed_ in groups.items():
        merged.setdefault((said, kept, tuple(listed_), fixed_second), []).append(place)
    found = []
    for (said, kept, others, fixed_second), places in merged.items():
        first, second = (_and(others), kept) if fixed_second else (kept, _and(others))
        verb = "are" if fixed_second and len(others) > 1 else "is"
        found.append(f"{_places(places)} {first} {verb} {said} {second}")
    return found


def _by_model(item: ComparisonResult) -> bool:
    """Says whether a verdict rests on a t-test, for want of a range of the scores."""
    return item.interval is None and item.verdict is not Verdict.UNDECIDED


def _nearness(item: ComparisonResult) -> float:
    """Returns how far the interval lies on one side of zero, as a share of its width."""
    shown = item.shown
    if shown is None or not shown.high > shown.low:
        return 0.0
    return max(abs(shown.high), abs(shown.low)) / (shown.high - shown.low)


def _short(item: ComparisonResult) -> str:
    shown = item.shown
    if shown is None:
        return "no interval can be given"
    low, high = number(shown.low), number(shown.high)
    return f"difference {number(shown.estimate)}, interval {low} to {high}"


def _place(scope: str) -> str:
    return "over all setups" if scope == SUITE else f"on {scope}"


def _places(places: Sequence[tuple[str, str]]) -> str:
    """Returns setups, each with what was measured there, if that is to be said."""
    measures: dict[str, list[str]] = {}
    for scope, measure in places:
        measures.setdefault(scope, []).extend([measure] if measure else [])
    return " and ".join(
        _place(s) + (f" ({', '.join(m)})" if m else "") for s, m in measures.items()
    )


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True)
class Chip:
    """One verdict of the grid, as seen from its row."""

    word: str  # the verdict
    tip: str  # the sentence behind it
    by_model: bool = False  # whether it rests on a t-test alone

    @property
    def sign(self) -> str:
        """The verdict as one character."""
        return SIGNS[self.word]

    @property
    def text(self) -> str:
        """The verdict as it is shown."""
        return f"{self.sign} {self.word}{', t-test' if self.by_model else ''}"

    @property
    def tone(self) -> str:
        """The verdict as a class of the page."""
        return self.word.replace(" ", "-")


@dataclass(frozen=True)
class GridRow:
    """One curriculum, or a pair without the control."""

    text: str  # what stands before the verdicts
    labels: tuple[str, ...]  # whose row it is
    chips: tuple[Chip | None, ...]  # a verdict per column; None where nothing was asked


@dataclass(frozen=True)
class Grid:
    """Curricula × setups."""

    control: str  # what the verdicts are against
    columns: tuple[str, ...]  # the setups, with the measure where there are several
    rows: tuple[GridRow, ...]

    @property
    def turned(self) -> bool:
        """Whether columns are shown as rows: many setups do not fit side by side."""
        return len(self.columns) > max(MOST_COLUMNS, len(self.rows))

    def lines(self) -> Iterator[tuple[str, tuple[Chip | None, ...]]]:
        """Yields the rows as they are shown, each with what stands before it."""
        if not self.turned:
            yield from ((row.text, row.chips) for row in self.rows)
            return
        yield from zip(
            self.columns, zip(*(row.chips for row in self.rows), strict=True), strict=True
        )

    def heads(self) -> tuple[str, ...]:
        """Returns what stands above the columns as they are shown."""
        return tuple(row.text for row in self.rows) if self.turned else self.columns


def grid(study: Study, family: Sequence[ComparisonResult]) -> Grid:
    """Returns the verdicts of the weighted comparisons, each against the control."""
    control = study.control
    columns = places(family)
    found: dict[tuple[str, ...], dict[tuple[str, str], Chip]] = {}
    for item in family:
        q, word = item.question, item.verdict.value
        labels: tuple[str, ...] = (q.a, q.b)
        if control in labels:
            labels = (q.b if q.a == control else q.a,)
            word = _FLIPPED.get(word, word) if q.a == control else word
        chip = Chip(word, item.sentence(), _by_model(item))
        found.setdefault(labels, {})[q.scope, q.estimand] = chip
    order = {label: place for place, label in enumerate(study.compared)}
    rows = [
        GridRow(" − ".join(labels), labels, tuple(chips.get(key) for key in columns))
        for labels, chips in sorted(found.items(), key=lambda i: (len(i[0]), order[i[0][0]]))
    ]
    return Grid(control, tuple(columns.values()), tuple(rows))
