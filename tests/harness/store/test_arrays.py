"""`to_arrow` against pyarrow's own conversion, and without pandas."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench.harness.store.arrays import to_arrow

FLOATS = st.floats(allow_nan=False, width=32)
KINDS = {
    pa.int64(): st.integers(-(2**62), 2**62),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(allow_nan=False) | st.integers(-1000, 1000),
    pa.float32(): FLOATS,
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=8),
    pa.list_(pa.float64()): st.lists(st.floats(allow_nan=False), max_size=4),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_values_and_gaps_are_those_of_pyarrow(kind, data):
    integers = pa.types.is_integer(kind)
    values = data.draw(st.lists(KINDS[kind] | st.none(), max_size=20))
    if pa.types.is_floating(kind):
        values = [None if value is None else float(value) for value in values]
    ours = to_arrow(values, kind)
    ours.validate(full=True)
    assert ours.equals(pa.array(values, type=kind))
    if integers and None not in values:
        assert to_arrow(np.array(values, dtype=int), kind).equals(ours)


def test_nan_is_a_value_and_none_is_a_gap():
    found = to_arrow([math.nan, None, 1], pa.float64())
    assert found.null_count == 1
    assert math.isnan(found[0].as_py())
    assert found[1].as_py() is None


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1.5], pa.int64()), (["a"], pa.float64()), ([2**40], pa.int32()), ([None, "x"], pa.int64())],
)
def test_values_of_another_type_are_refused(values, kind):
    with pytest.raises(ValueError, match=r"no values of type|invalid literal|convert"):
        to_arrow(values, kind)


def test_writing_a_run_imports_no_pandas(tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pacebench.harness.store.tables import *\n"
        "table = updates_tables({'mean': [[0.5]], 'case': ['x'], 'seconds': [0.1]})[0]\n"
        "assert len(to_parquet(table)) > 100\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
