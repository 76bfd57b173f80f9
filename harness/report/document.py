"""The report as a sequence of blocks, which pages and Markdown are both made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pacebench.harness.report.answer import Grid
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.tables import Table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Warned:
    """A warning, with the reasons for it if there are several."""

    text: str
    items: Sequence[str] = ()


@dataclass(frozen=True)
class Claim:
    """One claim from a verdict."""

    outcome: str  # the verdict's outcome, which sets its colour
    word: str  # its outcome in a word and a sign
    sentence: str  # the claim
    strength: str  # what it rests on
    brief: Sequence[str] = ()  # who, where and by how much, in a line; the sentence is then folded
    labels: Sequence[str] = ()  # the methods that it is about


@dataclass(frozen=True)
class Claims:
    """A list of claims."""

    claims: Sequence[Claim]


@dataclass(frozen=True)
class Listing:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Pairs:
    """A list of terms, each with its value."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as far as the page is wide."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Picture:
    """A picture inside the page."""

    label: str  # the method it belongs to
    text: str  # what it shows
    source: str  # the picture as a `data:` address


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side."""

    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Verdicts:
    """A grid of verdicts."""

    grid: Grid


@dataclass(frozen=True)
class Link:
    """A way to another page."""

    text: str
    address: str


@dataclass(frozen=True)
class Fold:
    """Blocks behind a click."""

    title: str
    blocks: Sequence[Block]


Block = (
    Text | Heading | Warned | Claims | Listing | Pairs | Table | Figures | Pictures
    | Verdicts | Link | Fold
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """One section of the report."""

    name: str
    title: str
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str  # the study's name
    question: str  # what it asks
    sections: Sequence[Section]
    facts: Sequence[str] = ()  # a few words each: seeds, setups, learner, budget
    exploratory: Sequence[str] = ()  # why the report is only exploratory; empty where it is not
    strength: str = ""  # in a word: exploratory, confirmatory, or empty where nothing is claimed
    answer: str = ""  # what it says to the question, in one sentence
    grid: Grid | None = None  # its verdicts, curricula × setups
    contrasts: Sequence[Figure] = ()  # the intervals behind them

    def tables(self) -> list[Table]:
        """Returns every table in order."""
        return [block for block in self._blocks() if isinstance(block, Table)]

    def figures(self) -> list[Figure]:
        """Returns every figure in order."""
        shown = [f for block in self._blocks() if isinstance(block, Figures) for f in block.figures]
        return [*self.contrasts, *shown]

    def _blocks(self) -> Iterator[Block]:
        for section in self.sections:
            yield from _unfolded(section.blocks)


def _unfolded(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, Fold):
            yield from _unfolded(block.blocks)
        else:
            yield block
