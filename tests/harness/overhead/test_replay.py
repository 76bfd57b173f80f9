"""Real measuring processes: limits, resumption, and the self-check on this machine."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.overhead import replay
from pacebench.harness.overhead.cells import BlockRecord, load_cells, synthetic
from pacebench.harness.overhead.measure import measure, measure_training
from pacebench.harness.overhead.quality import judge
from pacebench.harness.overhead.ratios import per_update
from pacebench.harness.overhead.settings import SLOWED, TWIN, Settings, make_settings
from pacebench.harness.overhead.summary import summarise_training

TINY = Settings(
    curricula=("spgl", "spdl-sqp"), dimensions=(2,), sizes=(16,), instances=4, share=0.002
)


def test_a_stored_cell_is_kept_only_for_the_same_settings(tmp_path):
    [cell] = load_cells(tmp_path, TINY)
    file = tmp_path / "cells" / "d00002-k0016.json.gz"
    cell.seconds["spgl"] = 1.0
    cell.blocks[0] = BlockRecord(times={}, load=0.0, steal=0.0)
    instance = synthetic(2, 16, 0, seed=1, epsilon=0.05)
    stay = judge(instance, instance.current)
    # An answer may be infinitely far off.
    cell.answers["spgl"] = (stay, stay.model_copy(update={"value": -math.inf}))
    cell.write(cell.stream.path)
    first = file.read_bytes()
    cell.write(cell.stream.path)
    assert file.read_bytes() == first
    assert load_cells(tmp_path, TINY) == [cell]
    assert load_cells(tmp_path, TINY.model_copy(update={"limit": 1.0}))[0].blocks == {}
    file.write_bytes(gzip.compress(b"{}")[:-3])
    assert load_cells(tmp_path, TINY)[0].blocks == {}


def test_settings_of_the_command():
    with pytest.raises(LookupError, match="spgl"):
        make_settings(("spgll",), quick=False)
    assert make_settings(("default",), quick=False).curricula == ("spgl", "default")
    full, quick = (make_settings(None, quick=q, limit=None) for q in (False, True))
    assert set(quick.dimensions) < set(full.dimensions)
    assert make_settings(None, quick=True, limit=3.0).limit == 3.0


def test_more_blocks_or_a_larger_grid_keep_what_is_measured_and_another_limit_does_not():
    settings = make_settings(None, quick=False)
    wider = settings.model_copy(update={"blocks": 20, "dimensions": (1,), "training_seeds": 3})
    assert wider.cell_digest() == settings.cell_digest()
    for change in ({"limit": 1.0}, {"instances": 4}, {"seed": 1}, {"curricula": ("spgl",)}):
        assert settings.model_copy(update=change).cell_digest() != settings.cell_digest()


def test_command_refuses_mistakes_with_a_sentence(tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["overhead", "--blocks", "3", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "--blocks" in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []
    assert runner.invoke(app, ["overhead", "--curricula", "nope"]).exit_code == 2


def dying(folder, settings):
    raise ValueError("no such thing")


def test_a_process_that_fails_is_reported_with_its_log(tmp_path):
    with pytest.raises(UserError, match="ValueError: no such thing") as caught:
        replay._in_fresh_process(dying, tmp_path, TINY)
    [log] = (tmp_path / "attempts").iterdir()
    assert str(log) in str(caught.value)
    assert "Traceback" in log.read_text()


def test_an_update_over_the_limit_is_ended_and_not_tried_at_larger_d(tmp_path):
    settings = Settings(
        curricula=("spgl", "spdl"), dimensions=(20, 50), sizes=(16,), instances=3, limit=0.02
    )
    replay._in_fresh_process(replay.probe_here, tmp_path, settings)
    small, large = load_cells(tmp_path, settings)
    assert small.untimed == {"spdl": "over the limit"}
    assert large.untimed == {"spdl": "not attempted: over the limit at d00020-k0016 already"}
    assert small.seconds["spgl"] < settings.limit
    assert set(large.seconds) == {"spgl"}
    assert list((tmp_path / "attempts").iterdir()) == []


def test_the_place_that_a_contestant_is_built_in_favours_no_name(tmp_path, monkeypatch):
    """Built later is quicker here, by 1 % a place; two names of one curriculum remain alike."""
    rng, first = np.random.default_rng(5), Counter()

    def placed(replays, _):
        first[next(iter(replays))] += 1
        noise = np.exp(0.01 * rng.standard_normal((len(replays), TINY.instances)))
        seconds = noise * np.linspace(1.03, 1.0, len(replays))[:, None]
        seconds *= [[1.05 if label == SLOWED else 1.0] for label in replays]
        return {label: {"wall": tuple(x)} for label, x in zip(replays, seconds, strict=True)}

    monkeypatch.setattr(replay, "time_block", placed)
    false = found = 0
    for seed in range(40):
        settings = TINY.model_copy(update={"seed": seed})
        [cell] = load_cells(tmp_path, settings)
        cell.seconds.update(dict.fromkeys(("spgl", "default"), 1.0))
        cell.answers["spgl"] = ()  # judged before
        for number in range(settings.blocks):
            replay.measure_block(cell, number, settings)
        times = {label: cell.times(label, "wall") for label in ("spgl", TWIN, SLOWED)}
        false += per_update(times[TWIN], times["spgl"]).speed() != "inconclusive"
        found += per_update(times[SLOWED], times["spgl"]).speed() == "slower"
    # 5 % of 40, a quarter of 400, and three standard errors each.
    assert false <= 6
    assert found == 40
    assert len(first) == 4
    assert all(74 <= times <= 126 for times in first.values())


@pytest.mark.slow
def test_measuring_is_resumed_and_complete(tmp_path):
    heard: list[str] = []
    found = measure(tmp_path, TINY, heard.append, training=False)
    assert len(heard) == 1 + 10
    [cell] = found.cells
    assert cell.methods["spdl-sqp"].speed(cell.floor) == "slower"
    assert (cell.instances, cell.blocks) == (4, 10)
    assert cell.methods["spgl"].quality.updates == 4
    heard.clear()
    assert measure(tmp_path, TINY, heard.append, training=False) == found
    assert heard == []
    # An eleventh block adds to the ten.
    more = TINY.model_copy(update={"blocks": 11})
    measure(tmp_path, more, heard.append, training=False)
    assert heard == ["replay: block 11 of 11"]
    stored = json.loads(gzip.decompress((tmp_path / "cells" / "d00002-k0016.json.gz").read_bytes()))
    assert len(stored["blocks"]) == 11
    assert len(stored["answers"]["spgl"]) == 4
    # Ten blocks are asked for again, and the eleventh is kept.
    assert measure(tmp_path, TINY, heard.append, training=False) == found
    cell = load_cells(tmp_path, TINY)[0]
    wall, cpu, step = (cell.times("spgl", clock) for clock in ("wall", "cpu", "step"))
    assert wall.shape == cpu.shape == step.shape == (4, 11)
    assert (step < wall).all()
    # One thread cannot use more processor time than passes, but for the clocks' own cost.
    assert (cpu < 1.2 * wall + 5e-6).all()


@pytest.mark.slow
def test_training_is_a_study_that_the_runner_makes(tmp_path):
    settings = TINY.model_copy(update={"training_seeds": 2, "training_steps": 2_048})
    heard: list[str] = []
    results = measure_training(tmp_path, settings, heard.append)
    found = summarise_training(results, settings.curricula)
    assert found.seeds == 2
    assert set(found.methods) == {"spgl", "spdl-sqp"}
    for method in found.methods.values():
        # An update's own step and its record are what the curriculum's time is spent on.
        assert 0 < method.step.estimate + method.recording.estimate <= method.per_update.estimate
    [folder] = (tmp_path / "training").iterdir()
    assert len(list((folder / "runs").iterdir())) == 4
    again = measure_training(tmp_path, settings, heard.append)
    assert summarise_training(again, settings.curricula) == found


@pytest.mark.validation
def test_self_checks_on_this_machine(tmp_path):
    """A/A and an injected slowdown in six cells: each may err in one of twenty, as intervals do."""
    settings = Settings(
        curricula=("spgl",), dimensions=(1, 2, 3), sizes=(16, 64), blocks=20, share=0.05
    )
    found = measure(Path(tmp_path), settings, print, training=False)
    # Three errors of six would be chance in one run of 450.
    assert sum(cell.twin.speed() != "inconclusive" for cell in found.cells) <= 2
    # A machine too noisy to see 5 % must say so rather than guess.
    assert all(cell.slowed.speed(cell.floor) != "faster" for cell in found.cells)
    quiet = [cell for cell in found.cells if cell.floor < 1.03]
    slower = [cell.slowed for cell in quiet if cell.slowed.speed(cell.floor) == "slower"]
    assert len(slower) >= len(quiet) - 2
    assert sum(slowed.low >= 1.05 * 1.02 for slowed in slower) <= 2


def test_a_limit_below_the_reference_is_refused_with_a_sentence(tmp_path):
    settings = TINY.model_copy(update={"limit": 1e-6, "curricula": ("spgl",)})
    with pytest.raises(UserError, match="spgl is over the limit in d00002-k0016; raise --limit"):
        replay.measure_cells(tmp_path, settings, print)
