from __future__ import annotations

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench.harness.records import Checkpoint
from pacebench.harness.store import checkpoints
from pacebench.harness.store.checkpoints import BadCheckpointError, load_checkpoint, save_checkpoint

DTYPES = st.sampled_from(["f4", "f8", "i4", "i8", "u8", "u1", "?"])


@given(
    array=DTYPES.flatmap(
        lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=0, min_side=0, max_side=3))
    ),
    number=st.floats(allow_nan=False),
    seed=st.integers(0, 2**63),
)
def test_a_checkpoint_comes_back_to_the_last_bit(tmp_path_factory, array, number, seed):
    path = tmp_path_factory.mktemp("c") / "checkpoint.bin"
    rng = np.random.default_rng(seed)
    rng.standard_normal(3)
    state = {"number": number, "rng": rng.bit_generator.state, "rows": [[1, 2.5], None, "a"]}
    save_checkpoint(path, "id", Checkpoint(12, {"a": array, "b": array.T}, state))
    found = load_checkpoint(path, "id")
    assert found is not None
    assert found.step == 12
    assert found.state == state
    assert found.arrays["a"].dtype == array.dtype
    assert found.arrays["a"].shape == array.shape
    assert found.arrays["a"].tobytes() == array.tobytes()
    np.testing.assert_array_equal(found.arrays["b"], array.T)
    again = np.random.default_rng(0)
    again.bit_generator.state = found.state["rng"]
    assert again.random() == rng.random()


@pytest.fixture
def path(tmp_path):
    save_checkpoint(tmp_path / "c.bin", "id", Checkpoint(3, {"a": np.arange(50.0)}, {"x": 1}))
    return tmp_path / "c.bin"


def test_none_is_no_mistake(tmp_path):
    assert load_checkpoint(tmp_path / "c.bin", "id") is None


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.99])
def test_a_torn_checkpoint_is_refused(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(BadCheckpointError):
        load_checkpoint(path, "id")


def test_a_checkpoint_of_another_run_is_refused(path):
    with pytest.raises(BadCheckpointError, match="belongs to run id"):
        load_checkpoint(path, "other")


def test_a_checkpoint_of_other_library_versions_is_refused(path, monkeypatch):
    monkeypatch.setattr(checkpoints, "package_versions", lambda: {"torch": "99"})
    with pytest.raises(BadCheckpointError, match="library versions"):
        load_checkpoint(path, "id")


def test_a_checkpoint_of_other_kernels_of_matrix_products_is_refused(path, monkeypatch):
    monkeypatch.setattr(checkpoints, "kernels", lambda: "Z80")
    with pytest.raises(BadCheckpointError, match="kernels"):
        load_checkpoint(path, "id")


def test_objects_are_refused(tmp_path):
    bad = Checkpoint(0, {"a": np.array([object()])}, {})
    with pytest.raises(TypeError, match="'a'"):
        save_checkpoint(tmp_path / "c.bin", "id", bad)
