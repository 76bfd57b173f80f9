"""What one training run leaves behind elsewhere: Stable-Baselines3's logs and event files.

A run's folder, or one file of it, becomes the curve of one run. Where a folder has several kinds,
evaluations come before event files and those before monitors: training episodes are played by a
policy that explores.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.store.foreign.dictionaries import read_arrays
from pacebench.harness.store.foreign.event_files import is_event_file, read_scalars
from pacebench.harness.store.foreign.scores import content, number

EVALUATIONS, MONITOR = "evaluations.npz", "monitor.csv"
# The first of these tags that a run has is its score.
TAGS = ("eval/mean_reward", "eval/mean_ep_rew", "charts/episodic_return", "rollout/ep_rew_mean")
_SUCCESS = ("eval/success_rate", "rollout/success_rate")
TRAINING_EPISODES = 100


@dataclass(frozen=True)
class RunCurve:
    """The scores of one run.

    Attributes:
        points: Step, score and success, in the order of steps.
        note: How they were read.
        task: What the log calls the task; empty where it does not.
    """

    points: list[tuple[int, float, float]]
    note: str
    task: str = ""


def is_run_log(path: Path) -> bool:
    """Says whether a file is the log of one run."""
    return path.name == EVALUATIONS or path.name.endswith(MONITOR) or is_event_file(path)


def run_curve(paths: Sequence[Path], metric: str | None, last: int | None) -> RunCurve:
    """Returns the curve of one run from its logs.

    Args:
        paths: The files, of one kind or several.
        metric: The tag of event files that is the score.
        last: Training episodes that are averaged.

    Raises:
        UserError: A log cannot be read, or holds no score.
    """
    for path in paths:
        if path.suffix == ".npz" and metric is None:
            return _evaluations(path)
    if events := [path for path in paths if is_event_file(path)]:
        return _events(events, metric)
    if monitors := [path for path in paths if path.name.endswith(MONITOR)]:
        return _monitors(monitors, last or TRAINING_EPISODES)
    raise UserError(
        f"{paths[0]}: has no score under --metric {metric}; only event files have tags."
    )


def _evaluations(path: Path) -> RunCurve:
    arrays = read_arrays(path)
    if not {"timesteps", "results"} <= arrays.keys():
        raise UserError(
            f"{path}: has no 'timesteps' and 'results', which Stable-Baselines3's EvalCallback "
            "writes; give the scores of several runs without METHOD=."
        )
    steps, results, successes = (arrays.get(n) for n in ("timesteps", "results", "successes"))
    assert steps is not None
    assert results is not None
    count = len(steps) if steps.ndim == 1 else -1
    for name, array in (("results", results), ("successes", successes)):
        if array is None:
            continue
        if (
            array.ndim != 2
            or len(array) != count
            or not array.size
            or array.dtype.kind not in "fiub"
        ):
            raise UserError(f"{path}: '{name}' is no matrix of evaluations and episodes.")
    if count == 0 or steps.dtype.kind not in "iuf":
        raise UserError(f"{path}: holds no evaluation.")
    success = [math.nan] * count if successes is None else successes.mean(axis=1).tolist()
    points = zip(steps.astype(int).tolist(), results.mean(axis=1).tolist(), success, strict=True)
    note = "Scores are means over the episodes of each evaluation in evaluations.npz."
    return RunCurve(_ordered(points), note)


def _events(paths: Sequence[Path], metric: str | None) -> RunCurve:
    scalars = [scalar for path in sorted(paths) for scalar in read_scalars(path)]
    tags = dict.fromkeys(scalar.tag for scalar in scalars)
    tag = next((name for name in ((metric,) if metric else TAGS) if name in tags), None)
    if tag is None:
        shown = ", ".join(list(tags)[:8]) or "no scalar"
        raise UserError(
            f"{paths[0]}: has no tag '{metric or TAGS[0]}' (it has {shown}); name "
            "one with --metric."
        )
    success = {s.step: s.value for s in scalars if s.tag in _SUCCESS}
    points = [(s.step, s.value, success.get(s.step, math.nan)) for s in scalars if s.tag == tag]
    kind = "training episodes, played by a policy that explores" if "rollout" in tag else "the log"
    return RunCurve(_ordered(points), f"Scores are the tag {tag} of event files: {kind}.")


def _ordered(points: Iterable[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Returns points by step; of two at one step, the later, which a resumed run wrote."""
    found = {step: (step, score, success) for step, score, success in points}
    return [found[step] for step in sorted(found)]


def _monitors(paths: Sequence[Path], last: int) -> RunCurve:
    """Returns the mean of the latest training episodes after each episode, of all copies."""
    episodes: list[tuple[float, int, float, float]] = []
    task = ""
    for path in paths:
        head, _, rest = content(path).decode(errors="replace").partition("\n")
        try:
            said = json.loads(head.removeprefix("#")) if head.startswith("#") else None
            task = str(said.get("env_id") or "")  # type: ignore[union-attr]
        except (ValueError, AttributeError, RecursionError):
            raise UserError(
                f"{path}: is no monitor file of Stable-Baselines3: its first line is no comment "
                "in JSON."
            ) from None
        reader = csv.DictReader(io.StringIO(rest))
        if not {"r", "l", "t"} <= set(reader.fieldnames or ()):
            raise UserError(f"{path}: is no monitor file: it has no columns r, l and t.")
        for row in reader:
            at = f"{path}, line {reader.line_num + 1}"
            values = [number(row[name], at, name) for name in ("t", "l", "r")]
            if not all(map(math.isfinite, values)):
                raise UserError(f"{at}: an episode without return, length or time.")
            success = row.get("is_success")
            flag = (
                math.nan
                if success is None
                else float(str(success).strip().lower() in ("true", "1", "1.0"))
            )
            episodes.append((values[0], int(values[1]), values[2], flag))
    if not episodes:
        raise UserError(f"{paths[0]}: holds no episode.")
    points, step = [], 0
    episodes.sort()
    for i, (_, length, _, _) in enumerate(episodes):
        step += length
        window = episodes[max(0, i + 1 - last) : i + 1]
        points.append(
            (
                step,
                sum(e[2] for e in window) / len(window),
                sum(e[3] for e in window) / len(window),
            )
        )
    note = (
        f"Scores are means of the last {last} training episodes in monitor.csv, played by a policy "
        "that explores."
    )
    return RunCurve(_ordered(points), note, task)
