"""YAML as data and nothing more, with the line of every key.

ruamel.yaml parses the text into nodes and reads scalars by the rules of YAML 1.2: `5e-2` is a
number and `on` is a word. The nodes are turned into plain data here, so that no tag can build an
object, aliases cannot multiply without bound, a key cannot be given twice unnoticed, and every
value's line is known to the error messages.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.resolver import VersionedResolver

from pacebench.harness.errors import UserError

MAX_BYTES = 1_000_000
MAX_NODES = 20_000
MAX_DEPTH = 40

KeyPath = tuple[str | int, ...]

# The tags of plain data, which are those of YAML 1.2's core schema.
_TAGS = {
    ScalarNode: {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str")},
    SequenceNode: {"tag:yaml.org,2002:seq"},
    MappingNode: {"tag:yaml.org,2002:map"},
}


class _Resolver(VersionedResolver):
    """Gives values without a tag one of the core schema, whatever a `%YAML` directive says."""

    processing_version = (1, 2)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Returns the tag of a value; one of another schema, such as a date, is a string."""
        tag = super().resolve(kind, value, implicit)
        return tag if str(tag) in _TAGS[kind] else self.DEFAULT_SCALAR_TAG


@dataclass
class YamlDocument:
    """Plain data and where in the file each part of it stands.

    Attributes:
        file: The file's name as the user gave it.
        data: Mappings, lists and scalars.
        lines: Line of each key path, counted from one.
    """

    file: str
    data: Any
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
    yaml = _yaml()
    document = YamlDocument(file, None)
    try:
        node = yaml.compose(text)
        if node is None:
            raise UserError(f"{file}:1: the file is empty; copy one from studies/.")
        document.data = _Builder(document, yaml).build(node, ())
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{file}:{line}: not valid YAML: {error.problem}.") from None
    except (YAMLError, AssertionError) as error:  # ruamel asserts what a %YAML directive says
        raise UserError(f"{file}:1: not valid YAML: {error}.".replace("\n", " ")) from None
    except RecursionError:
        raise UserError(f"{file}:1: is nested too deeply; a study needs four levels.") from None
    return document


def to_yaml(data: Any) -> str:
    """Returns plain data as YAML text: one value a line, keys in their order."""
    text = io.StringIO()
    _yaml().dump(data, text)
    return text.getvalue()


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _Resolver
    yaml.composer.warn_double_anchors = False  # YAML 1.2 lets an anchor be given anew
    yaml.default_flow_style = False
    yaml.representer.sort_base_mapping_type_on_output = False
    yaml.width = MAX_BYTES  # a folded line would end with a blank
    return yaml


class _Builder:
    """Turns nodes into data, counting what it visits so that aliases cannot multiply."""

    def __init__(self, document: YamlDocument, yaml: YAML) -> None:
        self.document = document
        self.constructor = yaml.constructor
        self.visited = 0

    def fail(self, node: Node, text: str) -> UserError:
        return UserError(f"{self.document.file}:{node.start_mark.line + 1}: {text}")

    def build(self, node: Node, path: KeyPath) -> object:
        self.visited += 1
        if self.visited > MAX_NODES:
            raise self.fail(node, f"more than {MAX_NODES:,} values; aliases expand too far.")
        if len(path) > MAX_DEPTH:
            raise self.fail(node, "is nested too deeply (or in itself); a study needs four levels.")
        if node.tag not in _TAGS[type(node)]:
            raise self.fail(node, f"the tag '{node.tag}' is not allowed; write plain values.")
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.build(n, (*path, i)) for i, n in enumerate(node.value)]
        try:
            return self.constructor.construct_object(node)
        except (ValueError, LookupError):
            raise self.fail(node, f"{node.value[:40]!r} is not a number we can read.") from None

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, object]:
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
            data[key] = self.build(value_node, (*path, key))
        return data
