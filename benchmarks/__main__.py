"""Every benchmark, each in a process of its own, in one table: docs/performance.md.

python -m benchmarks                    # all, about 35 minutes on an idle core
python -m benchmarks --only scale       # one of them again, in the place of its rows
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import FILE, MISSED
from pacebench.harness import threads
from pacebench.harness.store.provenance import hardware, package_versions

PAGE = Path("docs/performance.md")
# In the order of the table; each runs with its defaults, which are short.
NAMES = (
    *("learners", "peer", "sac_prototype", "evaluation", "field", "environments", "adapter"),
    *("curricula", "published_spdl", "statistics", "cost_of_verdicts", "scale", "scale --load"),
    *("scale --light", "runner", "startup"),
)
LIBRARIES = ("numpy", "scipy", "torch", "pandas", "pyarrow", "gymnasium", "mujoco")
LIBRARIES += ("stable-baselines3", "rliable", "jax")
HEAD = ("benchmark", "first / second", "measured", "ratio or share", "wanted", "met")


def rows_of(name: str) -> list[list[str]]:
    """Runs one benchmark and returns its rows; one that breaks has a row that says so."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "rows"
        environment = {**threads.environment(), FILE: str(kept)}
        started = time.perf_counter()
        command = [sys.executable, "-m", *f"benchmarks.{name}".split()]
        done = subprocess.run(command, env=environment, check=False)
        print(f"== {name}: {time.perf_counter() - started:.0f} s\n", flush=True)
        rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    if not rows or done.returncode not in (0, MISSED):
        rows.append(["", f"ended with exit code {done.returncode}", "", "", "NO"])
    return [[name, *cells] for cells in rows]


def kept_rows() -> list[list[str]]:
    """Returns the rows of the page as it is."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    table = [line[2:-2].split(" | ") for line in lines if line.startswith("| ")]
    return table[2:]


def page(rows: list[list[str]]) -> str:
    """Returns the page: the machine, and the table."""
    machine = hardware()
    versions = ", ".join(f"{k} {v}" for k, v in package_versions(LIBRARIES).items())
    lines = [
        "# Performance",
        "",
        "Written by `make benchmark`. Both sides of every ratio were measured in the same process "
        "or in turns on the same machine; `python -m benchmarks --only NAME` measures one again.",
        "",
        "The ratio is the first over the second, in the order of the row's words: of speeds where "
        "the row counts steps/s, of times elsewhere. A share is of the time that the row names, "
        "0.05 being 5 %. A limit is met at a ratio of 1 or less. Rows without anything wanted are "
        "for information; `benchmarks/NAME.py` begins with how it measures.",
        "",
        f"Last measured on {datetime.date.today().isoformat()}: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"{machine['kernels']} kernels of OpenBLAS; one thread for each benchmark. {versions}.",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *rows)),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the table; exits with 1 where something that is wanted is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=NAMES)
    only = parser.parse_args().only
    # Both sides with the kernels made for the processor: JAX has no others.
    os.environ.pop("OPENBLAS_CORETYPE", None)
    measured = {name: rows_of(name) for name in ((only,) if only else NAMES)}
    kept = {name: [row for row in kept_rows() if row[0] == name] for name in NAMES}
    rows = [row for found in (kept | measured).values() for row in found]
    text = page(rows)
    print(text)
    PAGE.write_text(text)
    sys.exit(1 if any(cells[-1] == "NO" for cells in rows) else 0)


if __name__ == "__main__":
    main()
