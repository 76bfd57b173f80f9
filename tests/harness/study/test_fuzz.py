"""Whatever a study file holds, `pacebench check` exits with 0 or 2 and shows no traceback."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pacebench.harness.cli import app
from pacebench.harness.study.yaml_nodes import to_yaml
from tests.harness.study.example import VALID

# Values that have broken parsers and validators before.
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63, 10**400, -(10**30)]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(
        ["", "../../x", "/etc/passwd", "\x85", "ü", "💥", "<script>", "a" * 5000, "{{7*7}}", "%s"]
    ),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.recursive(
        st.integers(), lambda inner: st.lists(inner, min_size=1, max_size=2), max_leaves=9
    ),
)


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the path of every value in the study."""
    found = [path] if path else []
    items: Any = data.items() if isinstance(data, dict) else ()
    for key, value in enumerate(data) if isinstance(data, list) else items:
        found += _places(value, (*path, key))
    return found


def _mutate(data: Any, path: tuple[Any, ...], action: str, value: Any) -> None:
    try:
        for key in path[:-1]:
            data = data[key]
        if action == "replace":
            data[path[-1]] = value
        elif action == "remove":
            del data[path[-1]]
        elif action == "rename" and isinstance(data, dict):
            data[str(value)[:20]] = data.pop(path[-1])
        elif action == "nest":
            data[path[-1]] = {"deep": {"er": [data[path[-1]]]}}
        elif action == "repeat" and isinstance(data, list):
            data.append(copy.deepcopy(data[path[-1]]))
    except (KeyError, IndexError, TypeError):
        return  # an earlier mutation took this place away


def _check(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.yaml"
        file.write_bytes(content)
        result = CliRunner().invoke(app, ["check", "--no-estimate", str(file)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 2), result.output
    assert "Traceback" not in result.output
    if result.exit_code == 2:
        assert all(line.startswith("error: ") for line in result.stderr.splitlines())


@settings(max_examples=2 * settings.default.max_examples)
@given(
    mutations=st.lists(
        st.tuples(
            st.sampled_from(_places(VALID)),
            st.sampled_from(["replace", "remove", "rename", "nest", "repeat"]),
            ODD,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_mutated_studies(mutations: list[tuple[tuple[Any, ...], str, Any]]) -> None:
    data = copy.deepcopy(VALID)
    for path, action, value in mutations:
        _mutate(data, path, action, value)
    _check(to_yaml(data).encode("utf-8", "replace"))


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.data(),
    st.sampled_from(
        ["&a [*a]", "!!python/object:x", "{" * 99, "\t", ": :", "'", "*x", "? ", "- -"]
    ),
)
def test_mutated_text(data: st.DataObject, noise: str) -> None:
    text = to_yaml(VALID)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 20))
    _check((text[:at] + noise + text[at + cut :]).encode())


@given(st.binary(max_size=200))
def test_arbitrary_bytes(content: bytes) -> None:
    _check(content)


def test_bombs() -> None:
    laughs = ["a: &a [x, x, x, x, x, x, x, x, x]"] + [
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(12)
    ]
    _check("\n".join(laughs).encode())
    _check(b"[" * 100_000)
    _check(b"a: &a {b: *a}")
    _check(b"name: " + b"x" * 900_000)
    _check(b"- " * 50_000)
    _check(("{a: " * 2_000 + "1" + "}" * 2_000).encode())
