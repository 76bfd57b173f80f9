"""Files of other programs: what is read from each."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.store.foreign.event_files import Scalar, read_scalars, write_scalars
from pacebench.harness.store.foreign.sources import read_scores

# Written by TensorBoard 2.21: three simple values, and two scalars as tensors.
TENSORBOARD = base64.b64decode(
    "SAAAAAAAAAD+kkidCU0iEFcuv9pBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2"
    "ZW50X2ZpbGVfd3JpdGVyOZ2kOSQAAAAAAAAAQiuATQkAAAAAAAAUQCoZChcKEGV2YWwvbWVhbl9yZXdhcmQVAAAAAITd"
    "MRYmAAAAAAAAAHNP4wAJAAAAAAAAGEAQZCoZChcKEGV2YWwvbWVhbl9yZXdhcmQVAAAAPyP6EQknAAAAAAAAALvhsUYJ"
    "AAAAAAAAHEAQyAEqGQoXChBldmFsL21lYW5fcmV3YXJkFQAAgD9zZ84COQAAAAAAAACLBzfxCQAAAAAAACJAKi4KLAoR"
    "ZXZhbC9zdWNjZXNzX3JhdGVCCggBEgAqBAAAgD5KCwoJCgdzY2FsYXJzDwwaLjsAAAAAAAAAGiOsXAkAAAAAAAAiQBBk"
    "Ki4KLAoRZXZhbC9zdWNjZXNzX3JhdGVCCggBEgAqBAAAAD9KCwoJCgdzY2FsYXJz1DM1hQ=="
)
SCALARS = [
    *(Scalar("eval/mean_reward", 100 * i, i / 2, 5.0 + i) for i in range(3)),
    *(Scalar("eval/success_rate", 100 * i, (i + 1) / 4, 9.0) for i in range(2)),
]
EVENTS = "events.out.tfevents.1.host"


def rows(*sources: object, **options: object) -> list[tuple[str, str, str, int, float, float]]:
    """Returns what is read, NaN as −1."""
    frame = read_scores([str(s) for s in sources], **options).rows  # type: ignore[arg-type]
    kept = frame[["method", "task", "seed", "step", "score", "success"]].fillna(-1)
    return list(kept.itertuples(index=False, name=None))


def test_event_files_of_tensorboard_are_read_and_ours_have_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    path.write_bytes(TENSORBOARD)
    assert read_scalars(path) == SCALARS
    write_scalars(tmp_path / "ours.tfevents", SCALARS[:3])
    ours = (tmp_path / "ours.tfevents").read_bytes()
    # From the first scalar on, TensorBoard's frames but for its empty step, with their checksums.
    start = TENSORBOARD.index(b"\x26\x00\x00\x00\x00\x00\x00\x00")
    length = 2 * 0x26 + 1 + 2 * 16
    assert TENSORBOARD[start : start + length] in ours
    # An event that was cut short is left out.
    path.write_bytes(TENSORBOARD[:-5])
    assert read_scalars(path) == SCALARS[:-1]
    assert rows(f"ppo/hop={path}") == [
        ("ppo", "hop", "0", 0, 0.0, 0.25),
        ("ppo", "hop", "0", 100, 0.5, -1),
        ("ppo", "hop", "0", 200, 1.0, -1),
    ]
    assert rows(f"ppo/hop={path}", metric="eval/success_rate")[0][4] == 0.25


def test_a_folder_of_stable_baselines_logs(tmp_path: Path) -> None:
    for seed in (0, 7):
        folder = tmp_path / "sac" / "hop" / str(seed)
        folder.mkdir(parents=True)
        np.savez(
            folder / "evaluations.npz",
            timesteps=[10, 20],
            results=[[1.0, 2.0], [3.0, 5.0 + seed]],
            ep_lengths=[[1, 1], [1, 1]],
            successes=[[False, False], [True, False]],
        )
        # Not used: training episodes, beside evaluations.
        (folder / "monitor.csv").write_text('#{"t_start": 0, "env_id": "X"}\nr,l,t\n9,9,9\n')
    found = rows(tmp_path)
    assert found[1] == ("sac", "hop", "0", 20, 4.0, 0.5)
    assert found[3] == ("sac", "hop", "7", 20, 7.5, 0.5)
    # The same with method and task on the command line, and runs named one by one.
    assert rows(f"sac/hop={tmp_path / 'sac' / 'hop'}") == found
    files = [f"sac/hop={tmp_path}/sac/hop/{seed}/evaluations.npz" for seed in (0, 7)]
    assert [row[2] for row in rows(*files)] == ["0", "0", "1", "1"]


def test_monitors_of_parallel_copies_are_one_run(tmp_path: Path) -> None:
    head = '#{"t_start": 0, "env_id": "Pendulum-v1"}\nr,l,t\n'
    (tmp_path / "0.monitor.csv").write_text(head + "1.0,10,1.0\n3.0,10,3.0\n")
    (tmp_path / "1.monitor.csv").write_text(head + "2.0,5,2.0\n")
    assert rows(f"ppo={tmp_path}", last=2) == [
        ("ppo", "Pendulum-v1", "0", 10, 1.0, -1),
        ("ppo", "Pendulum-v1", "0", 15, 1.5, -1),
        ("ppo", "Pendulum-v1", "0", 25, 2.5, -1),
    ]
    notes = read_scores([f"ppo={tmp_path}"]).notes
    assert any("last 100 training episodes" in note for note in notes)


def test_dictionaries_of_rliable(tmp_path: Path) -> None:
    (tmp_path / "matrix.json").write_text(json.dumps({"a": [[1, 2], [3, 4]], "b": [[5, None]]}))
    assert rows(tmp_path / "matrix.json") == [
        ("a", "task-1", "0", 0, 1.0, -1),
        ("a", "task-1", "1", 0, 3.0, -1),
        ("a", "task-2", "0", 0, 2.0, -1),
        ("a", "task-2", "1", 0, 4.0, -1),
        ("b", "task-1", "0", 0, 5.0, -1),
        ("b", "task-2", "0", 0, -1.0, -1),
    ]
    (tmp_path / "named.json").write_text(json.dumps({"a": {"pong": [1, 2]}, "b": {"pong": [3]}}))
    assert rows(tmp_path / "named.json")[-1] == ("b", "pong", "0", 0, 3.0, -1)
    np.savez(tmp_path / "arrays.npz", a=np.array([[1.0, 2.0]]))
    assert [row[4] for row in rows(tmp_path / "arrays.npz")] == [1.0, 2.0]
    assert read_scores([tmp_path / "arrays.npz"]).normalised


def test_dictionaries_of_marl_eval(tmp_path: Path) -> None:
    run = {
        "step_0": {"step_count": 100, "return": [1, 3], "won": [0]},
        "step_1": {"step_count": 200, "return": [5], "won": [1]},
        "absolute_metrics": {"return": [99]},
    }
    path = tmp_path / "marl.json"
    path.write_text(json.dumps({"smac": {"3m": {"qmix": {"seed_4": run}}}}))
    assert rows(path) == [("qmix", "3m", "4", 100, 2.0, -1), ("qmix", "3m", "4", 200, 5.0, -1)]
    assert rows(path, metric="won")[1][4] == 1.0
    assert not read_scores([path]).normalised
    assert any("absolute metrics" in note for note in read_scores([path]).notes)


def test_tables_under_the_fields_names(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("algo\tenv_id\tseed\tepisodic_return\tis_success\n'=x\thop\t3.0\t1e3\tTrue\n")
    (row,) = rows(path)
    assert row == ("=x", "hop", "3", 0, 1000.0, 1.0)
    path = tmp_path / "quoted.csv"
    path.write_text('\ufeffmethod,task,seed,score\n"a, b",t,s-1,\n')
    frame = read_scores([path]).rows
    assert frame.loc[0, "method"] == "a, b"
    assert frame.loc[0, "seed"] == "s-1"
    assert math.isnan(frame.loc[0, "score"])


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "sprung"),))

    trapped = np.array([[Trap()]], dtype=object)
    np.savez(tmp_path / "trap.npz", allow_pickle=True, a=trapped)
    for source in (tmp_path / "trap.npz", f"a={tmp_path / 'trap.npz'}"):
        with pytest.raises(UserError, match="unpickled"):
            read_scores([source])
    (tmp_path / "trap.pkl").write_bytes(b"")
    with pytest.raises(UserError, match="is a pickle"):
        read_scores([tmp_path / "trap.pkl"])
    assert not (tmp_path / "sprung").exists()
