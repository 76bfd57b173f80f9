"""Real measuring processes: limits, resumption, and the self-check on this machine."""

from __future__ import annotations

import gzip
import json
import math
import os

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import BlockRecord, CellRecord, Probe, load_cell, save_cell
from pacebench.harness.overhead.findings import Speed
from pacebench.harness.overhead.instances import synthetic
from pacebench.harness.overhead.machine import Activity
from pacebench.harness.overhead.measure import measure
from pacebench.harness.overhead.process import OutOfTimeError, WorkerError, results_of, use_at_most
from pacebench.harness.overhead.quality import staying
from pacebench.harness.overhead.replay import measure_check, probe_cells
from pacebench.harness.overhead.settings import Settings, make_settings
from pacebench.harness.overhead.streams import check_stream, grid_streams
from pacebench.harness.overhead.summary import summarise_check, times


class Counting:
    """Counts what was done."""

    def __init__(self):
        self.stages, self.notes = [], []

    def __call__(self, stage, done, total, note):
        if note:
            self.notes.append(note)
        else:
            self.stages.append((stage, total, done))


TINY = Settings(
    curricula=("spgl", "spdl-sqp"),
    dimensions=(2,),
    sizes=(16,),
    check_blocks=10,
    share=0.002,
    process=0.05,
)


def test_a_stored_cell_is_kept_only_for_the_same_settings(tmp_path):
    [stream] = grid_streams(TINY)
    file = tmp_path / f"{stream.name}.json.gz"
    cell = CellRecord(stream=stream, digest="one")
    cell.probes["spgl"] = Probe(seconds=1.0)
    cell.blocks[0] = BlockRecord(times={}, machine=Activity())
    cell.answers[4] = {"spgl": staying(synthetic(2, 16, 0, seed=1, epsilon=0.05))}
    # An answer may be infinitely far off.
    cell.answers[5] = {"spgl": cell.answers[4]["spgl"].model_copy(update={"value": -math.inf})}
    save_cell(tmp_path, cell)
    first = file.read_bytes()
    save_cell(tmp_path, cell)
    assert file.read_bytes() == first
    assert load_cell(tmp_path, stream, "one") == cell
    assert load_cell(tmp_path, stream, "two") == CellRecord(stream=stream, digest="two")
    file.write_bytes(gzip.compress(b"{}")[:-3])
    assert load_cell(tmp_path, stream, "one") == CellRecord(stream=stream, digest="one")


def test_settings_name_the_mistake():
    with pytest.raises(UserError, match="at least 10"):
        make_settings(blocks=9)
    with pytest.raises(UserError, match="positive"):
        make_settings(limit=0.0)
    with pytest.raises(LookupError, match="spgl"):
        make_settings(names=("spgll",))
    assert make_settings(names=("default",)).curricula == ("spgl", "default")
    assert set(make_settings(quick=True).dimensions) < set(make_settings().dimensions)


def test_more_blocks_or_a_larger_grid_keep_what_is_measured_and_another_limit_does_not():
    settings = make_settings()
    wider = settings.model_copy(update={"blocks": 20, "dimensions": (1,), "training_seeds": 3})
    assert wider.cell_digest() == settings.cell_digest()
    for change in ({"limit": 1.0}, {"epsilon": 0.1}, {"seed": 1}, {"curricula": ("spgl",)}):
        assert settings.model_copy(update=change).cell_digest() != settings.cell_digest()


def test_command_refuses_mistakes_with_a_sentence(tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["overhead", "--blocks", "3", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "at least 10" in done.output
    assert list(tmp_path.iterdir()) == []
    assert runner.invoke(app, ["overhead", "--curricula", "nope"]).exit_code == 2


def failing():
    yield "first"
    raise ValueError("no such thing")


def busy():
    use_at_most(0.05)
    yield "first"
    while True:
        pass


def dying():
    yield "first"
    os._exit(3)


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (failing, WorkerError, "ValueError: no such thing"),
        (busy, OutOfTimeError, "used up its time"),
        (dying, WorkerError, "code 3"),
    ],
)
def test_a_process_that_fails_is_reported_after_its_results(function, error, said):
    results = results_of(function)
    assert next(results) == "first"
    with pytest.raises(error, match=said):
        next(results)


@pytest.mark.slow
def test_an_update_over_the_limit_is_ended_and_not_tried_at_larger_d(tmp_path):
    settings = Settings(
        curricula=("spgl", "spdl"), dimensions=(20, 50), sizes=(16,), limit=0.02, epsilon=0.05
    )
    streams = grid_streams(settings)
    cells = [CellRecord(stream=stream, digest=settings.cell_digest()) for stream in streams]
    probe_cells(cells, tmp_path, settings, Counting())
    small, large = (cell.probes for cell in cells)
    assert small["spdl"].attempted
    assert small["spdl"].over is not None
    assert large["spdl"] == Probe(over=streams[0].name, attempted=False)
    assert small["spgl"].seconds < settings.limit
    assert large["spgl"].seconds is not None


@pytest.mark.slow
def test_measuring_is_resumed_and_complete(tmp_path):
    first, second = Counting(), Counting()
    found = measure(tmp_path, TINY, first, training=False)
    assert len(first.notes) == 10 + 1 + 10
    [cell] = found.cells
    assert cell.timed["spdl-sqp"].ratio.outcome is Speed.SLOWER
    assert cell.timed["spgl"].quality.updates == 10
    again = measure(tmp_path, TINY, second, training=False)
    assert second.notes == []
    assert [done for _, _, done in second.stages] == [10, 1, 10]
    assert again.cells == found.cells
    # An eleventh block adds to the ten.
    third = Counting()
    more = TINY.model_copy(update={"blocks": 11})
    measure(tmp_path, more, third, training=False)
    assert third.notes == ["block 11, d00002-k0016"]
    stored = json.loads(gzip.decompress((tmp_path / "cells" / "d00002-k0016.json.gz").read_bytes()))
    assert len(stored["blocks"]) == 11
    assert set(stored["answers"]) == {str(i) for i in range(10)}
    cell = load_cell(tmp_path / "cells", grid_streams(TINY)[0], TINY.cell_digest())
    wall, cpu = (times(cell, "spgl", clock, 11) for clock in ("wall", "cpu"))
    assert len(wall) == len(cpu) == 11
    # One thread cannot use more processor time than passes, but for the clocks' own cost.
    assert (cpu < 1.2 * wall + 5e-6).all()


@pytest.mark.validation
def test_self_checks_on_this_machine(tmp_path):
    """A/A and an injected slowdown, six times: each may err in one of twenty, as intervals do."""
    settings = TINY.model_copy(update={"check_blocks": 40, "share": 0.02})
    checks = []
    for i in range(6):
        cell = CellRecord(stream=check_stream(settings), digest=str(i))
        measure_check(cell, tmp_path, settings, Counting())
        checks.append(summarise_check(cell, settings, "cpu"))
    # Three errors of six would be chance in one run of 450.
    assert sum(check.again.outcome is not Speed.INCONCLUSIVE for check in checks) <= 2
    # A machine too noisy to see 5 % must say so rather than guess.
    assert all(check.slowed.outcome is not Speed.FASTER for check in checks)
    quiet = [check.slowed for check in checks if check.floor < 1.03]
    found = [slowed for slowed in quiet if slowed.outcome is Speed.SLOWER]
    assert len(found) >= len(quiet) - 2
    assert sum(slowed.low >= 1.05 * 1.02 for slowed in found) <= 2
