"""The climb that chooses a learner's settings."""

import math

from pacebench import envs
from pacebench.harness.seeding import RunSeed
from pacebench.harness.tuning import learner_settings
from pacebench.harness.tuning.learner_settings import climb, train_on_initial

GRID = {"rate": [1, 2, 3, 4, 5], "width": [10, 20, 30]}


def test_it_ends_where_every_neighbour_was_tried_and_is_worse():
    tried = {}

    def score_of(place):
        tried[tuple(place.values())] = score = -abs(place["rate"] - 4) - abs(place["width"] - 20)
        return score

    place, at_end = climb(GRID, {"rate": 1, "width": 10}, score_of)
    assert place == {"rate": 4, "width": 20}
    assert at_end == []
    assert {(3, 20), (5, 20), (4, 10), (4, 30)} <= set(tried)


def test_an_end_of_the_grid_is_named():
    place, at_end = climb(GRID, {"rate": 3, "width": 20}, lambda place: place["rate"])
    assert place == {"rate": 5, "width": 20}
    assert at_end == ["rate"]


def test_a_candidate_that_diverged_is_never_chosen():
    place, _ = climb(GRID, {"rate": 3, "width": 20}, lambda p: math.nan if p["rate"] < 4 else -1.0)
    assert place["rate"] >= 4


def test_candidates_never_see_the_target(monkeypatch):
    """Nor where a setup's target and initial distribution are not the Gaussians of its moments."""
    seen = []
    monkeypatch.setattr(
        learner_settings, "train", lambda cell, seeds: seen.append(envs.setup(cell.setup))
    )
    for name in ("point-mass-1", "point-mass-2d", "sparse-maze"):
        train_on_initial(name, {}, 1_000, [RunSeed(root=0, index=0)])
        given, spec = seen.pop(), envs.setup(name)
        assert given.target == spec.initial
        assert given.target_mean == spec.initial_mean
        assert given.target_variance == spec.initial_variance
