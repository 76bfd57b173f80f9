"""`pacebench verify`: what holds, what does not, and what there is not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pacebench import curricula
from pacebench.curricula import Capabilities, Gaussian, Proposal, base
from pacebench.curricula.distributions import divergence, fitted_gaussian
from pacebench.curricula.spgl import Spgl
from pacebench.curricula.spgl_mixture import SpglMixture
from pacebench.harness.cli import app
from pacebench.harness.verify import PROPERTIES, Subject, attempt

runner = CliRunner()


@pytest.fixture
def overspending():
    """A curriculum that promises one budget and takes two."""

    @curricula.register("overspending-test")
    class Overspending(Spgl):
        """Claims what only `spgl-shared` keeps."""

        capabilities = Capabilities(self_paced=True, scaled_family=True, trust_region="joint")

    yield
    curricula.unregister("overspending-test")


def test_all_held_exits_with_zero():
    result = runner.invoke(app, ["verify", "initial", "--examples", "8"])
    assert result.exit_code == 0, result.output
    assert "sample-order" in result.output
    assert "violated" not in result.output


def test_a_broken_promise_exits_with_one_and_the_smallest_counterexample(overspending):
    result = runner.invoke(app, ["verify", "overspending-test", "--examples", "20", "--json"])
    assert result.exit_code == 1
    found = {p["property"]: p for p in json.loads(result.stdout)["properties"]}
    broken = found["trust-region"]
    assert not broken["held"]
    assert "spends" in broken["message"]
    # Shrunk: one dimension, diagonal, seed zero.
    assert "dim=1," in broken["counterexample"]
    assert "full=False" in broken["counterexample"]
    assert "seed=0" in broken["counterexample"]
    assert found["record"]["held"]
    shown = runner.invoke(app, ["verify", "overspending-test", "--examples", "20"])
    assert shown.exit_code == 1
    assert "smallest counterexample" in shown.output


def test_unknown_name_and_option_exit_with_two():
    assert runner.invoke(app, ["verify", "sgpl"]).exit_code == 2
    assert runner.invoke(app, ["verify", "spgl", "--option", "pace=1"]).exit_code == 2


def test_options_reach_the_curriculum():
    result = runner.invoke(
        app, ["verify", "linear", "--examples", "3", "--option", "updates=700", "--json"]
    )
    found = {p["property"]: p["held"] for p in json.loads(result.stdout)["properties"]}
    # 700 updates are more than the suite waits for.
    assert result.exit_code == 1
    assert not found["convergence"]


def test_an_exception_inside_a_curriculum_is_a_finding():
    class Crashing(curricula.Control):
        """Fails where it should answer."""

        name = "crashing"

        def _propose(self, contexts, values):
            if len(values) > 1:
                raise ZeroDivisionError("oops")
            return Proposal("schedule", "fixed", self.distribution)

    record = next(p for p in PROPERTIES if p.name == "record")
    outcome = attempt(record, Subject(Crashing), 10)
    assert not outcome.held
    assert outcome.message == "ZeroDivisionError: oops"


def test_a_dishonest_record_is_a_finding():
    class Boasting(curricula.Control):
        """Moves, and says that it stayed."""

        name = "boasting"

        def update(self, contexts, values):
            record = super().update(contexts, values)
            self._distribution = Gaussian(
                self.distribution.mean + 1.0, self.distribution.covariance
            )
            return record

    record = next(p for p in PROPERTIES if p.name == "record")
    assert not attempt(record, Subject(Boasting), 10, shrink=False).held


def test_a_mixture_of_one_mode_and_an_estimate_that_passes_for_exact_are_findings(monkeypatch):
    class Narrow(SpglMixture):
        """Puts one Gaussian in the place of a mixture."""

        name = "narrow"

        def _suited(self, given, what, fit):
            return super()._suited(fitted_gaussian(given), what, fit)

    found = {prop.name: prop for prop in PROPERTIES}
    outcome = attempt(found["two-modes"], Subject(Narrow), 10, shrink=False)
    assert "has not reached both modes" in outcome.message
    assert attempt(found["any-target"], Subject(SpglMixture), 10, shrink=False).held
    monkeypatch.setattr(base, "divergence", lambda p, q: (divergence(p, q)[0], False))
    outcome = attempt(found["any-target"], Subject(SpglMixture), 10, shrink=False)
    assert "is called exact" in outcome.message


def test_verdicts_do_not_depend_on_the_global_generator():
    prop = next(p for p in PROPERTIES if p.name == "trust-region")
    np.random.seed(1)  # noqa: NPY002 - to show that nobody reads it
    first = attempt(prop, Subject(curricula.get("spgl")), 20)
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    second = attempt(prop, Subject(curricula.get("spgl")), 20)
    assert first.to_dict() == second.to_dict()
    np.random.seed(1)  # noqa: NPY002
    assert state == np.random.get_state()[1].tolist()  # noqa: NPY002
