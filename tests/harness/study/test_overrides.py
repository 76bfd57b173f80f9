"""A study that the command line changed is another study, with another name and plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.study.load import load_study
from pacebench.harness.study.overrides import Overrides
from pacebench.harness.study.yaml_nodes import to_yaml
from tests.harness.study.example import VALID


def changed(*values: str, only: tuple[str, ...] = (), seeds: int | None = None) -> Overrides:
    return Overrides(values, only, seeds)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "example.yaml"
    path.write_text(to_yaml(VALID))
    return path


def test_changes_are_in_the_plan_and_in_the_name(file: Path) -> None:
    overrides = changed(
        "budget=81_920",
        "curricula.spgl-wide.epsilon=0.1",
        "curricula.default.label=none",
        "learner.params.n_steps=64",
        "statistics.control=none",
        "statistics.comparisons=all-pairs",
        "setups=[point-mass-2]",
        "evaluation.steps=null",
    )
    study = load_study(file, overrides)
    assert (study.budget, study.setups) == (81_920, ("point-mass-2",))
    assert study.labels == ("none", "spgl", "spgl-wide", "spdl-sqp")
    assert study.curricula[2].epsilon == 0.1
    assert study.learner.params == {"learning_rate": 7e-4, "n_steps": 64}
    assert study.name.startswith("example.budget-81920.curricula-default-label-none.")
    assert len(study.name) <= 80


def test_only_some_curricula_and_setups(file: Path) -> None:
    study = load_study(file, changed(only=("point-mass-2", "spgl", "default"), seeds=3))
    assert study.labels == ("default", "spgl")
    assert study.setups == ("point-mass-2",)
    assert [item.pair for item in study.comparisons] == [("spgl", "default")]
    assert study.tuning is not None
    assert study.tuning.curricula == ("spgl",)
    assert (study.seeds.count, study.seeds.root, study.seeds.adaptive) == (3, 7, False)
    assert study.name.startswith("example.only-default-spgl-point-mass-2.seeds-3.")
    without = load_study(file, changed(only=("default", "spdl-sqp")))
    assert without.tuning is None


@pytest.mark.parametrize("setup", ["point-mass-2d", "point-mass-2", "ball-catching"])
def test_one_setup_of_a_study_that_says_much_of_each(setup: str) -> None:
    study = load_study("field", changed(only=(setup,)))
    assert study.setups == (setup,)
    assert set(study.seeds.at_most) <= {setup}
    asked = {item.pair for item in study.comparisons if item.weight}
    whole = load_study("field")
    assert asked == {
        item.pair
        for item in whole.comparisons
        if item.weight and setup in (item.setups or whole.setups)
    }
    assert all(set(entry.per_setup) <= {setup} for entry in study.curricula)


def test_pools_of_methods_that_are_left_out_go_with_their_questions() -> None:
    study = load_study("rule", changed(only=("spgl recover", "spgl hold", "linear")))
    assert list(study.statistics.pools) == ["closed form"]
    assert [item.pair for item in study.comparisons] == [("spgl recover", "linear")]


def test_an_adaptive_study_becomes_a_fixed_one() -> None:
    assert load_study("quick").seeds.adaptive
    study = load_study("quick", changed(seeds=3))
    assert (study.seeds.count, study.seeds.adaptive) == (3, False)


def test_names_tell_changes_apart_and_nothing_else(file: Path) -> None:
    def name(*values: str) -> str:
        return load_study(file, changed(*values)).name

    assert name("budget=81920", "statistics.alpha=0.1") == name(
        "statistics.alpha=0.1", "budget=81_920"
    )
    spelt_alike = {name("question=a b"), name("question=a-b"), name("question=a+b")}
    assert len(spelt_alike) == 3
    assert load_study(file, changed()).name == "example"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (changed("budget"), "--set budget: write KEY=VALUE"),
        (changed("=3"), "--set =3: write KEY=VALUE"),
        (changed("name=mine"), "--set name=mine: give a key but the name"),
        (changed("budget=1", "budget=2"), "--set budget=2: give a key but the name one value"),
        (changed("budget=1, 2"), "one value, once"),
        (changed("budget=["), "--set budget:1: not valid YAML"),
        (changed("budget=!!python/name:os.system x"), "tag"),
        (changed("budget=abc"), "budget: input should be a valid integer"),
        (changed("budgett=1"), "did you mean 'budget'?"),
        (changed("budget.x=1"), "--set budget.x: 'budget' has no keys"),
        (changed("curricula.spgll.epsilon=1"), "did you mean 'spgl'?"),
        (changed(only=("spgll",)), "--only spgll: not in the study; did you mean 'spgl'?"),
        (changed(only=("spgl",)), "--only: keep 'default'"),
    ],
)
def test_mistakes_get_a_sentence(file: Path, overrides: Overrides, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        load_study(file, overrides)
    assert sentence in str(caught.value)
