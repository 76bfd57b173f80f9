"""Real measuring processes: limits, resumption, and the self-check on this machine."""

from __future__ import annotations

import gzip
import json

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.overhead import summary
from pacebench.harness.overhead.cells import Cell, CellStore, synthetic_sources
from pacebench.harness.overhead.measure import measure
from pacebench.harness.overhead.processes import Worker, WorkerError
from pacebench.harness.overhead.replay import CHECK, measure_check, probe_cells
from pacebench.harness.overhead.settings import Settings, make_settings


class Counting:
    """Counts what was done."""

    def __init__(self):
        self.stages, self.notes = [], []

    def stage(self, name, total, done):
        self.stages.append((name, total, done))

    def advance(self, note):
        self.notes.append(note)


TINY = Settings(
    curricula=("spgl", "spdl-sqp"),
    dimensions=(2,),
    sizes=(16,),
    check_blocks=10,
    share=0.002,
    process=0.05,
)


def test_a_stored_cell_is_kept_only_for_the_same_settings(tmp_path):
    store = CellStore(tmp_path)
    [source] = synthetic_sources(TINY)
    cell = Cell(source, "one", {"spgl": {"seconds": 1.0}}, {0: {"times": {}}}, {4: {"spgl": {}}})
    store.save(cell)
    first = (tmp_path / f"{source.name}.json.gz").read_bytes()
    store.save(cell)
    assert (tmp_path / f"{source.name}.json.gz").read_bytes() == first
    assert store.load(source, "one") == cell
    assert store.load(source, "two") == Cell(source, "two")
    (tmp_path / f"{source.name}.json.gz").write_bytes(gzip.compress(b"{}")[:-3])
    assert store.load(source, "one") == Cell(source, "one")


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


def test_a_dead_process_is_reported_with_its_last_words():
    with Worker({"mode": "no such mode", "cpu": 0}) as worker:
        worker.next(60)
        with pytest.raises(WorkerError, match="no such mode"):
            worker.next(60)


@pytest.mark.slow
def test_an_update_over_the_limit_is_ended_and_not_tried_at_larger_d(tmp_path):
    settings = Settings(
        curricula=("spgl", "spdl"), dimensions=(20, 50), sizes=(16,), limit=0.02, epsilon=0.05
    )
    sources = synthetic_sources(settings)
    cells = [Cell(source, settings.cell_digest()) for source in sources]
    probe_cells(cells, CellStore(tmp_path), settings, Counting())
    small, large = (cell.probes for cell in cells)
    assert small["spdl"]["attempted"]
    assert "over" in small["spdl"]
    assert large["spdl"] == {"over": sources[0].name, "attempted": False}
    assert small["spgl"]["seconds"] < settings.limit
    assert "seconds" in large["spgl"]


@pytest.mark.slow
def test_measuring_is_resumed_and_complete(tmp_path):
    first, second = Counting(), Counting()
    found = measure(tmp_path, TINY, first, training=False)
    assert len(first.notes) == 10 + 1 + 10
    [cell] = found["cells"]
    assert cell["methods"]["spdl-sqp"]["ratio"]["outcome"] == "slower"
    assert cell["methods"]["spgl"]["quality"]["updates"] == 10
    again = measure(tmp_path, TINY, second, training=False)
    assert second.notes == []
    assert [done for _, _, done in second.stages] == [10, 1, 10]
    assert again["cells"] == found["cells"]
    # An eleventh block adds to the ten.
    third = Counting()
    more = TINY.model_copy(update={"blocks": 11})
    measure(tmp_path, more, third, training=False)
    assert third.notes == ["block 11, d00002-k0016"]
    stored = json.loads(gzip.decompress((tmp_path / "cells" / "d00002-k0016.json.gz").read_bytes()))
    assert len(stored["blocks"]) == 11
    assert set(stored["answers"]) == {str(i) for i in range(10)}
    cell = CellStore(tmp_path / "cells").load(synthetic_sources(TINY)[0], TINY.cell_digest())
    wall, cpu = (summary.times(cell, "spgl", clock, 11) for clock in ("wall", "cpu"))
    assert len(wall) == len(cpu) == 11
    # One thread cannot use more processor time than passes, but for the clocks' own cost.
    assert (cpu < 1.2 * wall + 5e-6).all()


@pytest.mark.validation
def test_self_checks_on_this_machine(tmp_path):
    """A/A and an injected slowdown, six times: each may err in one of twenty, as intervals do."""
    settings = TINY.model_copy(update={"check_blocks": 40, "share": 0.02})
    checks = []
    for i in range(6):
        cell = Cell(CHECK, settings.cell_digest())
        measure_check(cell, CellStore(tmp_path / str(i)), settings, Counting())
        checks.append(summary.summarise_check(cell, settings, "cpu"))
    # Three errors of six would be chance in one run of 450.
    assert sum(check["again"]["outcome"] != "inconclusive" for check in checks) <= 2
    # A machine too noisy to see 5 % must say so rather than guess.
    assert all(check["slowed"]["outcome"] != "faster" for check in checks)
    quiet = [check["slowed"] for check in checks if check["floor"] < 1.03]
    found = [slowed for slowed in quiet if slowed["outcome"] == "slower"]
    assert len(found) >= len(quiet) - 2
    assert sum(slowed["low"] >= 1.05 * 1.02 for slowed in found) <= 2
