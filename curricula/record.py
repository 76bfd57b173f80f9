"""What one update did; the reports on KL, convergence and overhead are made from these records."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """One curriculum update, in plain numbers.

    Attributes:
        step: What kind of step was taken: `performance`, `convergence`, `hold`, or `schedule` for
            a curriculum that ignores the values.
        case: Which case of the step applied; for steps in two blocks `mean/theta`.
        epsilon: The KL budget ε.
        threshold: The value threshold V₋, None where the curriculum has none.
        mean_value: V̄, the mean of the values given.
        slack: V̄ − V₋, None without a threshold.
        predicted_value: The value the curriculum's own model predicts after the step, None where
            there is no such model.
        kl_step: The exact KL(p_new‖p_old).
        kl_target_forward: The exact KL(ψ‖p_new); infinite for a distribution of bounded support.
        kl_target_reverse: The exact KL(p_new‖ψ).
        ess: Effective sample size (Σw)²/Σw² of the importance weights w = p_new/p_old on the
            contexts given; it equals their number when nothing moved.
        iterations: Iterations of the numerical solver, 0 for a closed form.
        accepted: Whether the proposed distribution is in use; False leaves the old one in place.
        seconds: Wall time of the update.
    """

    step: str
    case: str
    epsilon: float
    threshold: float | None
    mean_value: float
    slack: float | None
    predicted_value: float | None
    kl_step: float
    kl_target_forward: float
    kl_target_reverse: float
    ess: float
    iterations: int
    accepted: bool
    seconds: float

    def to_dict(self) -> dict[str, str | float | int | bool | None]:
        """Returns the fields as JSON-able scalars; what is not finite becomes None."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        return values
