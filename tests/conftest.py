"""Settings shared by all tests."""

from __future__ import annotations

import os

# Two workers on two cores: a BLAS or torch that starts a thread per core would make them fight.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Parallel workers are told a width of 80 columns, at which tables are folded.
os.environ["COLUMNS"] = "160"
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

from hypothesis import HealthCheck, settings  # noqa: E402

# Derandomised by default: a red run on one machine must be red on the next. `thorough` searches.
_common = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "print_blob": True,
}
settings.register_profile("default", max_examples=30, derandomize=True, **_common)
settings.register_profile("thorough", max_examples=500, **_common)
settings.load_profile(os.environ.get("PACEBENCH_HYPOTHESIS", "default"))
