"""A setup that a study file declares itself: a plain Gymnasium environment and its contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from pacebench import envs
from pacebench.harness.study.specs import Frozen, Value

Number = Annotated[float, Field(allow_inf_nan=False)]
Bounds = Annotated[tuple[Number, Number], Field(description="The lowest and the highest value.")]
# In the order of the context, or by name.
Numbers = tuple[Number, ...] | dict[str, Number]


class ContextDimension(Frozen):
    """One dimension of the context whose place in the environment has another name."""

    bounds: Bounds
    at: str = Field(description="Attribute, reset option or keyword: `model.body_mass[1]`.")


class DeclaredDistribution(Frozen):
    """A distribution over contexts: mean and variance, or a kind with its figures."""

    mean: Numbers | None = None
    variance: Numbers | None = None
    kind: str | None = Field(None, description="mixture, uniform or sampler.")
    means: tuple[tuple[Number, ...], ...] | None = None
    variances: tuple[tuple[Number, ...], ...] | None = None
    weights: tuple[Number, ...] | None = None
    lower: tuple[Number, ...] | None = None
    upper: tuple[Number, ...] | None = None
    function: str | None = Field(None, description="A sampler, as module:function.")


class DeclaredAnchors(Frozen):
    """The returns that are 0 and 1 on the normalised scale."""

    random: Number = Field(description="Return of the random policy: `pacebench anchors STUDY`.")
    reference: Number = Field(description="Return of a good policy.")


class DeclaredSetup(Frozen):
    """What `envs.from_gymnasium` takes; see there."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
    environment: str = Field(
        pattern=r"^[^\s:]+:\S+$", description="`gymnasium:ID`, or module:Class of a gymnasium.Env."
    )
    context: dict[str, Bounds | ContextDimension] = Field(
        min_length=1, description="Each dimension with its bounds."
    )
    target: DeclaredDistribution
    initial: DeclaredDistribution | None = Field(
        None, description="By default centred in the bounds."
    )
    threshold: Number = Field(description="V₋ on the discounted return.")
    apply: str = Field(
        "attributes", description="attributes, options, constructor, or module:function."
    )
    visible: bool = Field(True, description="Whether observations end with the context.")
    gamma: float = Field(0.99, gt=0, le=1)
    horizon: int | None = Field(None, ge=1, description="By default the environment's own.")
    success: dict[str, Value] | None = Field(
        None, description="info: KEY, return: NUMBER, or function: module:function."
    )
    keywords: dict[str, Value] = Field(
        default_factory=dict, description="Further keywords of its constructor."
    )
    min_return: Number | None = None
    max_return: Number | None = None
    anchors: DeclaredAnchors | None = Field(None, description="Without them, raw returns.")
    processes: int = Field(0, ge=0, le=256, description="Processes that step the copies.")

    @cached_property
    def setup(self) -> envs.Setup:
        """The setup that this declares.

        Raises:
            SetupError: Something in it does not fit together.
        """
        spec = envs.from_gymnasium(**self.model_dump(exclude={"anchors"}, exclude_none=True))
        if self.anchors is None:
            return spec
        ends = self.anchors.random, self.anchors.reference
        return replace(spec, anchors=envs.Anchors.declared(*ends, "declared in the study file"))


def split_setups(data: Any) -> Any:
    """Returns a study's data with the setups that it declares beside the names of all."""
    if not isinstance(data, Mapping) or not isinstance(data.get("setups"), list | tuple):
        return data
    declared = [entry for entry in data["setups"] if isinstance(entry, Mapping)]
    if not declared:
        return data
    names = [e.get("name", "") if isinstance(e, Mapping) else e for e in data["setups"]]
    return {**data, "setups": names, "declared": declared}
