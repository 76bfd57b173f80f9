"""The cells of the grid, and what has been measured in each: stored after every block."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pacebench.harness.overhead.instances import SYNTHETIC_INSTANCES, load_stream, recorded_choice
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.store.files import make_folder, write_atomic

RECORDED_INSTANCES = 20
# Contexts of one block are kept in memory together.
BLOCK_BYTES = 200e6


@dataclass(frozen=True)
class Source:
    """Where the instances of a cell come from.

    Attributes:
        kind: `synthetic`, `recorded`, or `check` for the self-check on a synthetic stream.
        name: Unique; names the cell's file.
        d: Context dimensions.
        size: Contexts per update; the median for a recorded stream.
        indices: The instances that blocks take in turn.
        path: File of a recorded stream.
    """

    kind: str
    name: str
    d: int
    size: int
    indices: tuple[int, ...]
    path: str = ""

    def job(self, settings: Settings) -> dict[str, Any]:
        """Returns what a worker needs to build the instances."""
        if self.kind == "recorded":
            return {"kind": "recorded", "path": self.path}
        return {
            "kind": "synthetic",
            "d": self.d,
            "size": self.size,
            "seed": settings.seed,
            "epsilon": settings.epsilon,
        }

    def at_most(self) -> int:
        """Returns how many instances fit into one block."""
        return max(1, min(len(self.indices), int(BLOCK_BYTES / (8 * self.d * self.size))))


def synthetic_sources(settings: Settings) -> list[Source]:
    """Returns the grid of d and K."""
    return [
        Source("synthetic", f"d{d:05d}-k{size:04d}", d, size, tuple(range(SYNTHETIC_INSTANCES)))
        for d in settings.dimensions
        for size in settings.sizes
    ]


def recorded_sources(folder: Path) -> list[Source]:
    """Returns one cell per recorded stream in a folder."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        stream = load_stream(path)
        chosen = tuple(recorded_choice(stream.instances, RECORDED_INSTANCES))
        found.append(
            Source(
                "recorded", f"recorded-{stream.name}", stream.dim, stream.size, chosen, str(path)
            )
        )
    return found


@dataclass
class Cell:
    """What is known of one cell.

    Attributes:
        source: Where its instances come from.
        digest: Of the settings it was measured with.
        probes: Per curriculum the probed seconds per update, or why it is not timed here.
        blocks: Times by number of the block.
        answers: Judged answers by instance and curriculum; they are the same in every block.
    """

    source: Source
    digest: str
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)

    def timed(self) -> list[str]:
        """Returns the curricula that are timed here."""
        return [name for name, probe in self.probes.items() if "seconds" in probe]


class CellStore:
    """The cells in a folder, one compressed JSON file each, rewritten after every block."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_folder(folder)

    def load(self, source: Source, digest: str) -> Cell:
        """Returns the stored cell, or an empty one if there is none with this digest."""
        path = self.folder / f"{source.name}.json.gz"
        empty = Cell(source, digest)
        if not path.exists():
            return empty
        try:
            stored = json.loads(gzip.decompress(path.read_bytes()))
        except (ValueError, OSError, EOFError):
            return empty
        if stored.get("digest") != digest:
            return empty
        blocks = {int(number): found for number, found in stored["blocks"].items()}
        answers = {int(index): found for index, found in stored["answers"].items()}
        return Cell(source, digest, stored["probes"], blocks, answers)

    def save(self, cell: Cell) -> None:
        """Writes the cell."""
        source = cell.source
        plain = {
            "name": source.name,
            "kind": source.kind,
            "d": source.d,
            "size": source.size,
            "digest": cell.digest,
            "probes": cell.probes,
            "blocks": {str(number): cell.blocks[number] for number in sorted(cell.blocks)},
            "answers": {str(index): cell.answers[index] for index in sorted(cell.answers)},
        }
        text = json.dumps(plain, separators=(",", ":"))
        # A fixed time stamp: the same findings are the same bytes.
        data = gzip.compress(text.encode(), mtime=0)
        write_atomic(self.folder / f"{source.name}.json.gz", data, durable=False)
