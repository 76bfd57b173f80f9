"""A study file is accepted whole, or every mistake in it is named at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.study.load import load_study
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import to_yaml
from tests.harness.study.example import VALID, broken

STUDIES = Path(__file__).parents[3] / "studies"


def _load(tmp_path: Path, data: Any) -> Study:
    file = tmp_path / "study.yaml"
    file.write_text(to_yaml(data))
    return load_study(file)


def _sentences(tmp_path: Path, data: Any) -> list[str]:
    with pytest.raises(UserError) as caught:
        _load(tmp_path, data)
    return list(caught.value.sentences)


def test_a_valid_study_loads_and_fills_in_defaults(tmp_path: Path) -> None:
    study = _load(tmp_path, VALID)
    assert study.labels == ("default", "spgl", "spgl-wide", "spdl-sqp")
    assert study.control == "default"
    assert study.curricula[0].epsilon is None
    assert study.evaluation_steps() == (10_240, 40_960)
    pairs = [declared.pair for declared in study.comparisons]
    assert pairs == [("spgl", "default"), ("spgl", "spdl-sqp")]


@pytest.mark.parametrize("file", sorted(STUDIES.glob("*.yaml")), ids=lambda f: f.stem)
def test_every_shipped_study_is_valid(file: Path) -> None:
    study = load_study(file)
    assert study.name == file.stem, "a study is found by the name of its file"


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        ({"curricula.1.epsilon": 0.25}, "curricula[1].epsilon", "must be below 0.25 for 'spgl'"),
        ({"curricula.1.epsilon": 0}, "curricula[1].epsilon", "greater than 0"),
        ({"curricula.1.epsilon": -1}, "curricula[1].epsilon", "greater than 0"),
        ({"curricula.1.epsilon": float("nan")}, "curricula[1].epsilon", "finite"),
        ({"curricula.1.epsilon": "small"}, "curricula[1].epsilon", "valid number"),
        ({"curricula.0": "spgll"}, "curricula[0]", "did you mean 'spgl'?"),
        ({"curricula.1.options": {"on_short": 1}}, "options.on_short", "it has: on_shortfall"),
        # What only the curriculum itself knows.
        ({"curricula.1.options": {"on_shortfall": "nonsense"}}, "curricula[1]", "not 'nonsense'"),
        ({"curricula.3": {"name": "linear", "options": {"updates": 0}}}, "[3]", "updates ≥ 1"),
        (
            {"curricula.1.per_setup": {"point-mass-2": {"options": {"on_shortfall": 3}}}},
            "curricula[1].per_setup.point-mass-2",
            "must be 'hold' or 'recover', not 3",
        ),
        (
            {"curricula.3": {"name": "spdl-sqp", "options": {"std_floor": [0.1, 0.1]}}},
            "curricula[3]",
            "std_floor and kl_threshold belong together",
        ),
        (
            {"curricula.3": {"name": "spdl", "options": {"max_iterations": "x"}}},
            "curricula[3]",
            "'spdl' cannot be made on 'point-mass-1' (TypeError",
        ),
        # What a learner cannot tell, or cannot leave out.
        (
            {"curricula.0": "plr", "learner": {"name": "sb3-sac"}},
            "curricula[0].name",
            "'plr' reads value_errors of each episode, which learner 'sb3-sac' cannot tell",
        ),
        (
            {
                "curricula.0": {"name": "plr", "options": {"robust": True}},
                "learner": {"name": "sb3-ppo"},
            },
            "curricula[0].name",
            "needs a learner with selective_gradients, and 'sb3-ppo' has none",
        ),
        # Targets that are no Gaussian.
        (
            {"setups": ["point-mass-2d"]},
            "curricula[1]",
            "spgl needs a Gaussian as its target, not a Mixture; fit='gaussian' takes the one",
        ),
        (
            {"curricula.0": "spgl-mixture", "setups": ["sparse-maze"]},
            "curricula[0]",
            "spgl-mixture needs a Gaussian or a Mixture as its target",
        ),
        (
            {"curricula.0": {"name": "acl", "options": {"fit": "gaussian"}}},
            "curricula[0].options.fit",
            "'acl' has no such option",
        ),
        # What a control would ignore.
        (
            {"curricula.0": {"name": "default", "epsilon": 0.1}},
            "curricula[0].epsilon",
            "'default' does not pace itself and would ignore it; remove it",
        ),
        (
            {"curricula.0": {"name": "linear", "per_setup": {"point-mass-2": {"threshold": 1}}}},
            "curricula[0].per_setup.point-mass-2.threshold",
            "would ignore it",
        ),
        ({"curricula.2.label": "spgl"}, "curricula[2]", "'spgl' is there already"),
        (
            {"curricula.1.per_setup": {"point-mass-2": {"epsilon": 0.3}}},
            "curricula[1].per_setup.point-mass-2.epsilon",
            "must be below 0.25",
        ),
        ({"curricula.1.per_setup": {"moon": {}}}, "per_setup.moon", "not among the study's setups"),
        ({"curricula.2.label": "a\x1b[31mb"}, "curricula[2].label", "'a\\x1b[31mb' has characters"),
        ({"curricula.2.label": "a\u202eb"}, "curricula[2].label", "direction characters"),
        ({"curricula.2.label": "a\x07"}, "curricula[2].label", "leave control"),
        ({"question": "Is it\x9b2J so?"}, "question", "leave control"),
        ({"curricula": []}, "curricula", "at least 1 item"),
        ({"curricula": "default"}, "curricula", "valid tuple"),
        ({"setups": []}, "setups", "at least 1 item"),
        ({"setups.0": "point-mas-1"}, "setups[0]", "did you mean 'point-mass-1'?"),
        ({"setups.1": "point-mass-1"}, "setups[1]", "is there already"),
        ({"learner": "pppo"}, "learner", "did you mean 'ppo'?"),
        ({"learner.params": {"lerning_rate": 1}}, "learner.params.lerning_rate", "not permitted"),
        ({"learner.params": {"n_steps": -4}}, "learner.params.n_steps", "greater than or equal"),
        ({"seeds.count": 0}, "seeds.count", "greater than or equal to 1"),
        ({"seeds.root": -1}, "seeds.root", "greater than or equal to 0"),
        ({"seeds": ...}, "seeds", "is missing; add 'seeds:'"),
        ({"seeds.cuont": 3}, "seeds.cuont", "did you mean 'count'?"),
        ({"budget": 10}, "budget", "fewer than one rollout of 'ppo'"),
        ({"budget": 1.5}, "budget", "valid integer"),
        ({"evaluation.steps": [50_000]}, "evaluation.steps[0]", "beyond the budget of 40,960"),
        ({"evaluation.steps": [3, 2]}, "evaluation", "must ascend"),
        ({"evaluation.contexts": 0}, "evaluation.contexts", "greater than or equal to 1"),
        ({"schedule.value_signal": "critic"}, "schedule.value_signal", "'point-mass-1' hides it"),
        ({"statistics.control": "none"}, "statistics.control", "it has: default, spgl"),
        ({"statistics.comparisons": [["spgl", "x"]]}, "comparisons[0]", "'x' is not in"),
        ({"statistics.comparisons": [["spgl", "spgl"]]}, "comparisons[0]", "with itself"),
        (
            {"statistics.comparisons": [{"pair": ["spgl", "default"], "weight": -1}]},
            "comparisons[0].weight",
            "greater than or equal to 0",
        ),
        ({"statistics.solved": 2}, "statistics.solved", "less than or equal to 1"),
        ({"statistics.primary": []}, "statistics.primary", "at least 1 item"),
        ({"statistics.smallest_effect": 0}, "statistics.smallest_effect", "greater than 0"),
        ({"statistics.primary": "iqm"}, "statistics.primary", "should be 'return'"),
        ({"tuning.curricula": ["linear"]}, "tuning.curricula[0]", "is not in the study"),
        ({"tuning.space.spgl.epsilon.low": 1}, "tuning.space.spgl.epsilon", "low must be below"),
        ({"tuning.sampler": "TPESampeler"}, "tuning.sampler", "did you mean 'TPESampler'?"),
        ({"tuning.pruner": "wilcoxon"}, "tuning.pruner", "set seeds_per_trial to 5"),
        ({"tuning.budget": 10**6}, "tuning.budget", "more than the study's own"),
        (
            {"tuning.space.spgl": {"epsilonn": {"low": 0.1, "high": 0.2}}},
            "tuning.space.spgl.epsilonn",
            "did you mean 'epsilon'?",
        ),
        (
            {"tuning.space.spgl.epsilon.high": 0.3},
            "tuning.space.spgl.epsilon",
            "below 0.25 for 'spgl'",
        ),
        ({"tuning.space": {"linear": {}}}, "tuning.space.linear", "not among the tuned"),
        ({"name": "../escape"}, "name", "cannot be used as a name"),
        ({"name": "a/b"}, "name", "cannot be used as a name"),
        ({"name": "/etc"}, "name", "cannot be used as a name"),
        ({"name": ".."}, "name", "cannot be used as a name"),
        ({"name": "..."}, "name", "cannot be used as a name"),
        ({"name": "a\n"}, "name", "cannot be used as a name"),
        ({"name": "C:\\x"}, "name", "cannot be used as a name"),
        ({"budgets": 3}, "budgets", "did you mean 'budget'?"),
    ],
)
def test_each_mistake_gets_a_sentence_with_its_key(
    tmp_path: Path, change: dict[str, Any], where: str, what: str
) -> None:
    sentences = _sentences(tmp_path, broken(**change))
    matching = [s for s in sentences if where in s and what in s]
    assert matching, sentences
    assert all(s.count("\n") == 0 and s.endswith((".", "?")) for s in sentences)


def test_all_mistakes_are_named_at_once_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "name: bad\n"
        "question: Why?\n"
        "curricula:\n"
        "  - defalt\n"
        "  - {name: spgl, epsilon: 0.3}\n"
        "  - {name: spgl, epsilonn: 0.1, label: other}\n"
        "setups: [moon]\n"
        "seeds: {count: 0}\n"
        "budget: 40960\n"
        "evaluation:\n"
        "  steps: [1000, 50000]\n"
        "schedule: {value_signal: guess}\n"
    )
    with pytest.raises(UserError) as caught:
        load_study(file)
    heads = [s.removeprefix(f"{file}:").split(": ")[:2] for s in caught.value.sentences]
    assert [(int(line), key) for line, key in heads] == [
        (4, "curricula[0].name"),
        (5, "curricula[1].epsilon"),
        (6, "curricula[2].epsilonn"),
        (7, "setups[0]"),
        (8, "seeds.count"),
        (11, "evaluation.steps[1]"),
        (12, "schedule.value_signal"),
    ]


@pytest.mark.parametrize("data", [None, [], "text", 3, {}])
def test_what_is_no_study_at_all(tmp_path: Path, data: Any) -> None:
    assert _sentences(tmp_path, data)


def test_a_fit_is_accepted_by_whoever_needs_one(tmp_path: Path) -> None:
    fitted = [{"name": name, "options": {"fit": "gaussian"}} for name in ("spgl", "spgl-mixture")]
    changes = {"curricula": ["currot", *fitted], "setups": ["sparse-maze"]}
    study = _load(tmp_path, broken(**changes, statistics=..., tuning=...))
    assert [entry.options.get("fit") for entry in study.curricula] == [None, "gaussian", "gaussian"]


def test_critic_is_accepted_where_the_context_is_visible(tmp_path: Path) -> None:
    change = {"schedule.value_signal": "critic", "setups": ["point-mass-2"]}
    assert _load(tmp_path, broken(**change)).schedule.value_signal == "critic"
