"""The report as a sequence of blocks, which pages and Markdown are both made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pacebench.harness.report.canvas import Figure
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
    """One sentence from a verdict.

    Attributes:
        outcome: The verdict's outcome, which sets its colour.
        word: Its outcome in a word and a sign.
        sentence: The claim.
        strength: What it rests on.
    """

    outcome: str
    word: str
    sentence: str
    strength: str


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
class TableBlock:
    """A table."""

    table: Table


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as far as the page is wide."""

    figures: Sequence[Figure]


Block = Text | Heading | Warned | Claims | Listing | Pairs | TableBlock | Figures


@dataclass(frozen=True)
class Section:
    """One section of the report."""

    name: str
    title: str
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: The study's name.
        question: What it asks.
        facts: A few words each: seeds, setups, learner, budget.
        exploratory: Why the report is only exploratory; empty where it is not.
        strength: In a word: exploratory, confirmatory, or empty where nothing is claimed.
        sections: The sections in order.
    """

    title: str
    question: str
    facts: Sequence[str]
    exploratory: Sequence[str]
    strength: str
    sections: Sequence[Section]

    def tables(self) -> list[Table]:
        """Returns every table in order."""
        return [b.table for s in self.sections for b in s.blocks if isinstance(b, TableBlock)]

    def figures(self) -> list[Figure]:
        """Returns every figure in order."""
        return [
            f for s in self.sections for b in s.blocks if isinstance(b, Figures) for f in b.figures
        ]
