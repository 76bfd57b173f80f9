"""YAML as data and nothing more, with the line of every key.

PyYAML parses the text into nodes; the nodes are turned into plain data here, so that no tag can
build an object, aliases cannot multiply without bound, a key cannot be given twice unnoticed, and
every value's line is known to the error messages. Scalars follow YAML 1.2: `5e-2` is a number and
`on` is a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pacebench.harness.errors import UserError

MAX_BYTES = 1_000_000
MAX_NODES = 20_000
MAX_DEPTH = 40

KeyPath = tuple[str | int, ...]

_PREFIX = "tag:yaml.org,2002:"
_SCALARS: tuple[tuple[str, str, str], ...] = (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9][0-9_]*$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
)


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars by the rules of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(
        _PREFIX + _tag, re.compile(_pattern), [c if c != "\0" else "" for c in _first]
    )


@dataclass
class YamlDocument:
    """Plain data and where in the file each part of it stands.

    Attributes:
        file: The file's name as the user gave it.
        data: Mappings, lists and scalars.
        lines: Line of each key path, counted from one.
    """

    file: str
    data: object
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Returns the line of `path`, or of its nearest ancestor that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def sentence(self, path: KeyPath, text: str) -> str:
        """Returns `text` with file, line and key in front of it."""
        key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
        where = f"{self.file}:{self.line(path)}: "
        return f"{where}{key}: {text}" if key else f"{where}{text}"


def read_document(path: Path) -> YamlDocument:
    """Reads a YAML file.

    Raises:
        UserError: The file cannot be read, is too large, or is not one plain YAML document.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: is larger than {MAX_BYTES:,} bytes; is it a study file?")
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the path of a study file.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    return parse_document(text, str(path))


def parse_document(text: str, file: str) -> YamlDocument:
    """Parses YAML text; see `read_document`."""
    document = YamlDocument(file, None)
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            raise UserError(f"{file}:1: the file is empty; copy one from studies/.")
        document.data = _Builder(document).build(node, (), 0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{file}:{line}: not valid YAML: {error.problem}.") from None
    except yaml.YAMLError as error:
        raise UserError(f"{file}:1: not valid YAML: {error}.".replace("\n", " ")) from None
    except RecursionError:
        raise UserError(f"{file}:1: is nested too deeply; a study needs four levels.") from None
    return document


class _Builder:
    """Turns nodes into data, counting what it visits so that aliases cannot multiply."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.visited = 0

    def fail(self, node: Node, text: str) -> UserError:
        line = node.start_mark.line + 1
        return UserError(f"{self.document.file}:{line}: {text}")

    def build(self, node: Node, path: KeyPath, depth: int) -> object:
        self.visited += 1
        if self.visited > MAX_NODES:
            raise self.fail(node, f"more than {MAX_NODES:,} values; aliases expand too far.")
        if depth > MAX_DEPTH:
            raise self.fail(node, "is nested too deeply (or in itself); a study needs four levels.")
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self.mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            self.check_tag(node, "seq")
            return [self.build(n, (*path, i), depth + 1) for i, n in enumerate(node.value)]
        return self.scalar(node)

    def mapping(self, node: MappingNode, path: KeyPath, depth: int) -> dict[str, object]:
        self.check_tag(node, "map")
        data: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self.fail(key_node, "a key must be a plain word.")
            key = str(key_node.value)
            if key == "<<":
                raise self.fail(key_node, "merge keys ('<<') are not used here; spell it out.")
            if key in data:
                raise self.fail(key_node, f"the key '{key}' is given twice; keep one.")
            self.document.lines[(*path, key)] = key_node.start_mark.line + 1
            data[key] = self.build(value_node, (*path, key), depth + 1)
        return data

    def scalar(self, node: Node) -> object:
        text = str(node.value)
        kind = str(node.tag).removeprefix(_PREFIX)
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        try:
            if kind == "int":
                return int(text)
            if kind == "float":
                return float(
                    text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
                )
        except ValueError:
            raise self.fail(node, f"{text[:40]!r} is not a number we can read.") from None
        raise self.fail(node, f"the tag '{node.tag}' is not allowed; write plain values.")

    def check_tag(self, node: Node, kind: str) -> None:
        if node.tag != _PREFIX + kind:
            raise self.fail(node, f"the tag '{node.tag}' is not allowed; write plain values.")
