"""What is searched, and how a point of the search becomes a curriculum's parameters.

Searched parameters are on scales that mean the same for every method and setup:

- `epsilon`: the trust region ε in nats, as it is;
- `threshold`: V₋ between the discounted return of the baseline policy (0) and of the reference
  policy (1) of the setup's anchors;
- `std_floor_ratio`: SPDL's floor on the standard deviations, in multiples of the target's;
- any option of the curriculum under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pacebench import curricula, envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.study.models import CurriculumEntry, Range, SetupChange, Study

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from pacebench.harness.study.specs import Cell

Space = dict[str, "Range | tuple[Any, ...]"]
Point = dict[str, Any]

STD_FLOOR_RATIO = "std_floor_ratio"

# The same for every self-paced method: the closed form's own limit on ε is ¼.
EPSILON = Range(low=0.005, high=0.24, log=True)
THRESHOLD = Range(low=0.05, high=0.9)

# Optuna's samplers that propose the same under its versions 4 and 5, whose defaults differ: every
# option is given by name. Multivariate TPE is not among them, because its kernels changed.
SAMPLERS: dict[str, dict[str, Any]] = {
    "TPESampler": {
        "n_startup_trials": 10,
        "n_ei_candidates": 24,
        "multivariate": False,
        "group": False,
        "constant_liar": False,
    },
    "RandomSampler": {},
    "CmaEsSampler": {
        "n_startup_trials": 1,
        "consider_pruned_trials": False,
        "use_separable_cma": False,
        "with_margin": False,
        "lr_adapt": False,
    },
    "NSGAIISampler": {
        "population_size": 50,
        "mutation_prob": None,
        "crossover_prob": 0.9,
        "swapping_prob": 0.5,
    },
}
# By the study file's name of a pruner: Optuna's, and its options; its steps are tuning seeds.
PRUNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("NopPruner", {}),
    "wilcoxon": ("WilcoxonPruner", {"p_threshold": 0.1, "n_startup_steps": 4}),
}

# A value closer to an end of its range than this share of the range is at the boundary.
BOUNDARY_SHARE = 0.05


def known_parameters(name: str) -> list[str]:
    """Returns what can be searched of a curriculum."""
    kind = curricula.get(name)
    found = [*_paced(kind), *kind.options()]
    return [*found, STD_FLOOR_RATIO] if "std_floor" in found else found


def space_of(study: Study, entry: CurriculumEntry, setup: str) -> Space:
    """Returns the declared space of a method, or the default one of its kind.

    Raises:
        UserError: The method has nothing to search and none was declared.
    """
    assert study.tuning is not None
    declared = study.tuning.space.get(entry.shown)
    if declared:
        return dict(declared)
    kind = curricula.get(entry.name)
    space: Space = {**_paced(kind)}
    space |= {name: Range(**searched._asdict()) for name, searched in kind.search.items()}
    if "std_floor" in kind.options():
        space[STD_FLOOR_RATIO] = Range(low=1.0, high=30.0, log=True)
    if "updates" in kind.options():
        updates = policy_updates(study, entry, setup)
        space["updates"] = Range(low=max(1, updates // 20), high=updates, log=True, integer=True)
    if not space:
        raise UserError(
            f"'{entry.shown}' has nothing to tune; remove it from tuning.curricula or declare "
            f"tuning.space.{entry.shown}."
        )
    return space


def _paced(kind: type[curricula.Curriculum]) -> dict[str, Range]:
    """Returns the parameters of pacing that a curriculum has."""
    said = kind.capabilities
    found = {"epsilon": EPSILON} if said.has_budget else {}
    return {**found, "threshold": THRESHOLD} if said.self_paced else found


def policy_updates(study: Study, entry: CurriculumEntry, setup: str) -> int:
    """Returns how often the policy is updated in a training run of the tuning budget."""
    cell = resolve_cell(tuning_study(study), entry, setup)
    learner = learners.get(cell.learner.name)
    rollout = learner.rollout_steps(learner.Params.model_validate(cell.learner.params))
    return max(2, -(-cell.budget // rollout))


def tuning_study(study: Study) -> Study:
    """Returns the study with the budget that its trials are given."""
    assert study.tuning is not None
    budget = study.tuning.budget or study.budget
    evaluation = study.evaluation
    if evaluation.steps is not None:
        inside = tuple(step for step in evaluation.steps if step <= budget)
        evaluation = evaluation.model_copy(update={"steps": inside or (budget,)})
    return study.model_copy(update={"budget": budget, "evaluation": evaluation})


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Returns the space as Optuna states it."""
    from optuna import distributions as optuna_kinds

    found: dict[str, BaseDistribution] = {}
    for name, part in space.items():
        if not isinstance(part, Range):
            found[name] = optuna_kinds.CategoricalDistribution(list(part))
        elif part.integer:
            found[name] = optuna_kinds.IntDistribution(int(part.low), int(part.high), log=part.log)
        else:
            found[name] = optuna_kinds.FloatDistribution(part.low, part.high, log=part.log)
    return found


def change_for(point: Mapping[str, Any], setup: str) -> SetupChange:
    """Turns a point of the search into parameters for one setup."""
    options = dict(point)
    epsilon = options.pop("epsilon", None)
    normalised = options.pop("threshold", None)
    ratio = options.pop(STD_FLOOR_RATIO, None)
    if ratio is not None:
        options |= _std_floor(float(ratio), setup)
    return SetupChange(
        epsilon=epsilon,
        threshold=None if normalised is None else threshold_of(setup, normalised),
        options=options,
    )


def apply(entry: CurriculumEntry, setup: str, point: Mapping[str, Any]) -> CurriculumEntry:
    """Returns the method with a point of the search in place of its own parameters."""
    merged = change_for(point, setup).over(entry.on(setup))
    return entry.model_copy(update={"per_setup": {**entry.per_setup, setup: merged}})


def place_of(cell: Cell, space: Space) -> dict[str, float]:
    """Returns a configuration as a point of a search space, without what is no number there."""
    own = cell.curriculum
    low, high = _ends(cell.setup)
    known = {**own.options, "epsilon": own.epsilon}
    if own.threshold is not None:
        known["threshold"] = (own.threshold - low) / (high - low)
    found = {}
    for name in space:
        value = known.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return found


def threshold_of(setup: str, normalised: float) -> float:
    """Returns V₋ on the discounted return from its place between baseline and reference."""
    low, high = _ends(setup)
    return low + normalised * (high - low)


def _ends(setup: str) -> tuple[float, float]:
    """Returns the discounted returns that are 0 and 1 on the scale of V₋."""
    anchors = envs.setup(setup).anchors
    ends = () if anchors is None else (anchors.baseline, anchors.reference)
    known = [end.discounted_return for end in ends if end.discounted_return is not None]
    if len(known) < 2:
        raise UserError(
            f"setup '{setup}' has no anchors of the discounted return, so V₋ has no normalised "
            f"scale; run pacebench anchors {setup} --write, or search other parameters."
        )
    low, high = known
    if low == high:
        raise UserError(
            f"setup '{setup}': baseline and reference have the same discounted return, so "
            "V₋ has no normalised scale; give the setup a better reference."
        )
    return low, high


def _std_floor(ratio: float, setup: str) -> dict[str, Any]:
    """Returns SPDL's floor as a multiple of the target's standard deviations.

    It is lifted once little more than the floor itself keeps p from the target: at twice
    KL(N(μ̃, r²Σ̃)‖ψ) = d/2·(r² − 1 − ln r²).
    """
    variances = envs.setup(setup).target_variance
    square = ratio * ratio
    distance = 0.5 * len(variances) * (square - 1.0 - math.log(square))
    return {
        "std_floor": [ratio * math.sqrt(variance) for variance in variances],
        "kl_threshold": max(2.0 * distance, 1.0),
    }


def at_boundary(space: Space, point: Mapping[str, Any]) -> list[str]:
    """Returns the parameters whose value is within 5 % of their range from one of its ends."""
    flagged = []
    for name, part in space.items():
        if not isinstance(part, Range) or name not in point:
            continue
        scale = math.log if part.log else float
        low, high, value = scale(part.low), scale(part.high), scale(float(point[name]))
        share = (value - low) / (high - low)
        if not BOUNDARY_SHARE < share < 1 - BOUNDARY_SHARE:
            flagged.append(name)
    return flagged


def sampler_names() -> list[str]:
    """Returns the samplers that can be used here."""
    missing = {"CmaEsSampler"} if find_spec("cmaes") is None else set()
    return [name for name in SAMPLERS if name not in missing]
