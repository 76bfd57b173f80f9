"""What to practise next: context distributions and their update rules, in NumPy and SciPy alone.

    target = curricula.Gaussian(mean, variances)
    c = curricula.make("spgl", target=target, initial=initial, epsilon=0.05, threshold=5.0)
    contexts = c.sample(n, rng)
    record = c.update(contexts, values)

`names()` lists what there is; `register` adds yours.
"""

from __future__ import annotations

if __name__ != "pacebench.curricula":
    raise ImportError("pacebench.curricula is its name; this would be a second copy of it")

from pacebench.curricula.base import Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.distributions import Distribution, Mixture, UniformBox, moments
from pacebench.curricula.episodes import Episodes
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.family import ScaledFamily
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.options import Option, SearchRange
from pacebench.curricula.record import UpdateRecord
from pacebench.curricula.registry import get, make, names, origin, register, unregister
from pacebench.curricula.selfpaced import SelfPaced
from pacebench.registry import DuplicateNameError, UnknownNameError

# Importing registers, and in this order, which `names()` and every table keep.
from pacebench.curricula.controls import Control, Default, Initial, Linear, UniformControl  # isort: skip
from pacebench.curricula.spdl import Spdl  # isort: skip
from pacebench.curricula.spdl_sqp import SpdlSqp  # isort: skip
from pacebench.curricula.spgl import Spgl, taylor_bound  # isort: skip
from pacebench.curricula.shared import SpglShared  # isort: skip
from pacebench.curricula.exact import SpglExact, SpglExactKl, SpglJoint  # isort: skip
from pacebench.curricula.spgl_mixture import SpglMixture  # isort: skip
from pacebench.curricula.acl import Acl, GridDistribution  # isort: skip
from pacebench.curricula.plr import Plr, ReplayDistribution  # isort: skip
from pacebench.curricula.currot import Currot, ParticleDistribution  # isort: skip
from pacebench.curricula.alp_gmm import AlpGmm, ClippedMixture  # isort: skip
from pacebench.curricula.procurl import PointDistribution, Procurl  # isort: skip
from pacebench.curricula.goal_gan import GoalGan  # isort: skip

__all__ = [
    "Acl",
    "AlpGmm",
    "Capabilities",
    "ClippedMixture",
    "Control",
    "Curriculum",
    "CurriculumError",
    "Currot",
    "Default",
    "Distribution",
    "DuplicateNameError",
    "Episodes",
    "Gaussian",
    "GoalGan",
    "GridDistribution",
    "Initial",
    "Linear",
    "Mixture",
    "Option",
    "ParticleDistribution",
    "Plr",
    "PointDistribution",
    "Procurl",
    "Proposal",
    "ReplayDistribution",
    "ScaledFamily",
    "SearchRange",
    "SelfPaced",
    "Spdl",
    "SpdlSqp",
    "Spgl",
    "SpglExact",
    "SpglExactKl",
    "SpglJoint",
    "SpglMixture",
    "SpglShared",
    "UniformBox",
    "UniformControl",
    "UnknownNameError",
    "UpdateRecord",
    "get",
    "make",
    "moments",
    "names",
    "origin",
    "register",
    "taylor_bound",
    "unregister",
]
