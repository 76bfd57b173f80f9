"""Run ids change exactly with what determines a result."""

from __future__ import annotations

from typing import Any

from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import by_cell
from tests.harness.study.example import broken


def _ids(**changes: Any) -> list[str]:
    study = Study.model_validate(broken(**changes))
    return [run.run_id for run in expand(study)]


def test_a_study_expands_to_its_cross_product() -> None:
    study = Study.model_validate(broken())
    cells = by_cell(expand(study))
    assert [(runs[0].cell.setup, runs[0].label) for runs in cells] == [
        (setup, label) for setup in study.setups for label in study.labels
    ]
    ids = _ids()
    assert len(ids) == 2 * 4 * 10
    assert len(set(ids)) == len(ids)


def test_what_does_not_determine_a_result_changes_no_id() -> None:
    plain = _ids()
    assert _ids(name="other", question="Another one?") == plain
    assert _ids(**{"curricula.2.label": "spgl-broad"}) == plain
    assert _ids(**{"statistics.smallest_effect": 0.2, "statistics.alpha": 0.01}) == plain
    assert _ids(tuning=...) == plain


def test_what_determines_a_result_changes_its_ids() -> None:
    plain = set(_ids())
    for change in (
        {"budget": 81_920, "evaluation.steps": [10_240, 81_920]},
        {"seeds.root": 8},
        {"learner.params.learning_rate": 2e-3},
        {"schedule.every": 2},
        {"evaluation.contexts": 101},
        {"evaluation.steps": [20_480, 40_960]},
    ):
        assert not plain & set(_ids(**change)), change


def test_a_changed_copy_has_its_own_hashes() -> None:
    run = expand(Study.model_validate(broken()))[0]
    before = run.run_id, run.cell.digest
    cell = run.cell.model_copy(update={"budget": run.cell.budget + 1})
    copy = run.model_copy(update={"cell": cell})
    assert cell.digest != before[1]
    assert copy.run_id != before[0]
    assert (run.run_id, run.model_copy().cell.digest) == before


def test_only_what_is_new_gets_new_ids() -> None:
    plain = _ids()
    more_seeds = _ids(**{"seeds.count": 12})
    assert set(plain) < set(more_seeds)
    assert len(more_seeds) == 2 * 4 * 12
    wider = _ids(**{"curricula.2.epsilon": 0.1})
    assert len(set(plain) - set(wider)) == 2 * 10


def test_controls_do_not_depend_on_the_parameters_they_ignore() -> None:
    plain = _ids(curricula=["default"], statistics=..., tuning=...)
    with_epsilon = _ids(
        curricula=[{"name": "default", "epsilon": 0.1, "threshold": 1.0}],
        statistics=...,
        tuning=...,
    )
    assert plain == with_epsilon


def test_defaults_spelt_out_are_the_same_run() -> None:
    short = _ids(curricula=["spgl"], statistics=..., tuning=...)
    spelt = _ids(
        curricula=[{"name": "spgl", "epsilon": 0.05, "threshold": 5.0}], statistics=..., tuning=...
    )
    assert short == spelt


def test_a_method_may_change_the_learner() -> None:
    study = Study.model_validate(
        broken(
            curricula=[
                "default",
                {"name": "default", "label": "wide", "learner": {"params": {"log_std_init": 1.0}}},
                {"name": "default", "label": "sb3", "learner": {"name": "sb3-ppo"}},
            ],
            setups=["point-mass-2"],
            statistics=...,
            tuning=...,
        )
    )
    plain, wide, sb3 = (runs[0].cell.learner for runs in by_cell(expand(study)))
    assert wide.name == "ppo"
    assert {**plain.params, "log_std_init": 1.0} == wide.params
    assert sb3.name == "sb3-ppo"
    assert sb3.params["learning_rate"] != 7e-4, "the study's parameters are those of its learner"


def test_parameters_may_differ_between_setups() -> None:
    change = {"point-mass-2": {"epsilon": 0.1, "options": {"on_shortfall": "hold"}}}
    study = Study.model_validate(
        broken(
            curricula=[{"name": "spgl", "epsilon": 0.02, "per_setup": change}],
            statistics=...,
            tuning=...,
        )
    )
    one, two = (runs[0].cell.curriculum for runs in by_cell(expand(study)))
    assert (one.epsilon, one.options["on_shortfall"]) == (0.02, "recover")
    assert (two.epsilon, two.options["on_shortfall"]) == (0.1, "hold")
