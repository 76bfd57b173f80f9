"""What has been measured in each cell: one file per cell, rewritten after every block."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from pydantic import BaseModel, Field

from pacebench.harness.overhead.findings import StoredRecord
from pacebench.harness.overhead.machine import Activity
from pacebench.harness.overhead.quality import Answer
from pacebench.harness.overhead.streams import ReplayStream
from pacebench.harness.overhead.timing import BlockTimes
from pacebench.harness.store.files import write_atomic

MEMORY = "memory"


class Probe(StoredRecord):
    """Whether a curriculum is quick enough for a cell.

    Attributes:
        seconds: Per update, where that is within the limit.
        over: Where it is not: the seconds, the name of the cell that showed it, or `memory`.
        failed: What the curriculum raised.
        attempted: False where a smaller d with the same K was over the limit already.
    """

    seconds: float | None = None
    over: float | str | None = None
    failed: str | None = None
    attempted: bool = True


class BlockRecord(StoredRecord):
    """One block of one cell: times and errors by label, and the instances that were replayed."""

    times: dict[str, BlockTimes]
    failed: dict[str, str] = Field(default_factory=dict)
    machine: Activity
    indices: tuple[int, ...] = ()


class CellRecord(BaseModel):
    """All that is known of one cell; it grows block by block.

    Attributes:
        stream: Where its instances come from.
        digest: Of the settings it was measured with.
        probes: By curriculum.
        blocks: By number.
        answers: By instance and curriculum; they are the same in every block.
    """

    stream: ReplayStream = Field(exclude=True)
    digest: str
    probes: dict[str, Probe] = Field(default_factory=dict)
    blocks: dict[int, BlockRecord] = Field(default_factory=dict)
    answers: dict[int, dict[str, Answer]] = Field(default_factory=dict)

    @property
    def seconds(self) -> dict[str, float]:
        """The probed seconds of the curricula that are timed here."""
        return {n: p.seconds for n, p in self.probes.items() if p.seconds is not None}


def load_cell(folder: Path, stream: ReplayStream, digest: str) -> CellRecord:
    """Returns the stored cell, or an empty one if there is none with this digest."""
    empty = CellRecord(stream=stream, digest=digest)
    try:
        stored = json.loads(gzip.decompress((folder / f"{stream.name}.json.gz").read_bytes()))
        cell = CellRecord.model_validate({**stored, "stream": stream})
    except (ValueError, OSError, EOFError):
        return empty
    return cell if cell.digest == digest else empty


def save_cell(folder: Path, cell: CellRecord) -> None:
    """Writes the cell."""
    plain = cell.stream.model_dump(include={"name", "kind", "d", "size"})
    plain |= cell.model_dump(mode="json", exclude_none=True)
    # A fixed time stamp: the same findings are the same bytes.
    data = gzip.compress(json.dumps(plain, separators=(",", ":")).encode(), mtime=0)
    write_atomic(folder / f"{cell.stream.name}.json.gz", data, durable=False)
