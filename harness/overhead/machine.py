"""The state of the machine around a measurement."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import psutil

from pacebench.harness.overhead.findings import MachineState, StoredRecord
from pacebench.harness.store.provenance import provenance


def pin(cpu: int) -> None:
    """Keeps this process on the `cpu`-th of the processors it may use, where that is possible."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[cpu % len(allowed)]})


def limit_memory(share: float = 0.5) -> None:
    """Makes an allocation beyond a share of the machine's memory fail instead of the machine."""
    total = int(psutil.virtual_memory().total * share)
    resource.setrlimit(resource.RLIMIT_AS, (total, resource.RLIM_INFINITY))


class Activity(StoredRecord):
    """What else the machine did while something was measured.

    Attributes:
        load: The load averages at the beginning.
        busy: Share of all processors' time that was not idle.
        steal: Share that a hypervisor gave to others.
        preemptions: How often this process had to make way for another.
    """

    load: tuple[float, ...] | None = None
    busy: float | None = None
    steal: float = 0.0
    preemptions: int = 0


class Watch:
    """Notes what the machine does from here on."""

    def __init__(self) -> None:
        self._load = _load()
        self._begun = psutil.cpu_times()
        self._switches = _switches()

    def report(self) -> Activity:
        """Returns what it did since then."""
        now = psutil.cpu_times()
        # Linux counts the time of guests as the user's already.
        names = [name for name in now._fields if not name.startswith("guest")]
        spent = {name: getattr(now, name) - getattr(self._begun, name) for name in names}
        total = sum(spent.values()) or 1.0
        return Activity(
            load=self._load,
            busy=round(1.0 - (spent["idle"] + spent.get("iowait", 0.0)) / total, 4),
            steal=round(spent.get("steal", 0.0) / total, 4),
            preemptions=_switches() - self._switches,
        )


def machine_state() -> MachineState:
    """Returns processor, governor, clock, load, versions and threads, as far as they are known."""
    boost = _read("/sys/devices/system/cpu/cpufreq/boost")
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return MachineState(
        **provenance(),
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not exposed",
        boost={"0": "off", "1": "on"}.get(boost, "not exposed"),
        virtual="hypervisor" in _read("/proc/cpuinfo"),
        load=_load(),
        blas=f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
    )


def _load() -> tuple[float, ...]:
    return tuple(round(x, 2) for x in psutil.getloadavg())


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
