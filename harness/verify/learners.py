"""What every learner must do, ours and those of other packages, by what it says it can."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.harness.learners.base import PHASES
from pacebench.harness.records import (
    EVALUATION_COLUMNS,
    UPDATE_COLUMNS,
    Checkpoint,
    Hooks,
    RunResult,
    Status,
)
from pacebench.harness.runner.playing import Player
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell
from pacebench.harness.training import train
from pacebench.harness.verify.conformance import Requirement, outcomes, refused, requirement
from pacebench.harness.verify.suite import CheckOutcome, require

SEEDS = [RunSeed(root=4, index=i) for i in range(2)]


@dataclass
class LearnerSubject:
    """A learner with parameters that make a training of seconds.

    Attributes:
        name: The registered name.
        params: Parameters that differ from its defaults.
        setup: On what it is trained.
        hidden: A setup that hides its context.
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    setup: str = "point-mass-2"
    hidden: str = "point-mass-1"

    @property
    def kind(self) -> type[learners.Learner]:
        """The learner."""
        return learners.get(self.name)

    def cell(self, setup: str | None = None, **schedule: Any) -> Cell:
        """Returns a cell of at least three rollouts, evaluated twice."""
        task = setup or self.setup
        params = self.kind.Params.model_validate({**self.kind.defaults(task), **self.params})
        # Long enough for three rollouts, and for every copy to end an episode.
        episodes = max(2 * self.kind.copies(params), 10) * envs.setup(task).horizon
        budget = max(2 * self.kind.rollout_steps(params) + 1, episodes)
        study = Study.model_validate(
            {
                "name": "verify",
                "question": "Does it conform?",
                "curricula": ["spgl"],
                "setups": [task],
                "learner": {"name": self.name, "params": self.params},
                "seeds": {"count": 1},
                "budget": budget,
                "evaluation": {"steps": [budget // 2, budget], "contexts": 5},
                "schedule": {"min_episodes": 4, **schedule},
            }
        )
        return expand(study)[0].cell

    @cached_property
    def trained(self) -> list[RunResult]:
        """Two seeds, trained together."""
        return train(self.cell(), SEEDS)


LEARNER_REQUIREMENTS: list[Requirement[LearnerSubject]] = []


def verify_learner(
    name: str,
    params: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[CheckOutcome]:
    """Tries everything that a learner must do.

    Args:
        name: A registered name.
        params: Parameters that make its training short; its defaults may take minutes.
        progress: Called with the name of each requirement before it is tried.
    """
    learners.get(name)
    return outcomes(LEARNER_REQUIREMENTS, LearnerSubject(name, params or {}), progress)


def fingerprint(result: RunResult) -> str:
    """Returns a hash of everything in a record but the clocks and the machine."""
    clocks = ("seconds", "seconds_recording")
    updates = {name: column for name, column in result.updates.items() if name not in clocks}
    said: dict[str, Any] = {
        "seed": result.seed.model_dump(mode="json"),
        "status": result.status,
        "reason": result.reason,
        "steps": result.env_steps,
        "evaluations": result.evaluations,
        "updates": updates,
        "diagnostics": result.diagnostics,
    }
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, array in sorted(result.policy.items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


class InterruptingHooks(Hooks):
    """Keeps checkpoints as a store would, and stops after so many iterations."""

    def __init__(self) -> None:
        self.results: list[RunResult] = []
        self.kept: dict[RunSeed, Checkpoint] = {}
        self.refused: dict[RunSeed, str] = {}
        self.left = 10**9
        self.steps = 0

    def refuse(self, seed: RunSeed, reason: str) -> None:
        """Notes that a checkpoint could not be used."""
        self.refused[seed] = reason
        del self.kept[seed]

    def load(self, seed: RunSeed) -> Checkpoint | None:
        """Returns what was kept of a seed."""
        return self.kept.get(seed)

    def save(self, seed: RunSeed, checkpoint: Checkpoint) -> None:
        """Keeps a checkpoint in the form that files give it."""
        plain = json.loads(json.dumps(checkpoint.state, allow_nan=False))
        arrays = {name: np.array(array) for name, array in checkpoint.arrays.items()}
        self.kept[seed] = Checkpoint(checkpoint.step, arrays, plain)

    def progress(self, env_steps: int) -> None:
        """Counts iterations."""
        self.steps += env_steps
        self.left -= 1

    def finished(self, result: RunResult) -> None:
        """Keeps a result."""
        self.results.append(result)

    def should_stop(self) -> bool:
        """Whether enough were made."""
        return self.left <= 0


def run_in_pieces(cell: Cell, seeds: list[RunSeed], pieces: list[int]) -> InterruptingHooks:
    """Trains with interruptions after so many iterations each."""
    hooks = InterruptingHooks()
    for piece in (*pieces, 10**9):
        hooks.left = piece
        done = {result.seed for result in hooks.results}
        train(cell, [seed for seed in seeds if seed not in done], hooks)
    require(not hooks.refused, f"a checkpoint was refused: {list(hooks.refused.values())[:1]}")
    return hooks


def _must(name: str) -> Callable[[Callable[[LearnerSubject], None]], Requirement[LearnerSubject]]:
    return requirement(name, LEARNER_REQUIREMENTS)


@_must("description")
def describes_itself(subject: LearnerSubject) -> None:
    """It says what it is, takes γ from the setup, and refuses parameters it does not know."""
    kind = subject.kind
    require(bool(kind.doc) and kind.name == subject.name, "it has no doc, or another name")
    for setup in envs.names():
        params: Any = kind.Params.model_validate(kind.defaults(setup))
        require(params.gamma == envs.setup(setup).gamma, f"γ is not that of {setup}")
        sizes = kind.rollout_steps(params) >= kind.copies(params) >= 1
        require(sizes, "a rollout is shorter than one step of all copies")
    refused(lambda: kind.Params.model_validate({"no_such": 1}), "no_such", ValueError)


@_must("records")
def trains_and_records(subject: LearnerSubject) -> None:
    """It trains, and leaves whole, finite records and a policy in single precision."""
    for result in subject.trained:
        require(result.status is Status.OK, f"a run ended as {result.status}: {result.reason}")
        require(list(result.evaluations) == list(EVALUATION_COLUMNS), "evaluations lack columns")
        require(set(UPDATE_COLUMNS) <= set(result.updates), "updates lack columns")
        require(len(result.updates["iteration"]) >= 1, "the curriculum was never updated")
        for columns in (result.evaluations, result.updates):
            require(len({len(c) for c in columns.values()}) == 1, "columns differ in length")
        json.dumps([result.evaluations, result.updates, result.extras], allow_nan=False)
        require(set(result.timings) == set(PHASES), "phases lack their time")
        single = all(a.dtype == np.float32 for a in result.policy.values())
        require(single and bool(result.policy), "the policy is not single precision arrays")


@_must("determinism")
def same_seed_same_run(subject: LearnerSubject) -> None:
    """A seed gives the same run to the last bit, alone or beside others; two seeds give two."""
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    first, second = map(fingerprint, subject.trained)
    require(first != second, "two seeds gave the same run")
    (again,) = train(subject.cell(), SEEDS[1:])
    require(fingerprint(again) == second, "a seed alone gave another run than beside another")
    unused = np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002
    require(unused, "NumPy's global random state was used")


@_must("policy")
def stored_policy_acts(subject: LearnerSubject) -> None:
    """A stored policy acts as the trained one, whatever agent it is loaded into."""
    cell, arrays = subject.cell(), subject.trained[0].policy
    batch = envs.make_batch(cell.task, 3, 0)
    obs = batch.reset(np.tile(batch.setup.initial_mean, (3, 1)))
    actions = Player(cell, SEEDS[0], arrays)(obs)
    for seed in SEEDS:
        same = np.array_equal(actions, Player(cell, seed, arrays)(obs))
        require(same, "the policy is not all in its arrays")
    low, high = batch.action_space.low, batch.action_space.high
    require(bool(((actions >= low) & (actions <= high)).all()), "it acts outside its space")
    noisy = Player(cell, SEEDS[0], arrays, np.random.default_rng(0))(obs)
    require(not np.array_equal(noisy, actions), "it does not use the noise it is given")


@_must("interruption")
def interrupted_run_ends_the_same(subject: LearnerSubject) -> None:
    """A run that was interrupted ends as one that was not."""
    whole = {r.seed: fingerprint(r) for r in subject.trained}
    pieces = run_in_pieces(subject.cell(), SEEDS, [1, 1])
    require({r.seed: fingerprint(r) for r in pieces.results} == whole, "it ended otherwise")


@_must("critic")
def critic_where_there_is_one(subject: LearnerSubject) -> None:
    """A critic that is claimed has finite values; where it makes no sense it is refused."""
    hidden = subject.cell(subject.hidden, value_signal="return").model_copy(
        update={"schedule": subject.cell(value_signal="critic").schedule}
    )
    refused(lambda: train(hidden, SEEDS[:1]), "hides it", UserError)
    cell = subject.cell(value_signal="critic")
    if not subject.kind.capabilities.critic:
        refused(lambda: train(cell, SEEDS[:1]), "no critic", UserError)
        return
    (result,) = train(cell, SEEDS[:1])
    finite = np.isfinite(result.updates["mean_value"]).all()
    require(finite, "the critic's values are not finite")
