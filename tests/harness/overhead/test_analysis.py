"""From blocks to findings, on times that follow a known law."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacebench.harness.overhead.cells import BlockRecord, CellRecord, replay_streams
from pacebench.harness.overhead.findings import OverheadSummary
from pacebench.harness.overhead.summary import (
    fit_scaling,
    predict,
    summarise,
    summarise_training,
    training_clock,
)
from pacebench.harness.report.overhead.claims import all_claims, headline_cells
from pacebench.harness.report.overhead.tables import duration, factor, percent
from tests.harness.overhead.simulated import (
    LAWS,
    SETTINGS,
    SimulatedRuns,
    law,
    simulated_cells,
)

MACHINE = {
    "versions": {"python": "3"},
    "revision": "abc",
    "dirty": False,
    "hardware": {"processor": "p", "cores": 2},
}


@pytest.fixture(scope="module")
def found():
    return summarise(simulated_cells(np.random.default_rng(0)), None, SETTINGS, MACHINE)


def test_ratios_hold_the_truth(found):
    held = count = 0
    for cell in found.cells:
        for name, method in cell.rivals.items():
            truth = law(name, cell.d, cell.size) / law("spgl", cell.d, cell.size)
            for ratio in (method.ratio, method.total, method.step_ratio, method.step_total):
                held += ratio.same_instances.low <= truth <= ratio.same_instances.high
                count += 1
    assert count >= 120
    assert held / count > 0.9


def test_both_clocks_are_reported(found):
    method = found.cells[0].methods["spgl-shared"]
    assert method.step.estimate == pytest.approx(0.5 * method.wall.estimate)
    assert method.step_ratio.estimate == pytest.approx(method.ratio.estimate)
    # The arithmetic mean of times that spread is above the geometric one.
    assert method.mean_time > 1.05 * method.time.estimate


def test_what_is_over_the_limit_is_shown_and_not_dropped(found):
    over = [(c.d, c.size) for c in found.cells if "spdl" in c.untimed]
    large = [(d, size) for d in (1_000, 10_000) for size in (16, 64, 256)]
    assert over == [(100, 256), *large]
    assert all({*cell.methods, *cell.untimed} == set(LAWS) for cell in found.cells)


def test_self_check_finds_the_slowdown_and_no_ghost(found):
    assert len(found.cells) == 18
    assert sum(cell.slowed.speed(cell.floor) == "slower" for cell in found.cells) >= 12
    assert "✓ A/A" in {claim.word for claim in all_claims(found)}


def test_a_verdict_needs_total_and_mean(found):
    method = found.cells[0].methods["spdl"]
    assert method.speed(1.0) == "slower"
    unclear = method.total.model_copy(update={"low": 0.9})
    assert method.model_copy(update={"total": unclear}).speed(1.0) == "inconclusive"


def test_clock_follows_the_machine_and_not_the_result():
    cells = simulated_cells(np.random.default_rng(0))
    assert summarise(cells, None, SETTINGS, MACHINE).clock == "wall"
    for cell in cells:
        for block in cell.blocks.values():
            for label, times in block.times.items():
                block.times[label] = times | {"cpu": tuple(t / 3.0 for t in times["cpu"])}
    busy = summarise(cells, None, SETTINGS, MACHINE)
    assert busy.clock == "cpu"
    assert busy.wall_over_cpu == pytest.approx(3.0, rel=0.05)
    assert any(claim.word == "clock" for claim in all_claims(busy))
    reference = busy.cells[0].methods["spgl"]
    assert reference.time == reference.cpu != reference.wall


def grid(truth, dimensions, sizes, noise):
    """Cells of one curriculum, whose times follow a law with noise."""
    rng, cells = np.random.default_rng(4), []
    settings = SETTINGS.model_copy(update={"dimensions": dimensions, "sizes": sizes})
    for stream in replay_streams(Path("nowhere"), settings):
        cell = CellRecord(stream=stream, digest="law", seconds={"spgl": 1.0})
        for number in range(10):
            taken = truth(stream.d, stream.size) * np.exp(noise * rng.standard_normal(4))
            times = {"spgl": {"wall": tuple(taken)}}
            cell.blocks[number] = BlockRecord(times=times, load=0.0, steal=0.0)
        cells.append(cell)
    return cells


def test_exponents_are_recovered():
    def truth(d, size):
        return 1e-4 + 3e-9 * d**1.05 * size**0.95

    sizes = (16, 64, 256, 1024)
    fit = fit_scaling("spgl", grid(truth, (1, 10, 100, 1_000, 10_000), sizes, 0.06), "wall")
    assert fit is not None
    assert fit.alpha.low <= 1.05 <= fit.alpha.high
    assert fit.beta.low <= 0.95 <= fit.beta.high
    assert fit.fixed == pytest.approx(1e-4, rel=0.05)
    assert fit.alpha.high - fit.alpha.low < 0.1
    assert (fit.cells, fit.range) == (20, (16, 10_240_000))
    d = np.array([1.0, 100.0, 1e4])
    drawn = predict(fit, d, 64.0)
    np.testing.assert_allclose(drawn, truth(d, 64.0), rtol=0.1)


def test_exponents_of_noise_are_refused():
    flat = grid(lambda d, size: 1e-4, (1, 2, 3), (16, 64, 256), 0.1)
    assert fit_scaling("spgl", flat, "wall") is None
    assert fit_scaling("spgl", flat[:4], "wall") is None
    assert fit_scaling("spdl", flat, "wall") is None


def test_times_that_follow_no_such_law_have_no_exponents():
    # An update that now and then fits a model: slow in some cells, whatever their size.
    jumpy = grid(lambda d, size: 0.3 if size == 64 else 1e-4, (1, 10, 100), (16, 64, 256), 0.05)
    jumpy += grid(lambda d, size: 0.3, (1_000,), (16, 256), 0.05)
    assert fit_scaling("spgl", jumpy, "wall") is None


def test_quality_is_pooled_from_judged_answers(found):
    pooled = found.quality
    assert set(pooled) == {"spgl", "spgl-shared", "spdl-sqp"}
    assert pooled["spgl"].over_budget > 0
    assert pooled["spgl-shared"].over_budget == 0
    for name in pooled:
        assert pooled[name].updates == 18
        assert pooled[name].infeasible >= pooled[name].over_budget


def test_verdicts_change_with_the_findings(found):
    said = [claim.sentence for claim in all_claims(found)]
    assert any("slowdown of 5 % is found" in sentence for sentence in said)
    assert any("exceeds its KL budget" in sentence for sentence in said)
    assert any("in total and" in sentence and "own steps alone" in sentence for sentence in said)
    plain = found.model_dump(mode="json", exclude_none=True)
    for cell in plain["cells"]:
        cell["twin"] |= {"estimate": 1.2, "low": 1.1, "high": 1.3}
        cell["slowed"] |= {"low": 0.9}
    [shown] = headline_cells(found)
    cell = plain["cells"][found.cells.index(shown)]
    cell["methods"]["spgl-shared"]["ratio"]["low"] = 0.9
    blind = list(all_claims(OverheadSummary.model_validate(plain)))
    assert {"✗ A/A", "✗ 5 %"} <= {claim.word for claim in blind}
    assert any("cannot be told apart from" in claim.sentence for claim in blind)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(1.5), "1.5 s"),
        (duration(0.0123), "12 ms"),
        (duration(2.5e-4), "250 µs"),
        (duration(3e-8), "0.030 µs"),
        (duration(9.996e-4), "1.0 ms"),
        (factor(20.0), "20.0"),
        (factor(1.0449), "1.04"),
        (factor(23.46), "23.5"),
        (factor(12345.0), "12\u202f300"),
        (percent(0.0512), "5.1 %"),
        (percent(-0.3), "−30 %"),
    ],
)
def test_numbers_are_readable(shown, expected):
    assert shown == expected


def test_training_time_is_shared_out_exactly():
    runs = SimulatedRuns({"spdl": (4.0, 10.0)}, seeds=1)
    run = {**runs.runs.iloc[0], "base": 8.0}
    # 8 s of rollouts and policy over 1000 steps; updates of 1 s and 3 s at 400 and 800 steps.
    clock = training_clock(run, runs.updates, np.array([399, 400, 1000]))
    assert clock == pytest.approx([8 * 0.399, 8 * 0.4 + 1, 12.0])


def test_a_costly_curriculum_scores_less_per_second_than_per_step():
    runs = SimulatedRuns({"spgl": (0.01, 10.0), "spdl": (8.0, 10.0)})
    found = summarise_training(runs, ["spgl", "spdl"])
    assert (found.seeds, found.env_steps) == (10, 1000)
    spgl, spdl = found.methods["spgl"], found.methods["spdl"]
    assert spgl.final.estimate == pytest.approx(spdl.final.estimate)
    assert spdl.at_common.estimate < spgl.at_common.estimate - 2
    assert spdl.share.estimate == pytest.approx(0.486, abs=0.01)
    assert spdl.ratio.estimate == pytest.approx(1.9, abs=0.1)
    assert spgl.ratio.speed() == "inconclusive"
    assert spdl.per_1000_steps.estimate == pytest.approx(8.0)
    assert spdl.per_update.estimate == pytest.approx(4.0)
    assert spdl.step.estimate == pytest.approx(3.2)
    assert spdl.recording.estimate == pytest.approx(0.8)
    assert spdl.rejected == 10


def test_runs_that_are_no_longer_asked_for_are_left_out():
    runs = SimulatedRuns({"spgl": (0.01, 10.0), "spdl": (8.0, 10.0)})
    found = summarise_training(runs, ["spgl", "spdl"])
    retired = runs.runs.assign(run_id="old", current=False, env_steps=500)
    runs.runs = pd.concat([retired, runs.runs])
    assert summarise_training(runs, ["spgl", "spdl"]) == found


def test_one_seed_gives_no_interval():
    assert summarise_training(SimulatedRuns({"spgl": (0.1, 1.0)}, seeds=1), ["spgl"]) is None
