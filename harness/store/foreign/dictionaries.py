"""Dictionaries of scores: rliable's, by method, and marl-eval's, by environment, task and method.

A dictionary of rliable's holds final scores on one scale: `{method: runs × tasks}`, as JSON or as
arrays in an `.npz` file, or `{method: {task: runs}}`. Pickles are never read.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.store.foreign.scores import ForeignRow, content, number, whole

ABSOLUTE = "absolute_metrics"
# Which of several metrics of a run is its score, the first that is there.
_METRICS = ("return", "mean_episode_return", "episode_return", "mean_return")


def read_json(path: Path) -> Mapping[str, Any]:
    """Returns what a JSON file says.

    Raises:
        UserError: It holds no dictionary.
    """
    try:
        data = json.loads(content(path))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is no JSON; give a dictionary of scores.") from None
    if not isinstance(data, dict) or not data:
        raise UserError(f"{path}: is no dictionary of scores; its keys are methods.")
    return data


def is_marl_eval(data: Mapping[str, Any]) -> bool:
    """Says whether a dictionary goes deeper than rliable's."""
    inner = [task for task in data.values() if isinstance(task, dict)]
    return any(isinstance(runs, dict) for task in inner for runs in task.values())


def rliable_rows(data: Mapping[str, Any], path: Path) -> Iterator[ForeignRow]:
    """Yields the scores of a dictionary of rliable's.

    Raises:
        UserError: It has another shape.
    """
    matrices = [v for v in data.values() if isinstance(v, list) and v and isinstance(v[0], list)]
    if len({len(matrix[0]) for matrix in matrices}) > 1:
        raise UserError(
            f"{path}: the methods have different numbers of tasks; give every method the same, or "
            "{method: {task: [scores]}}."
        )
    for method, values in data.items():
        where = f"{path}, '{method}'"
        if isinstance(values, dict):
            tasks = values
        elif isinstance(values, list) and values and all(isinstance(row, list) for row in values):
            lengths = {len(row) for row in values}
            if len(lengths) > 1 or lengths == {0}:
                raise UserError(f"{where}: is ragged; give runs as rows and tasks as columns.")
            tasks = {f"task-{j + 1}": [row[j] for row in values] for j in range(lengths.pop())}
        else:
            raise UserError(f"{where}: is no matrix of runs and tasks, and no mapping of tasks.")
        for task, runs in tasks.items():
            if not isinstance(runs, list) or not runs:
                raise UserError(f"{where}, '{task}': is no list of scores, one per run.")
            for seed, score in enumerate(runs):
                at = f"{where}, '{task}', run {seed}"
                yield ForeignRow(method, task, str(seed), 0, number(score, at, "score"), where=at)


def read_arrays(path: Path) -> dict[str, Any]:
    """Returns the arrays of an `.npz` file.

    Raises:
        UserError: It is none, or holds pickled objects.
    """
    try:
        with np.load(io.BytesIO(content(path)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        pickled = " and would have to be unpickled, which can run code" * ("pickle" in str(error))
        raise UserError(f"{path}: is no file of plain arrays{pickled}.") from None


def array_rows(arrays: Mapping[str, Any], path: Path) -> Iterator[ForeignRow]:
    """Yields the scores of rliable's arrays, runs × tasks by method.

    Raises:
        UserError: An array has another shape, or does not hold numbers.
    """
    for name, array in arrays.items():
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise UserError(
                f"{path}, '{name}': is no matrix of numbers; give runs × tasks by method, or the "
                "evaluations.npz of Stable-Baselines3 as METHOD=FILE."
            )
    yield from rliable_rows({name: array.tolist() for name, array in arrays.items()}, path)


def marl_eval_rows(data: Mapping[str, Any], path: Path, metric: str | None) -> Iterator[ForeignRow]:
    """Yields the scores of a dictionary of marl-eval's.

    Args:
        data: Environment → task → method → run → step → metric → episodes.
        path: Where it is from.
        metric: The metric that is the score; by default the return.

    Raises:
        UserError: It has another shape, or no such metric.
    """
    for environment, tasks in _mapping(data, f"{path}").items():
        for task, methods in _mapping(tasks, f"{path}, '{environment}'").items():
            name = task if len(data) == 1 else f"{environment}/{task}"
            for method, runs in _mapping(methods, f"{path}, '{name}'").items():
                for seed, steps in _mapping(runs, f"{path}, '{name}', '{method}'").items():
                    where = f"{path}, '{name}', '{method}', '{seed}'"
                    points = {k: v for k, v in _mapping(steps, where).items() if k != ABSOLUTE}
                    if not points:
                        raise UserError(f"{where}: has no step; give step_0, step_1, ….")
                    for key, point in points.items():
                        at = f"{where}, '{key}'"
                        found = _mapping(point, at)
                        step = whole(found.get("step_count"), at, "step_count")
                        score = _mean(found, metric, at)
                        plain = seed.removeprefix("seed_").removeprefix("run_")
                        yield ForeignRow(method, name, plain, step, score, where=at)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise UserError(
            f"{where}: is no mapping; marl-eval nests environment, task, method, run and step."
        )
    return value


def _mean(point: Mapping[str, Any], metric: str | None, where: str) -> float:
    there = [name for name in point if name != "step_count"]
    wanted = (metric,) if metric else (*_METRICS, *(there if len(there) == 1 else ()))
    name = next((name for name in wanted if name in there), None)
    if name is None:
        raise UserError(
            f"{where}: has no metric '{metric or _METRICS[0]}' (it has {', '.join(there) or 'none'}"
            "); name one with --metric."
        )
    values = point[name] if isinstance(point[name], list) else [point[name]]
    numbers = [number(value, where, name) for value in values]
    return sum(numbers) / len(numbers) if numbers else math.nan
