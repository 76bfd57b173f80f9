"""What has been measured in each cell: one file per cell, rewritten after every block."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
from pydantic import ConfigDict, Field

from pacebench.harness.overhead.findings import StoredRecord
from pacebench.harness.overhead.instances import Floats, ReplayStream, replay_streams
from pacebench.harness.overhead.quality import Answer
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.overhead.timing import BlockTimes, Clock
from pacebench.harness.store.files import make_folder, write_atomic


class Probe(StoredRecord):
    """Whether a curriculum is quick enough for a cell."""

    seconds: float | None = None  # per update, where that is within the limit
    over: str | None = None  # `the limit` or `memory`, or the smaller cell that showed it
    failed: str | None = None  # what the curriculum raised
    attempted: bool = True  # False where a smaller d with the same K was over the limit already


class BlockRecord(StoredRecord):
    """One block of one cell: times and errors by label, the load before, the stolen share."""

    times: dict[str, BlockTimes]
    failed: dict[str, str] = Field(default_factory=dict)
    load: float
    steal: float


class CellRecord(StoredRecord):
    """All that is known of one cell; it grows block by block."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    stream: ReplayStream = Field(exclude=True)
    digest: str  # of the settings and of the stream that it was measured with
    probes: dict[str, Probe] = Field(default_factory=dict)
    # By number; every block replays all instances.
    blocks: dict[int, BlockRecord] = Field(default_factory=dict)
    # By instance and curriculum; the same in every block.
    answers: dict[int, dict[str, Answer]] = Field(default_factory=dict)

    @property
    def seconds(self) -> dict[str, float]:
        """The probed seconds of the curricula that are timed here."""
        return {n: p.seconds for n, p in self.probes.items() if p.seconds is not None}

    def times(self, label: str, clock: Clock, blocks: int) -> Floats:
        """Returns the seconds of one contestant in the first blocks, (instances, blocks)."""
        found = [self.blocks[n].times[label] for n in sorted(self.blocks) if n < blocks]
        return np.array([getattr(block, clock) for block in found]).T


def load_cells(folder: Path, settings: Settings) -> list[CellRecord]:
    """Returns the cells of all streams, empty where nothing is stored yet."""
    key = settings.cell_digest()
    return [load_cell(folder, stream, key) for stream in replay_streams(folder, settings)]


def load_cell(folder: Path, stream: ReplayStream, key: str) -> CellRecord:
    """Returns the stored cell, or an empty one if there is none of these settings and stream."""
    digest = f"{key}-{stream.fingerprint}"
    try:
        stored = json.loads(gzip.decompress(_path(folder, stream).read_bytes()))
        if stored["digest"] == digest:
            return CellRecord.model_validate({**stored, "stream": stream})
    except (ValueError, OSError, EOFError, KeyError):
        pass
    return CellRecord(stream=stream, digest=digest)


def save_cell(folder: Path, cell: CellRecord) -> None:
    """Writes the cell."""
    text = cell.model_dump_json(exclude_none=True)
    path = _path(folder, cell.stream)
    make_folder(path.parent)
    # A fixed time stamp: the same findings are the same bytes.
    write_atomic(path, gzip.compress(text.encode(), mtime=0), durable=False)


def _path(folder: Path, stream: ReplayStream) -> Path:
    return folder / "cells" / f"{stream.name}.json.gz"
