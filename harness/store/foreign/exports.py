"""Our scores in the formats of other programs; each takes the tidy table of a study."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pacebench.harness.errors import UserError
from pacebench.harness.store.files import make_folder, storage, write_atomic
from pacebench.harness.store.foreign.dictionaries import ABSOLUTE
from pacebench.harness.store.foreign.event_files import MARK, Scalar, write_scalars

_CELL = ["method", "task", "seed"]
_FORMULA = ("=", "+", "-", "@")
# The tags under which Stable-Baselines3 logs the same.
_TAGS = {"score": "eval/mean_reward", "success": "eval/success_rate"}
_TIME = 0  # of every event and metric: when an evaluation was played is not recorded


def to_csv(table: pd.DataFrame, out: Path, study: str) -> None:
    """Writes the table as CSV, with every digit."""
    # A spreadsheet would compute a name that begins like a formula.
    names = {n: table[n].map(lambda t: f"'{t}" if t.startswith(_FORMULA) else t) for n in _CELL[:2]}
    write_atomic(out, table.assign(**names).to_csv(index=False, lineterminator="\n").encode())


def to_parquet(table: pd.DataFrame, out: Path, study: str) -> None:
    """Writes the table as Parquet."""
    write_atomic(out, table.to_parquet(index=False))


def to_rliable(table: pd.DataFrame, out: Path, study: str) -> None:
    """Writes the final scores as a dictionary of rliable's, method → runs × tasks, as JSON.

    Scores are normalised, as rliable's aggregates want them.

    Raises:
        UserError: A run has no score: the matrices would be ragged.
    """
    last = table[table["step"] == table["step"].max()]
    found = {}
    for method, mine in last.groupby("method", sort=False):
        wide = mine.pivot_table(index="seed", columns="task", values="normalised", dropna=False)
        wide = wide.reindex(columns=list(dict.fromkeys(last["task"])))
        if wide.isna().to_numpy().any():
            raise UserError(
                f"'{method}' has no score for every seed and task, and a dictionary of rliable's "
                "cannot say so; export csv instead, or finish the study."
            )
        found[str(method)] = wide.to_numpy().tolist()
    _json(found, out)


def to_marl_eval(table: pd.DataFrame, out: Path, study: str) -> None:
    """Writes the scores as a dictionary of marl-eval's, as JSON.

    Its absolute metric is the last evaluation, never the best. Runs without a score are left out,
    because there is no way to say so.
    """
    tasks: dict[str, Any] = {}
    for (method, task, seed), run in _runs(table):
        points = run.to_dict("records")
        metrics = [
            {n: [p[c]] for n, c in (("return", "score"), ("success", "success")) if _is(p[c])}
            for p in points
        ]
        steps = {
            f"step_{i}": {"step_count": int(p["step"]), **m}
            for i, (p, m) in enumerate(zip(points, metrics, strict=True))
        }
        runs = tasks.setdefault(task, {}).setdefault(method, {})
        runs[f"seed_{seed}"] = {**steps, ABSOLUTE: metrics[-1]}
    _json({study: tasks}, out)


def to_tensorboard(table: pd.DataFrame, out: Path, study: str) -> None:
    """Writes an event file per run, in folders METHOD/TASK/SEED."""
    for (method, task, seed), run in _runs(table):
        folder = make_folder(out / _slug(method) / _slug(task) / str(seed))
        points = [
            Scalar(tag, int(row["step"]), float(row[column]), float(_TIME))
            for row in run.to_dict("records")
            for column, tag in _TAGS.items()
            if _is(row[column])
        ]
        with storage(folder):
            write_scalars(folder / f"events.out.{MARK}.{_TIME}.pacebench", points)


def to_mlflow(table: pd.DataFrame, out: Path, study: str) -> None:
    """Writes MLflow's file store: an experiment with one run per run, `mlflow ui` shows it."""
    experiment = str(int(uuid.uuid5(uuid.NAMESPACE_URL, study).hex[:15], 16))
    home = make_folder(out / experiment)
    _yaml(
        home / "meta.yaml",
        artifact_location=home.resolve().as_uri(),
        creation_time=_TIME,
        experiment_id=experiment,
        last_update_time=_TIME,
        lifecycle_stage="active",
        name=study,
    )
    for (method, task, seed), run in _runs(table):
        run_id = uuid.uuid5(uuid.NAMESPACE_URL, f"{study}/{method}/{task}/{seed}").hex
        folder = make_folder(home / run_id)
        ended = str(run["status"].iloc[-1]) == "ok"
        _yaml(
            folder / "meta.yaml",
            artifact_uri=(folder / "artifacts").resolve().as_uri(),
            end_time=_TIME,
            entry_point_name="",
            experiment_id=experiment,
            lifecycle_stage="active",
            run_id=run_id,
            run_name=f"{method} {task} {seed}",
            run_uuid=run_id,
            source_name="",
            source_type=4,
            source_version="",
            start_time=_TIME,
            status=3 if ended else 4,
            tags=[],
            user_id="pacebench",
        )
        for name in ("artifacts", "metrics", "params", "tags"):
            make_folder(folder / name)
        facts = {"method": method, "task": task, "seed": str(seed)}
        facts |= {name: str(run[name].iloc[-1]) for name in ("run_id", "status", "scored_as")}
        for name, value in facts.items():
            _write(folder / "params" / name, value.encode())
        _write(folder / "tags" / "mlflow.runName", f"{method} {task} {seed}".encode())
        for column in ("score", "success", "normalised"):
            lines = [
                f"{_TIME} {value!r} {step}\n"
                for step, value in zip(run["step"], run[column].astype(float), strict=True)
                if _is(value)
            ]
            if lines:
                _write(folder / "metrics" / column, "".join(lines).encode())


FORMATS: Mapping[str, Callable[[pd.DataFrame, Path, str], None]] = {
    "csv": to_csv,
    "parquet": to_parquet,
    "rliable": to_rliable,
    "marl-eval": to_marl_eval,
    "tensorboard": to_tensorboard,
    "mlflow": to_mlflow,
}
# How the file is called, after the study; the others are folders.
ENDINGS = {"csv": ".csv", "parquet": ".parquet", "rliable": ".json", "marl-eval": "-marl.json"}


def _runs(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str, int], pd.DataFrame]]:
    """Yields the runs that have a score, each with its evaluations in order."""
    known = table[table["score"].notna()].sort_values("step", kind="stable")
    for (method, task, seed), run in known.groupby(_CELL, sort=False):
        yield (str(method), str(task), int(str(seed))), run


def _is(value: Any) -> bool:
    return not math.isnan(float(value))


def _slug(text: str) -> str:
    """Returns a name as that of a folder."""
    plain = re.sub(r"[^\w.=+ -]", "-", text)
    return plain if plain.strip(".") else f"-{plain}"


def _json(data: Any, out: Path) -> None:
    text = json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(out, text.encode() + b"\n")


def _yaml(path: Path, **values: Any) -> None:
    # A JSON value is a YAML value, and needs no library.
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in values.items()]
    _write(path, "".join(lines).encode())


def _write(path: Path, data: bytes) -> None:
    """Writes one of thousands of files, none of which is worth waiting for the disk."""
    with storage(path):
        path.write_bytes(data)
