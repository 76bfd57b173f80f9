"""Names, options, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import Curriculum, CurriculumError, Gaussian, Proposal

ORDER = [
    "default",
    "initial",
    "linear",
    "uniform",
    "spdl",
    "spdl-sqp",
    "spgl",
    "spgl-shared",
    "spgl-exact-kl",
    "spgl-exact",
    "spgl-joint",
    "spgl-mixture",
    "acl",
    "plr",
    "currot",
    "alp-gmm",
    "procurl",
    "goal-gan",
]
COMMON = {"target": Gaussian([0.0], [1.0]), "initial": Gaussian([1.0], [2.0])}


def test_names_keep_the_order_of_the_table():
    assert [n for n in curricula.names() if curricula.origin(n) == "pacebench"] == ORDER


@pytest.mark.parametrize("name", ORDER)
def test_every_option_has_a_default_and_words(name):
    kind = curricula.get(name)
    assert kind.name == name
    assert kind.__doc__
    for option, about in kind.options().items():
        assert len(about.doc) > 20, option
        assert about.doc.endswith(".")
    assert not set(kind.options()) & {"target", "initial", "bounds", "epsilon", "threshold"}


def test_options():
    options = {name: list(curricula.get(name).options()) for name in ORDER}
    assert options["linear"] == ["updates"]
    assert options["default"] == options["initial"] == options["uniform"] == []
    assert options["spdl"] == ["on_shortfall", "std_floor", "kl_threshold", "max_iterations"]
    assert options["spdl-sqp"] == ["on_shortfall", "std_floor", "kl_threshold"]
    rules = {n: curricula.get(n).options()["on_shortfall"].default for n in ORDER if n[:2] == "sp"}
    assert all(
        rule == ("hold" if name.startswith("spdl") else "recover") for name, rule in rules.items()
    )


def test_epsilon_limits():
    limits = {n: curricula.get(n).requires_epsilon_below for n in ORDER}
    assert {n for n, limit in limits.items() if limit == 0.25} == {
        "spgl",
        "spgl-shared",
        "spgl-mixture",
    }
    for name in ORDER:
        keywords = {**COMMON, "threshold": 0.0, "bounds": ([-5], [5]), "epsilon": 0.25}
        if limits[name]:
            with pytest.raises(CurriculumError, match=r"epsilon < 0\.25"):
                curricula.make(name, **keywords)
        else:
            assert curricula.make(name, **keywords).epsilon == 0.25


@pytest.mark.parametrize(
    ("name", "keywords", "words"),
    [
        ("spgl", {"treshold": 1.0}, "no option 'treshold'"),
        ("spgl", {}, "needs a threshold"),
        ("uniform", {}, "needs bounds"),
        ("linear", {"updates": 0}, "whole number"),
        ("linear", {"updates": 2.5}, "whole number"),
        ("spgl", {"threshold": 0.0, "on_shortfall": "panic"}, "'hold' or 'recover'"),
        ("spdl", {"threshold": 0.0, "std_floor": 0.1}, "belong together"),
        ("spdl", {"threshold": 0.0, "std_floor": -0.1, "kl_threshold": 1.0}, "positive"),
        ("spdl", {"threshold": 0.0, "max_iterations": 0}, "at least 1"),
        ("spgl", {"threshold": 0.0, "epsilon": "small"}, "must be a number"),
        ("uniform", {"bounds": ([0.0], [0.0])}, "below its upper"),
        ("uniform", {"bounds": 3}, "pair"),
    ],
)
def test_wrong_keywords_are_refused(name, keywords, words):
    with pytest.raises(CurriculumError, match=words) as caught:
        curricula.make(name, **COMMON, **keywords)
    assert str(caught.value).endswith(".")


def test_missing_distribution_is_refused():
    with pytest.raises(CurriculumError, match="needs the initial"):
        curricula.make("spgl", target=COMMON["target"], threshold=0.0)


def test_unknown_names_get_a_hint():
    with pytest.raises(curricula.UnknownNameError, match="did you mean 'spgl'"):
        curricula.make("sgpl", **COMMON)


def test_a_family_cannot_take_other_correlations():
    target = Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])
    with pytest.raises(CurriculumError, match="correlations"):
        curricula.make(
            "spgl", target=target, initial=Gaussian([1.0, 1.0], np.eye(2)), threshold=0.0
        )
    c = curricula.make(
        "spgl", target=target, initial=Gaussian([1.0, 1.0], [4.0, 9.0]), threshold=0.0
    )
    np.testing.assert_allclose(c.theta, [4.0, 9.0])
    np.testing.assert_allclose(c.distribution.covariance, [[4.0, 3.0], [3.0, 9.0]])


def test_a_curriculum_of_ones_own():
    @curricula.register("halfway-test")
    class Halfway(Curriculum):
        """Goes half the way each time.

        Args:
            pace: How much of the way.
        """

        def __init__(self, *, pace=0.5, **common):
            super().__init__(**common)
            self.pace = pace

        def _propose(self, contexts, values):
            p = self.distribution
            mean = p.mean + self.pace * (self.target.mean - p.mean)
            return Proposal("schedule", "half", Gaussian(mean, p.covariance))

    try:
        assert "halfway-test" in curricula.names()
        assert curricula.get("halfway-test").options()["pace"].doc == "How much of the way."
        c = curricula.make("halfway-test", **COMMON, pace=0.25)
        record = c.update([[0.0]], [1.0])
        assert c.distribution.mean[0] == 0.75
        assert record.kl_step > 0
        with pytest.raises(curricula.DuplicateNameError):
            curricula.register("halfway-test")(type("Other", (Curriculum,), {}))
    finally:
        curricula.unregister("halfway-test")
    assert "halfway-test" not in curricula.names()
