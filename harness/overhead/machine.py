"""The state of the machine around a measurement."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any


def pin(cpu: int) -> int | None:
    """Keeps this process on the `cpu`-th of the processors it may use, where that is possible.

    Returns:
        The processor's number; None where the system offers no such thing.
    """
    if not hasattr(os, "sched_setaffinity"):  # pragma: no cover - not on Linux
        return None
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[cpu % len(allowed)]
    os.sched_setaffinity(0, {chosen})
    return chosen


def limit_memory(share: float = 0.5) -> None:
    """Makes an allocation beyond a share of the machine's memory fail instead of the machine."""
    import psutil

    total = int(psutil.virtual_memory().total * share)
    resource.setrlimit(resource.RLIMIT_AS, (total, resource.RLIM_INFINITY))


class Watch:
    """Notes what else the machine did while something was measured."""

    def __init__(self) -> None:
        self._ticks = _ticks()
        self._switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        self._load = _load()

    def report(self) -> dict[str, Any]:
        """Returns load, stolen and busy shares of processor time, and preemptions, since then."""
        now = _ticks()
        report: dict[str, Any] = {"load": self._load}
        if self._ticks and now:
            spent = [b - a for a, b in zip(self._ticks, now, strict=True)]
            total = sum(spent) or 1
            report["busy"] = round(1.0 - (spent[3] + spent[4]) / total, 4)
            report["steal"] = round(spent[7] / total, 4)
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        report["preemptions"] = switches - self._switches
        return report


def machine_state() -> dict[str, Any]:
    """Returns processor, governor, clock, load, versions and threads, as far as they are known."""
    from pacebench.harness.store.provenance import provenance

    found = provenance()
    del found["host"]
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    boost = _read("/sys/devices/system/cpu/cpufreq/boost")
    found["governor"] = governor or "not exposed"
    found["boost"] = {"0": "off", "1": "on"}.get(boost or "", "not exposed")
    found["virtual"] = "hypervisor" in (_read("/proc/cpuinfo") or "")
    found["load"] = _load()
    found["blas"] = _blas()
    return found


def _blas() -> str:
    import numpy as np

    try:
        config = np.show_config(mode="dicts")
        blas = config["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return "unknown"


def _load() -> list[float] | None:
    try:
        return [round(x, 2) for x in os.getloadavg()]
    except OSError:  # pragma: no cover - not on Linux
        return None


def _ticks() -> list[int]:
    """Returns user, nice, system, idle, iowait, irq, softirq and steal ticks, empty if unknown."""
    text = _read("/proc/stat")
    fields = text.split("\n", 1)[0].split()[1:9] if text else []
    return [int(x) for x in fields] if len(fields) == 8 else []


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
