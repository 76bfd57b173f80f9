"""From what the command line names to one table of scores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.errors import UserError
from pacebench.harness.store.foreign import dictionaries as dicts
from pacebench.harness.store.foreign.run_logs import is_run_log, run_curve
from pacebench.harness.store.foreign.scores import ForeignRow, ForeignScores, collected
from pacebench.harness.store.foreign.tables import frame_rows, table_rows
from pacebench.harness.store.study_files import MANIFEST

_TABLES = (".csv", ".tsv", ".parquet")


def read_scores(
    sources: Sequence[str | Path], *, metric: str | None = None, last: int | None = None
) -> ForeignScores:
    """Reads scores that were not made here.

    Args:
        sources: Tables (`.csv`, `.tsv`, `.parquet`), dictionaries (`.json`, `.npz`), folders laid
            out as METHOD/TASK/SEED, or the logs of runs as METHOD=PATH, METHOD/TASK=PATH or
            METHOD/TASK/SEED=PATH.
        metric: The metric of marl-eval, or the tag of event files, that is the score.
        last: Training episodes of a monitor file that are averaged.

    Raises:
        UserError: With the file, the place in it, and the remedy.
    """
    if not sources:
        raise UserError("name a file of scores, such as scores.csv.")
    reader = _Reader(metric, last)
    for source in map(str, sources):
        reader.read(source)
    shown = ", ".join(map(str, sources[:3])) + (", …" if len(sources) > 3 else "")
    return collected(reader.rows, shown, reader.notes, normalised=reader.normalised)


def scores_in_memory(data: pd.DataFrame | Mapping[str, Any]) -> ForeignScores:
    """Returns scores that a program has: a table, or a dictionary of rliable's.

    Raises:
        UserError: They have another shape.
    """
    if isinstance(data, pd.DataFrame):
        return collected(frame_rows(data), "the table")
    name = Path("the dictionary")
    plain = {method: np.asarray(scores) for method, scores in data.items()}
    return collected(dicts.array_rows(plain, name), str(name), normalised=True)


class _Reader:
    """Collects the scores of several sources."""

    def __init__(self, metric: str | None, last: int | None) -> None:
        self.metric, self.last = metric, last
        self.rows: list[ForeignRow] = []
        self.notes: list[str] = []
        self.normalised = True
        # Runs so far of each method and task whose logs were named without a seed.
        self._runs: Counter[tuple[str, str]] = Counter()

    def read(self, source: str) -> None:
        """Adds the scores of one source."""
        name, _, path_text = source.partition("=")
        path = Path(source)
        if path_text and not os.path.lexists(source):
            self._named(name, Path(path_text))
        elif (path / MANIFEST).exists():
            raise UserError(f"{path}: is a study's results; `pacebench report {path}`.")
        elif path.is_dir():
            self._folder(path, ())
        else:
            self.rows += self._file(path)
            return
        self.normalised = False

    def _file(self, path: Path) -> Iterator[ForeignRow]:
        """Returns the scores of a file of many runs."""
        if not path.exists():
            raise UserError(f"{path}: there is no such file.")
        if path.suffix in (".pkl", ".pickle", ".p"):
            raise UserError(
                f"{path}: is a pickle, and reading one can run any code; write the dictionary as "
                "JSON, or with numpy.savez."
            )
        if is_run_log(path):
            raise UserError(f"{path}: is the log of one run; name its method: METHOD={path}.")
        if path.suffix == ".npz":
            return dicts.array_rows(dicts.read_arrays(path), path)
        if path.suffix == ".json":
            data = dicts.read_json(path)
            if not dicts.is_marl_eval(data):
                return dicts.rliable_rows(data, path)
            self.normalised = False
            self.notes.append(
                "Scores are those of each run's last step; marl-eval's absolute metrics, of the "
                "best policy that training came across, are not used."
            )
            return dicts.marl_eval_rows(data, path, self.metric)
        if path.suffix in _TABLES:
            self.normalised = False
            return table_rows(path)
        raise UserError(
            f"{path}: is no file of scores that we know by its name; give .csv, .tsv, .parquet, "
            ".json or .npz."
        )

    def _named(self, name: str, path: Path) -> None:
        """Adds METHOD[/TASK[/SEED]]=PATH."""
        parts = tuple(part.strip() for part in name.split("/"))
        if not all(parts) or len(parts) > 3:
            raise UserError(
                f"{name}={path}: name a run as METHOD, METHOD/TASK or METHOD/TASK/SEED."
            )
        if not path.exists():
            raise UserError(f"{path}: there is no such file.")
        if path.is_dir() and not _logs(path):
            self._folder(path, parts)
        else:
            self._run(_logs(path) if path.is_dir() else [path], parts)

    def _folder(self, root: Path, parts: tuple[str, ...]) -> None:
        """Adds a folder of runs; the names of its folders are what is not given of a run's name."""
        runs = sorted({Path(home) for home, _, names in os.walk(root) if _any_log(names)})
        if not runs:
            raise UserError(
                f"{root}: holds no logs of runs (evaluations.npz, monitor.csv or event files) in "
                "folders METHOD/TASK/SEED."
            )
        lacking = ("METHOD", "TASK", "SEED")[len(parts) :]
        for folder in runs:
            inner = folder.relative_to(root).parts
            if len(inner) != len(lacking):
                raise UserError(
                    f"{folder}: is not where {'/'.join(lacking)} of {root} would be; lay the runs "
                    "out like that, or name each one: METHOD/TASK/SEED=PATH."
                )
            self._run(_logs(folder), (*parts, *inner))

    def _run(self, files: list[Path], parts: tuple[str, ...]) -> None:
        """Adds one run."""
        curve = run_curve(files, self.metric, self.last)
        self.notes.append(curve.note)
        method, task, seed = (*parts, "", "")[:3]
        task = task or curve.task or "task"
        if not seed:
            seed = str(self._runs[method, task])
            self._runs[method, task] += 1
        for step, score, success in curve.points:
            where = f"{files[0]}, step {step}"
            self.rows.append(ForeignRow(method, task, seed, step, score, success, where=where))


def _any_log(names: Sequence[str]) -> bool:
    return any(is_run_log(Path(name)) for name in names)


def _logs(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and is_run_log(path))
