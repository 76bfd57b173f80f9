"""One row per run: every number by hand, every lost run accounted for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pacebench.harness.analysis.scores import (
    FLOOR,
    MEASURED,
    UNRESOLVED,
    scale_of,
    scales_of,
    score_runs,
    target_curves,
)
from pacebench.harness.errors import UserError
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

ONE = ("point-mass-1",)
BOTH = ("point-mass-1", "point-mass-2")


def score(frames: synthetic.Frames, plan: object, **scale: float) -> pd.DataFrame:
    scales = {n: scale_of(synthetic.setup(n), **scale) for n in plan.setups}  # type: ignore[attr-defined]
    return score_runs(frames, plan, scales)  # type: ignore[arg-type]


def test_every_number_of_a_run_can_be_computed_by_hand() -> None:
    methods = (Method("default", 0.5, 0.0),)
    plan, frames = synthetic.study(methods, ONE, 1), synthetic.frames(methods, ONE, 1)
    (row,) = score(frames, plan).to_dict("records")
    assert row["how"] == MEASURED
    # Anchors 10 and 60: a normalised 0.5 is a return of 35.
    assert row["return"] == pytest.approx(35.0)
    assert row["normalised"] == pytest.approx(0.5)
    assert row["success"] == pytest.approx(0.5)
    # The worst fifth of 20 contexts are the first four, at tilts −4.75 … −3.25, mean −4.
    assert row["cvar"] == pytest.approx((31.0 - 10) / 50)
    steps = np.arange(1, 7) / 6
    curve = 0.5 * (1 - np.exp(-4 * steps)) / (1 - np.exp(-4))
    assert row["auc"] == pytest.approx(np.trapezoid(curve, dx=1 / 6) / (5 / 6), rel=1e-6)
    # V₋ = 5 on a discounted return of return/8: reached where the return is 40, so never.
    assert np.isnan(row["steps_to_threshold"])


def test_steps_to_threshold_is_the_first_grid_point_at_or_above_it() -> None:
    methods = (Method("default", 0.7, 0.0),)
    plan, frames = synthetic.study(methods, ONE, 1), synthetic.frames(methods, ONE, 1)
    (row,) = score(frames, plan).to_dict("records")
    # 40 of return is 0.6 of score; 0.7·(1−e^{−4t})/(1−e^{−4}) is 0.525 at t = 1/3, 0.617 at 1/2.
    assert row["steps_to_threshold"] == 30_000


@pytest.mark.parametrize("status", ["diverged", "timeout", "crashed-method"])
def test_a_run_that_failed_by_its_own_doing_scores_the_floor(status: str) -> None:
    methods = (Method("default", 0.9, 0.0, status={1: status}),)
    plan, frames = synthetic.study(methods, ONE, 2), synthetic.frames(methods, ONE, 2)
    good, bad = score(frames, plan).sort_values("seed").to_dict("records")
    assert good["how"] == MEASURED
    assert bad["how"] == FLOOR
    # The lowest possible return is 0, which is −0.2 on the normalised scale.
    assert bad["return"] == 0.0
    for column in ("normalised", "auc", "cvar"):
        assert bad[column] == pytest.approx(-0.2)
    assert bad["success"] == 0.0
    assert np.isnan(bad["steps_to_threshold"])


def test_the_declared_floor_wins() -> None:
    methods = (Method("default", 0.9, 0.0, status={0: "diverged"}),)
    plan, frames = synthetic.study(methods, ONE, 1), synthetic.frames(methods, ONE, 1)
    (row,) = score(frames, plan, floor=-0.5).to_dict("records")
    assert row["normalised"] == -0.5
    assert row["return"] == pytest.approx(-15.0)


def test_without_a_known_lowest_return_the_floor_is_the_baseline() -> None:
    setup = replace(synthetic.setup("point-mass-1"), min_return=None)
    scale = scale_of(setup)
    assert scale.floor == 0.0
    assert not scale.bounded


@pytest.mark.parametrize("status", ["missing", "crashed-infrastructure"])
def test_a_lost_run_is_unknown_and_stays_in_the_table(status: str) -> None:
    methods = (Method("default", 0.9, 0.0, status={1: status}),)
    plan, frames = synthetic.study(methods, ONE, 3), synthetic.frames(methods, ONE, 3)
    table = score(frames, plan)
    assert len(table) == 3
    lost = table[table["seed"] == 1].iloc[0]
    assert lost["how"] == UNRESOLVED
    assert lost[["return", "normalised", "success", "auc", "cvar"]].isna().all()


def test_the_curve_of_a_failed_run_goes_on_at_the_floor() -> None:
    methods = (Method("default", 0.9, 0.0, status={0: "diverged"}),)
    plan, frames = synthetic.study(methods, ONE, 1), synthetic.frames(methods, ONE, 1)
    scales = {"point-mass-1": scale_of(synthetic.setup("point-mass-1"))}
    curve = target_curves(frames, plan, scales)
    assert len(curve) == 6
    assert (curve["normalised"].iloc[:3] > 0).all()
    assert curve["normalised"].iloc[3:].tolist() == pytest.approx([-0.2] * 3)


def test_a_curve_over_some_contexts_is_over_the_same_at_its_end() -> None:
    methods = (Method("default", 0.5, 0.0),)
    plan, frames = synthetic.study(methods, ONE, 1), synthetic.frames(methods, ONE, 1)
    plan = plan.model_copy(
        update={"evaluation": plan.evaluation.model_copy(update={"curve_contexts": 5})}
    )
    scales = {"point-mass-1": scale_of(synthetic.setup("point-mass-1"))}
    played = frames.evaluations
    last = played["step"] == plan.budget
    played["return"] = np.where(played["context"] < 5, 40.0, 20.0)
    frames.evaluations = played[last | (played["context"] < 5)]
    curve = target_curves(frames, plan, scales)
    assert curve["return"].tolist() == [40.0] * 6
    (row,) = score(frames, plan).to_dict("records")
    assert row["return"] == pytest.approx((5 * 40 + 15 * 20) / 20)
    assert row["auc"] == pytest.approx(curve["normalised"].iloc[0])


def test_only_the_deterministic_policy_on_the_target_counts() -> None:
    methods = (Method("default", 0.5, 0.0),)
    plan, frames = synthetic.study(methods, ONE, 1), synthetic.frames(methods, ONE, 1)
    noise = frames.evaluations.assign(policy="stochastic")
    easy = frames.evaluations.assign(distribution="initial")
    for extra in (noise, easy):
        extra["return"] = np.float32(1e6)
    frames.evaluations = pd.concat([frames.evaluations, noise, easy], ignore_index=True)
    assert score(frames, plan)["return"].tolist() == pytest.approx([35.0])


def test_retired_runs_are_not_scored() -> None:
    plan, frames = synthetic.study(setups=ONE, seeds=3), synthetic.frames(setups=ONE, seeds=3)
    for frame in (frames.runs, frames.evaluations):
        frame["current"] = frame["seed"] < 2
    assert set(score(frames, plan)["seed"]) == {0, 1}


def test_two_labels_may_share_a_run() -> None:
    methods = (Method("default", 0.5, 0.1), Method("default", 0.5, 0.1, label="again"))
    plan, frames = synthetic.study(methods, ONE, 3), synthetic.frames(methods, ONE, 3)
    shared = dict(zip(frames.runs["run_id"], frames.runs["seed"].astype(str), strict=True))
    for frame in (frames.runs, frames.evaluations):
        frame["run_id"] = frame["run_id"].map(shared)
    table = score(frames, plan)
    assert len(table) == 6
    assert not table["return"].isna().any()


def test_a_finished_run_without_its_last_examination_is_refused() -> None:
    plan, frames = synthetic.study(setups=ONE, seeds=2), synthetic.frames(setups=ONE, seeds=2)
    frames.evaluations = frames.evaluations[frames.evaluations["step"] < 60_000]
    with pytest.raises(UserError, match=r"no evaluation at step 60,000"):
        score(frames, plan)


def test_episodes_that_are_there_twice_are_refused() -> None:
    plan, frames = synthetic.study(setups=ONE, seeds=2), synthetic.frames(setups=ONE, seeds=2)
    frames.evaluations = pd.concat([frames.evaluations] * 2, ignore_index=True)
    with pytest.raises(UserError, match="instead of one for each of 20"):
        score(frames, plan)


def test_a_setup_without_anchors_is_scored_alone_and_in_raw_returns() -> None:
    bare = {name: replace(synthetic.setup(name), anchors=None) for name in BOTH}
    with pytest.raises(UserError, match="cannot be averaged with those of other setups"):
        scales_of(synthetic.study(setups=BOTH), bare)
    (scale,) = scales_of(synthetic.study(setups=ONE), bare).values()
    assert scale.normalise(37.0) == 37.0


def test_a_setup_without_anchors_is_scored_in_raw_returns() -> None:
    bare = replace(synthetic.setup("point-mass-1"), anchors=None)
    scale = scale_of(bare)
    assert (scale.normalise(7.0), scale.raw(7.0), scale.unit) == (7.0, 7.0, 1.0)
    assert (scale.lowest, scale.highest, scale.floor) == (bare.min_return, bare.max_return, 0.0)
    # A failed run has no score where nothing says how low a return can be.
    assert math.isnan(scale_of(replace(bare, min_return=None)).floor)
    assert scale_of(replace(bare, min_return=None), floor=-3.0).floor == -3.0
