"""What is searched means the same for every method and setup."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacebench import curricula, envs
from pacebench.harness.errors import UserError
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Range
from pacebench.harness.study.space import EPSILON, at_boundary, change_for, space_of, threshold_of
from pacebench.harness.training.evaluation import held_out_contexts
from pacebench.harness.tuning.search import searches
from tests.harness.tuning.plans import load, plan


def test_every_tunable_method_has_a_default_space_and_self_paced_ones_share_it(
    tmp_path: Path,
) -> None:
    data = plan(curricula=["spgl"])
    data["curricula"] = curricula.names()
    study, _ = load(tmp_path, data)
    for entry in study.curricula:
        kind = curricula.get(entry.name)
        if entry.name in ("default", "initial", "uniform"):
            with pytest.raises(UserError, match="nothing to tune"):
                space_of(study, entry, "point-mass-2")
            continue
        space = space_of(study, entry, "point-mass-2")
        assert ("threshold" in space) == kind.capabilities.self_paced
        assert space.get("epsilon") == (EPSILON if kind.capabilities.has_budget else None)
        assert set(kind.search) <= set(space)
        assert ("std_floor_ratio" in space) == ("std_floor" in kind.options())


def test_points_become_parameters_that_the_curriculum_accepts(tmp_path: Path) -> None:
    study, _ = load(tmp_path, plan())
    change = change_for({"epsilon": 0.1, "threshold": 0.5, "std_floor_ratio": 7.0}, "point-mass-1")
    anchors = envs.setup("point-mass-1").anchors
    assert anchors is not None
    ends = anchors.baseline.discounted_return, anchors.reference.discounted_return
    assert change.threshold == pytest.approx(sum(ends) / 2)
    assert change.options["std_floor"] == pytest.approx([7 * 0.03, 7 * 0.02, 7 * 0.01])
    assert change.options["kl_threshold"] > 0
    assert threshold_of("point-mass-1", 0.0) == ends[0]
    assert threshold_of("point-mass-1", 1.0) == pytest.approx(ends[1])
    assert study.tuning is not None


def test_boundaries_are_flagged_on_the_scale_of_the_search() -> None:
    space = {"epsilon": Range(low=0.001, high=0.1, log=True), "updates": Range(low=0, high=100)}
    middle = {"epsilon": 0.01, "updates": 50}
    assert at_boundary(space, middle) == []
    assert at_boundary(space, {"epsilon": 0.00110, "updates": 50}) == ["epsilon"]
    assert at_boundary(space, {"epsilon": 0.01, "updates": 97}) == ["updates"]


def test_tuning_sees_neither_evaluation_seeds_nor_evaluation_contexts(tmp_path: Path) -> None:
    study, _ = load(tmp_path, plan(replicates=3))

    def words(seed: RunSeed) -> set[tuple[int, ...]]:
        return {tuple(seed.sequence(role).generate_state(4).tolist()) for role in RunRole}

    evaluation = {w for run in expand(study) for w in words(run.seed)}
    found = searches(study, tmp_path)
    tuning = {w for s in found for seed in (*s.seeds, *s.rerank_seeds) for w in words(seed)}
    assert not evaluation & tuning
    by_replicate = {s.replicate: {*s.seeds, *s.rerank_seeds} for s in found}
    assert not by_replicate[0] & by_replicate[1]
    for search in found:
        assert not set(search.seeds) & set(search.rerank_seeds)
    roots = {search.cell(None).evaluation.root for search in found}
    assert len(roots) == 3
    assert study.seeds.root not in roots
    setup = envs.setup("point-mass-2")
    contexts = [
        held_out_contexts(setup, cell.evaluation)
        for cell in (expand(study)[0].cell, *(search.cell(None) for search in found[::2]))
    ]
    for i, some in enumerate(contexts):
        for other in contexts[i + 1 :]:
            assert not np.isin(some, other).any()
