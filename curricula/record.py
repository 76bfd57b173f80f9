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
        epsilon: The KL budget ε, None for a curriculum without one.
        threshold: The value threshold V₋, None where the curriculum has none.
        mean_value: V̄, the mean of the values given, None where none were.
        slack: V̄ − V₋, None without a threshold.
        predicted_value: The value the curriculum's own model predicts after the step, None where
            there is no such model.
        iterations: Iterations of the numerical solver, 0 for a closed form.
        accepted: Whether the proposed distribution is in use; False leaves the old one in place.
        seconds: Wall time of the method's own step.
        seconds_recording: Wall time of everything else: checking the input and what follows here.
        kl_step: KL(p_new‖p_old). This and what follows is None where the distribution has no
            density, and for updates that `record_every` leaves out.
        kl_target_forward: KL(ψ‖p_new); infinite for a distribution of bounded support.
        kl_target_reverse: KL(p_new‖ψ).
        kl_estimated: Whether a KL was estimated from samples; otherwise all are exact.
        ess: Effective sample size (Σw)²/Σw² of the importance weights w = p_new/p_old on the
            contexts given; it equals their number when nothing moved.
        sliced_wasserstein: The sliced 1-Wasserstein distance of p_new to samples of ψ, in widths of
            the context bounds; without bounds in standard deviations of the initial distribution.
    """

    step: str
    case: str
    epsilon: float | None
    threshold: float | None
    mean_value: float | None
    slack: float | None
    predicted_value: float | None
    iterations: int
    accepted: bool
    seconds: float
    seconds_recording: float
    kl_step: float | None = None
    kl_target_forward: float | None = None
    kl_target_reverse: float | None = None
    kl_estimated: bool | None = None
    ess: float | None = None
    sliced_wasserstein: float | None = None

    def to_dict(self) -> dict[str, str | float | int | bool | None]:
        """Returns the fields as JSON-able scalars; what is not finite becomes None."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        return values
