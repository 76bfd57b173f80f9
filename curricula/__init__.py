"""What to practise next: context distributions and their update rules, in NumPy and SciPy alone.

target = curricula.Gaussian(mean, variances)
c = curricula.make("spgl", target=target, initial=initial, epsilon=0.05, threshold=5.0)
contexts = c.sample(n, rng)
record = c.update(contexts, values)
"""

from curricula._registry import DuplicateNameError, UnknownNameError
from curricula.base import Curriculum, Option, Proposal
from curricula.capabilities import Capabilities
from curricula.errors import CurriculumError
from curricula.family import ScaledFamily
from curricula.gaussian import Gaussian
from curricula.record import UpdateRecord
from curricula.registry import get, make, names, origin, register, unregister
from curricula.selfpaced import SelfPaced
from curricula.uniform import Uniform

# Importing registers, and in this order, which `names()` and every table keep.
from curricula.controls import Control, Default, Initial, Linear, UniformControl  # isort: skip
from curricula.spdl import Spdl  # isort: skip
from curricula.spdl_sqp import SpdlSqp  # isort: skip
from curricula.spgl import Spgl, taylor_bound  # isort: skip
from curricula.shared import SpglShared  # isort: skip
from curricula.exact import SpglExact, SpglExactKl, SpglJoint  # isort: skip

__all__ = [
    "Capabilities",
    "Control",
    "Curriculum",
    "CurriculumError",
    "Default",
    "DuplicateNameError",
    "Gaussian",
    "Initial",
    "Linear",
    "Option",
    "Proposal",
    "ScaledFamily",
    "SelfPaced",
    "Spdl",
    "SpdlSqp",
    "Spgl",
    "SpglExact",
    "SpglExactKl",
    "SpglJoint",
    "SpglShared",
    "Uniform",
    "UniformControl",
    "UnknownNameError",
    "UpdateRecord",
    "get",
    "make",
    "names",
    "origin",
    "register",
    "taylor_bound",
    "unregister",
]
