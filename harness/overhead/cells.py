"""What has been measured in each cell: one file per cell, rewritten after every block."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field

from pacebench.harness.overhead.findings import StoredRecord
from pacebench.harness.overhead.instances import Floats, ReplayStream, replay_streams, write_packed
from pacebench.harness.overhead.quality import Answer
from pacebench.harness.overhead.settings import Settings

# Of the whole update by `perf_counter` and by `process_time`, and of the method's own step as the
# update's record says.
Clock = Literal["wall", "cpu", "step"]
CLOCKS: tuple[Clock, ...] = ("wall", "cpu", "step")
# Seconds of one contestant in one block, per instance.
BlockTimes = dict[Clock, tuple[float, ...]]


class BlockRecord(StoredRecord):
    """One block of one cell: times by label, the load before, the stolen share."""

    times: dict[str, BlockTimes]
    load: float
    steal: float


class CellRecord(StoredRecord):
    """All that is known of one cell; it grows block by block."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    stream: ReplayStream = Field(exclude=True)
    digest: str  # of the settings and of the stream that it was measured with
    # Probed seconds per update of the curricula that are timed here, and why the others are not.
    seconds: dict[str, float] = Field(default_factory=dict)
    untimed: dict[str, str] = Field(default_factory=dict)
    # By number; every block replays all instances.
    blocks: dict[int, BlockRecord] = Field(default_factory=dict)
    # By curriculum, one per instance; the same in every block.
    answers: dict[str, tuple[Answer, ...]] = Field(default_factory=dict)

    @property
    def probed(self) -> bool:
        """Whether it is known which curricula are timed here."""
        return bool(self.seconds or self.untimed)

    def times(self, label: str, clock: Clock) -> Floats:
        """Returns the seconds of one contestant, (instances, blocks)."""
        return np.array([b.times[label][clock] for _, b in sorted(self.blocks.items())]).T


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
    write_packed(_path(folder, cell.stream), cell.model_dump_json())


def _path(folder: Path, stream: ReplayStream) -> Path:
    return folder / "cells" / f"{stream.name}.json.gz"
