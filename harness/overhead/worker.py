"""The process that measures: one job on standard input, one JSON line per finding on the output.

    python -m pacebench.harness.overhead.worker < job.json

It imports the curricula and NumPy and nothing else of weight, so that starting a fresh process for
every block is cheap.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from pacebench.harness.overhead import machine
from pacebench.harness.overhead.instances import Instance, load_stream, synthetic
from pacebench.harness.overhead.quality import judge, problem_of, staying
from pacebench.harness.overhead.timing import QUICK, Entry, Replay, passes_for, time_block


def instances_of(source: dict[str, Any], indices: list[int]) -> list[Instance]:
    """Builds the instances of a job, the same in every process."""
    if source["kind"] == "recorded":
        stream = load_stream(Path(source["path"]))
        return [stream.instances[i] for i in indices]
    return [
        synthetic(source["d"], source["size"], i, seed=source["seed"], epsilon=source["epsilon"])
        for i in indices
    ]


def probe(job: dict[str, Any]) -> None:
    """Says how much processor time each curriculum takes on a few instances, one line each.

    A line goes out before every update, so that the parent knows which one it waits for.
    """
    instances = instances_of(job["source"], job["indices"])
    for name in job["curricula"]:
        for number, instance in enumerate(instances):
            _say({"curriculum": name, "number": number, "starting": True})
            try:
                curriculum = instance.make(name)
                started = process_time()
                curriculum.update(instance.contexts, instance.values)
                seconds = process_time() - started
            except MemoryError:
                _say({"curriculum": name, "number": number, "failed": "memory"})
                break
            except Exception:  # noqa: BLE001 - an outside curriculum may raise anything
                _say({"curriculum": name, "number": number, "failed": _last_line()})
                break
            _say({"curriculum": name, "number": number, "seconds": seconds})


def blocks(job: dict[str, Any]) -> None:
    """Times one block of each of several cells, one line per cell."""
    for cell in job["cells"]:
        _say(_block(cell) | {"name": cell["name"], "processor": job["pinned"]})


def _block(job: dict[str, Any]) -> dict[str, Any]:
    """Times one block of one cell and judges the answers asked for."""
    instances = instances_of(job["source"], job["indices"])
    entries = [Entry(**entry) for entry in job["entries"]]
    found: dict[str, Any] = {"times": {}, "answers": {}, "failed": {}}
    found["staying"] = {str(i): staying(instances[i]).to_dict() for i in job["judge"]}
    guesses: dict[str, float] = job["seconds"]
    replays: dict[str, Replay] = {}
    for entry in entries:
        replay = Replay(entry, instances)
        wanted = [] if entry.is_twin else job["judge"]
        # By count: one for what takes long anyway, more for what is over before caches are warm.
        untimed = job["warm_up"] if guesses[entry.curriculum] < QUICK else 1
        try:
            found["answers"][entry.label] = _warm_up(replay, instances, wanted, untimed)
        except Exception:  # noqa: BLE001 - an outside curriculum may raise anything
            found["failed"][entry.label] = _last_line()
        else:
            replays[entry.label] = replay
    passes = {
        label: passes_for(guesses[replay.entry.curriculum], len(instances), job["share"])
        for label, replay in replays.items()
    }
    rng = np.random.default_rng(np.random.SeedSequence(job["order"]))
    watch = machine.Watch()
    quick = [label for label, r in replays.items() if guesses[r.entry.curriculum] < QUICK]
    times = time_block(replays, passes, rng, quick)
    found["machine"] = watch.report()
    for label, taken in times.items():
        found["times"][label] = {
            "wall": [_digits(x) for x in taken.wall],
            "cpu": [_digits(x) for x in taken.cpu],
            "passes": taken.passes,
        }
    return found


def _warm_up(
    replay: Replay, instances: list[Instance], wanted: list[int], at_least: int
) -> dict[str, Any]:
    """Makes the first updates of an entry and returns the answers that are to be judged."""
    answers: dict[str, Any] = {}
    judged = problem_of(replay.entry.curriculum) is not None
    for position in [i for i in range(len(instances)) if judged and i in wanted]:
        record, new = replay.solve(position)
        answers[str(position)] = judge(instances[position], record, new).to_dict()
    for n in range(len(answers), at_least):
        replay.solve(n % len(instances))
    return answers


def _digits(x: float) -> float:
    return float(f"{x:.5g}")


def _last_line() -> str:
    return traceback.format_exc(limit=0).strip().splitlines()[-1]


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Does one job."""
    job = json.load(sys.stdin)
    job["pinned"] = machine.pin(job["cpu"])
    machine.limit_memory()
    _say({"ready": True})
    {"probe": probe, "blocks": blocks}[job["mode"]](job)


if __name__ == "__main__":
    main()
