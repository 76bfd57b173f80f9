"""YAML is read as data: no objects, no bombs, no surprises of YAML 1.1, and with line numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.study.yaml_nodes import MAX_BYTES, parse_document, read_document, to_yaml


def test_scalars_follow_yaml_1_2() -> None:
    text = (
        "{a: 5e-2, b: on, c: yes, d: true, e: ~, f: 1_000, g: -.5, h: '1', i: 010, k: 1:3, "
        "l: 2024-01-01, m: =}"
    )
    assert parse_document(text, "f").data == {
        "a": 0.05,
        "b": "on",
        "c": "yes",
        "d": True,
        "e": None,
        "f": 1000,
        "g": -0.5,
        "h": "1",
        "i": 10,
        "k": "1:3",
        "l": "2024-01-01",
        "m": "=",
    }
    assert parse_document("%YAML 1.1\n---\na: on", "f").data == {"a": "on"}
    data = parse_document("[.nan, .inf, -.inf, .Inf]", "f").data
    assert math.isnan(data[0])
    assert data[1:] == [math.inf, -math.inf, math.inf]


def test_what_is_written_is_read_as_it_was() -> None:
    data = {
        "words": ["on", "1", "1e3", "", "~", "é # no comment", "two\nlines", "long " * 50, "<<"],
        "numbers": [0.1, 5e-05, 1e300, -3, 10**20, math.inf],
        "nested": {"b": None, "a": [True, [], {}]},
    }
    text = to_yaml(data)
    assert parse_document(text, "f").data == data
    assert [line.split(":")[0] for line in text.splitlines() if line[0] not in " -"] == list(data)


def test_lines_are_those_of_the_keys() -> None:
    document = parse_document("name: x\n\nseeds:\n  count: 3\nlist:\n  - a\n  - b: 1\n", "f")
    assert document.line(("name",)) == 1
    assert document.line(("seeds", "count")) == 4
    assert document.line(("list", 1, "b")) == 7
    assert document.line(("seeds", "no such key")) == 3
    assert document.sentence(("list", 1, "b"), "is wrong.") == "f:7: list[1].b: is wrong."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: !!python/object/apply:os.system ['true']", "f:1: the tag .* is not allowed"),
        ("a: !custom 1", "the tag '!custom' is not allowed"),
        ("a: !!binary aGk=", "is not allowed"),
        ("a: !!seq 3", "is not allowed"),
        ("a: !!int three", "is not a number we can read"),
        ("%YAML 1.3\n---\na: 1", "not valid YAML"),
        ("a: &a [*a]", "nested too deeply"),
        ("[" * 3000, "f:1: is nested too deeply"),
        ("a: " + "{b: " * 60 + "1" + "}" * 60, "nested too deeply"),
        ("a: 1\nb: 2\na: 3", "f:3: the key 'a' is given twice"),
        ("a: b: c", "f:1: not valid YAML"),
        ("? [a]\n: b", "f:1: a key must be a plain word"),
        ("a: " + "9" * 5000, "is not a number we can read"),
        ("", "f:1: the file is empty"),
        ("a: \x00", "not valid YAML"),
        ("x: &x {a: 1}\ny:\n  <<: *x", "f:3: merge keys"),
        ("a: 1\n---\nb: 2", "not valid YAML"),
        ("a: *nobody", "not valid YAML"),
    ],
)
def test_what_is_refused_gets_a_sentence(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as caught:
        parse_document(text, "f")
    assert "\n" not in str(caught.value)


def test_aliases_cannot_multiply() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for i in range(8):
        here, there = chr(ord("a") + i), chr(ord("b") + i)
        lines.append(f"{there}: &{there} [{', '.join([f'*{here}'] * 9)}]")
    with pytest.raises(UserError, match="aliases expand too far"):
        parse_document("\n".join(lines), "f")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_document(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="cannot be read"):
        read_document(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: caf\xe9")
    with pytest.raises(UserError, match="not UTF-8"):
        read_document(latin)
    huge = tmp_path / "huge.yaml"
    huge.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(UserError, match="larger than"):
        read_document(huge)
