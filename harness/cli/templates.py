"""What `pacebench new` writes: small, whole, and passing `pacebench verify` as it is."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from pacebench.harness.errors import UserError

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
dependencies = ["pacebench"]

[project.entry-points."pacebench.$group"]
$name = "$module:$object"

[tool.setuptools]
py-modules = ["$module"]
"""

_CURRICULUM = '''\
"""$name: a curriculum."""

from typing import Any, ClassVar

import numpy as np

from pacebench import curricula


@curricula.register("$name")
class $object(curricula.Curriculum):
    """Moves a share of the way from the initial to the target distribution whenever V₋ is reached.

    Args:
        share: The part of the way of one such update.
    """

    # What it needs, and what is promised of every update: pacebench verify $name holds it to that.
    # V₋ paces it, Gaussians are what it moves between, and no budget ε bounds its steps.
    capabilities: ClassVar[curricula.Capabilities] = curricula.Capabilities(
        self_paced=True, needs_gaussian=True, kl_budget=False
    )

    def __init__(self, *, share: float = 0.02, **common: Any) -> None:
        super().__init__(**common)
        self.share = share
        self.done = 0.0

    def _propose(self, contexts: Any, values: Any) -> curricula.Proposal:
        """Changes nothing: says where to go, and the new values of this curriculum's attributes."""
        reached = float(np.mean(values)) >= self.threshold
        done = min(1.0, self.done + self.share) if reached else self.done
        case = "moved" if reached else "waited"
        return curricula.Proposal("schedule", case, self._between(done), {"done": done})

    def _between(self, done: float) -> curricula.Gaussian:
        if done == 0.0:
            return self.initial
        mean = (1 - done) * self.initial.mean + done * self.target.mean
        covariance = (1 - done) * self.initial.covariance + done * self.target.covariance
        return curricula.Gaussian(mean, covariance)

    def _state(self) -> dict[str, Any]:
        """What an update changes, as JSON."""
        return {"done": self.done}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """The attributes that the saved state stands for."""
        return {"done": state["done"], "_distribution": self._between(state["done"])}
'''

_SETUP = '''\
"""$name: Gymnasium's pendulum under other gravities, as a setup."""

from pacebench import envs

$object = envs.from_gymnasium(
    "Pendulum-v1",
    name="$name",
    # Attributes of the environment, with their bounds.
    context={"g": (5.0, 15.0), "m": (0.5, 1.5)},
    initial={"mean": [7.0, 0.7], "variance": [1.0, 0.01]},
    target={"mean": [11.0, 1.1], "variance": [0.1, 0.01]},
    threshold=-60.0,
    success={"return": -400.0},
    # 200 steps at an angle of π, a speed of 8 and a torque of 2 cost 16.2736 each.
    min_return=-3254.8,
    max_return=0.0,
    # Normalised to 1; pacebench anchors $name --write measures what the random policy gets.
    reference_return=-250.0,
)
'''

_LEARNER = '''\
"""$name: a learner."""

from pacebench.harness import learners


@learners.register("$name")
class $object(learners.PPO):
    """PPO with a smaller clip range; build one of your own as learners.Learner describes it."""

    doc = "PPO that moves its policy more carefully."

    class Params(learners.PPOParams):
        """The parameters of PPO, one with another default."""

        clip_range: float = 0.1
'''

_STUDY = """\
# Every key is explained in docs/study.schema.json: pacebench schema.
name: $study
question: Does $treatment lead to better target scores than training on the target?
curricula: [default, $treatment]
setups: [$setup]
learner: $learner
seeds: {count: 10}
budget: 200_000
statistics: {primary: return, control: default}
"""

_CHECKS = {
    "curriculum": "from pacebench.harness.verify import verify\n\n\n"
    'def test_it_keeps_its_promises():\n    outcomes = verify("$name", examples=20)\n',
    "setup": "from pacebench.harness.verify.setups import verify_setup\n\n\n"
    'def test_it_conforms():\n    outcomes = verify_setup("$name")\n',
    "learner": "from pacebench.harness.verify.learners import verify_learner\n\n\n"
    "def test_it_conforms():\n"
    '    small = {"net_arch": [16], "n_envs": 5, "n_steps": 120, "n_epochs": 1}\n'
    '    outcomes = verify_learner("$name", small)\n',
}
_CHECKED = "    assert [o.message for o in outcomes if not o.held] == []\n"

_CODE = {"curriculum": _CURRICULUM, "setup": _SETUP, "learner": _LEARNER}
_GROUPS = {"curriculum": "curricula", "setup": "setups", "learner": "learners"}


def write_package(part: str, name: str, folder: Path) -> list[Path]:
    """Writes a small package that can be installed, or a study file; returns its files.

    Raises:
        UserError: The name cannot be used, or there is something in its place.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UserError(
            f"'{name}' cannot name a {part}; use small letters, digits and '-', as in my-{part}."
        )
    if part == "study":
        folder = folder.with_suffix(".yaml")
    if folder.exists():
        raise UserError(f"'{folder}' is there already; choose another name or --folder.")
    words = name.split("-")
    values = {
        "name": name,
        "module": "_".join(words),
        "object": "SETUP" if part == "setup" else "".join(map(str.capitalize, words)),
        "group": _GROUPS.get(part, ""),
        "study": name if part == "study" else f"{name}-study",
        "treatment": name if part == "curriculum" else "spgl",
        "setup": name if part == "setup" else "point-mass-2",
        "learner": name if part == "learner" else "ppo",
    }
    if part == "study":
        files = {folder: _STUDY}
    else:
        files = {
            folder / "pyproject.toml": _PROJECT,
            folder / f"{values['module']}.py": _CODE[part],
            folder / f"test_{values['module']}.py": _CHECKS[part] + _CHECKED,
            folder / f"{values['study']}.yaml": _STUDY,
        }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(values), encoding="utf-8")
    return list(files)
