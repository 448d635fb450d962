"""Avro schemas: written as Java writes them, and matched against the schema of a file that is read.

A field is matched by its name, whatever the records are called. Fields that we know must have our type (int and long
are one); of these, fields that may be null may be missing. Fields that we do not know are stepped over.
Raises DamagedError naming the subject and the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from widetable.errors import DamagedError
from widetable.kernels.avro_records import (
    NODE_ARRAY,
    NODE_BYTES,
    NODE_FIXED,
    NODE_MAP,
    NODE_RECORD,
    NODE_UNION,
    NODE_VARINT,
    STEP_BYTES,
    STEP_INT,
    STEP_NODE,
    Nodes,
    Steps,
)

Schema: TypeAlias = dict[str, Any]


def nullable(kind: Any) -> list[Any]:
    """The union of null and `kind`."""
    return ["null", kind]


def field(name: str, kind: Any) -> Schema:
    """One field of a record; a nullable one has the default null, as Java writes it."""
    if isinstance(kind, list):
        return {"name": name, "type": kind, "default": None}
    return {"name": name, "type": kind}


def array(items: Any) -> Schema:
    """An array type."""
    return {"type": "array", "items": items}


@dataclass(frozen=True)
class AvroLeaf:
    """A field that is no record. path: its name and those of the records around it, with dots.

    kind: "int", "bytes", "string", "array of <kind>", or within these "record(<name> <kind>, ..)", of which the file's
    may lack the last fields, if they may be null. output: its place in the plan's result, None when the file
    does not have the field.
    """

    path: str
    kind: str
    output: int | None


@dataclass(frozen=True)
class ColumnPlan:
    """How to decode a file's records into the expected leaves."""

    leaves: tuple[AvroLeaf, ...]
    steps: Steps
    nodes: Nodes
    outputs: int


def plan_columns(found: Any, expected: Schema, subject: str) -> ColumnPlan:
    """Match a file's schema against ours. subject: the file's path, for messages."""
    matching = _Matching(found, subject)
    matching.record(found, expected, "")
    return matching.plan()


_PRIMITIVES: Final = {
    "null": (NODE_FIXED, 0),
    "boolean": (NODE_FIXED, 1),
    "float": (NODE_FIXED, 4),
    "double": (NODE_FIXED, 8),
    "int": (NODE_VARINT, 0),
    "long": (NODE_VARINT, 0),
    "bytes": (NODE_BYTES, 0),
    "string": (NODE_BYTES, 0),
}
_KINDS: Final = {"int": "int", "long": "int", "bytes": "bytes", "string": "string"}
_STEPS: Final = {"int": STEP_INT, "bytes": STEP_BYTES, "string": STEP_BYTES}
_MAX_NESTING: Final = 32


@dataclass
class _Node:
    kind: int
    width: int = 0
    children: list[int] = dataclass_field(default_factory=list)


class _Matching:
    """Walks the file's schema beside ours and collects steps, nodes and leaves."""

    def __init__(self, found: Any, subject: str) -> None:
        self._subject = subject
        self._named: dict[str, Any] = {}
        self._collect_named(found, 0)
        self._named_nodes: dict[str, int] = {}
        self._nodes: list[_Node] = []
        self._steps: list[tuple[int, int, int, int]] = []
        self._leaves: list[AvroLeaf] = []
        self._outputs = 0

    def plan(self) -> ColumnPlan:
        steps = np.array(self._steps, np.int64).reshape(-1, 4).T
        counts = [len(node.children) for node in self._nodes]
        nodes = Nodes(
            np.array([node.kind for node in self._nodes], np.int64),
            np.array([node.width for node in self._nodes], np.int64),
            np.cumsum([0, *counts], dtype=np.int64),
            np.array([child for node in self._nodes for child in node.children], np.int64),
        )
        return ColumnPlan(
            tuple(self._leaves), Steps(*np.ascontiguousarray(steps)), nodes, self._outputs
        )

    def record(self, found: Any, expected: Schema, path: str) -> None:
        """Steps for all fields of a record that is always there."""
        fields = found.get("fields") if isinstance(found, dict) else None
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            self._fail(f"{str(found)[:80]!r} in place of the record {path or 'of an entry'!r}")
        wanted = {f["name"]: f["type"] for f in expected["fields"]}
        for member in fields:
            name, kind = member.get("name"), member.get("type")
            if name in wanted:
                self._known(kind, wanted.pop(name), f"{path}{name}")
            else:
                self._steps.append((STEP_NODE, -1, -1, self._node(kind, 0)))
        for name, kind in wanted.items():
            core, may_be_null = _core(kind)
            if not may_be_null:
                self._fail(f"no field {name!r}")
            self._leaves.append(AvroLeaf(f"{path}{name}", _kind(core), None))

    def _known(self, found: Any, expected: Any, path: str) -> None:
        found_core, null_branch = self._unwrap(found)
        core, may_be_null = _core(expected)
        if null_branch >= 0 and not may_be_null:
            self._fail(f"the field {path!r} of type {found}, which may be null")
        if isinstance(core, dict) and core["type"] == "record":
            self.record(found_core, core, f"{path}.")
            return
        kind = self._kind_of(found_core)
        if kind is None or kind not in _kinds(core):
            self._fail(f"the field {path!r} of type {found}, not {expected}")
        node = self._node(found_core, 0)
        self._steps.append((_STEPS.get(kind, STEP_NODE), self._outputs, null_branch, node))
        self._leaves.append(AvroLeaf(path, kind, self._outputs))
        self._outputs += 1

    def _unwrap(self, kind: Any) -> tuple[Any, int]:
        """The type itself, names and logical types resolved, and which branch of its union is null (-1: no union)."""
        null_branch = -1
        if isinstance(kind, list) and len(kind) == 2 and "null" in kind:
            null_branch = kind.index("null")
            kind = kind[1 - null_branch]
        if (
            isinstance(kind, dict)
            and isinstance(kind.get("type"), str | dict)
            and "fields" not in kind
        ):
            inner = kind["type"]
            if isinstance(inner, dict) or inner in _PRIMITIVES:
                kind = inner
        if isinstance(kind, str):
            kind = self._named.get(_short(kind), kind)
        return kind, null_branch

    def _kind_of(self, core: Any) -> str | None:
        if isinstance(core, str):
            return _KINDS.get(core)
        if isinstance(core, dict) and core.get("type") == "array":
            inner = self._kind_of_part(core.get("items"))
            return None if inner is None else f"array of {inner}"
        if isinstance(core, dict) and core.get("type") == "record":
            fields = core.get("fields")
            members = fields if isinstance(fields, list) else []
            parts = [
                f"{m['name']} {self._kind_of_part(m.get('type'))}" for m in members if "name" in m
            ]
            return f"record({', '.join(parts)})"
        return None

    def _kind_of_part(self, kind: Any) -> str | None:
        """Of an item or a member. They are parsed with null as the first branch, as everybody writes it."""
        core, null_branch = self._unwrap(kind)
        inner = self._kind_of(core)
        if inner is None or null_branch > 0:
            return None
        return f"{'nullable ' * (null_branch == 0)}{inner}"

    def _node(self, kind: Any, depth: int) -> int:
        """The index of a node that steps over `kind`."""
        if depth > _MAX_NESTING:
            self._fail("a schema nested too deeply")
        if isinstance(kind, list):
            return self._add(_Node(NODE_UNION), [(branch, depth + 1) for branch in kind])
        if isinstance(kind, str):
            if kind in _PRIMITIVES:
                return self._add(_Node(*_PRIMITIVES[kind]), [])
            if _short(kind) not in self._named:
                self._fail(f"the unknown type {kind!r}")
            return self._named_node(_short(kind), depth)
        if not isinstance(kind, dict):
            self._fail(f"{str(kind)[:80]!r} in place of a type")
        return self._complex_node(kind, depth)

    def _complex_node(self, kind: Schema, depth: int) -> int:
        name = kind.get("type")
        if name == "array":
            return self._add(_Node(NODE_ARRAY), [(kind.get("items"), depth + 1)])
        if name == "map":
            return self._add(_Node(NODE_MAP), [(kind.get("values"), depth + 1)])
        if name in ("record", "fixed", "enum"):
            return self._named_node(_short(str(kind.get("name"))), depth)
        return self._node(name, depth + 1)

    def _named_node(self, name: str, depth: int) -> int:
        if name in self._named_nodes:
            return self._named_nodes[name]
        kind = self._named.get(name)
        if not isinstance(kind, dict):
            self._fail(f"the unknown type {name!r}")
        self._named_nodes[name] = len(self._nodes)  # before its fields: they may name it again
        if kind["type"] == "enum":
            return self._add(_Node(NODE_VARINT), [])
        if kind["type"] == "fixed":
            size = kind.get("size")
            if not isinstance(size, int) or not 0 <= size < 1 << 31:
                self._fail(f"the type {name!r} of {size} bytes")
            return self._add(_Node(NODE_FIXED, size), [])
        fields = kind.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            self._fail(f"the record {name!r} without fields")
        return self._add(_Node(NODE_RECORD), [(f.get("type"), depth + 1) for f in fields])

    def _add(self, node: _Node, children: list[tuple[Any, int]]) -> int:
        index = len(self._nodes)
        self._nodes.append(node)
        node.children = [self._node(kind, depth) for kind, depth in children]
        return index

    def _collect_named(self, node: Any, depth: int) -> None:
        """Named types: a later field may refer to an earlier one by its name only."""
        if depth > 4 * _MAX_NESTING:
            self._fail("a schema nested too deeply")
        if isinstance(node, list):
            for branch in node:
                self._collect_named(branch, depth + 1)
        elif isinstance(node, dict):
            if node.get("type") in ("record", "fixed", "enum") and isinstance(
                node.get("name"), str
            ):
                self._named[_short(node["name"])] = node
            for key in ("type", "items", "values", "fields"):
                self._collect_named(node.get(key), depth + 1)

    def _fail(self, found: str) -> NoReturn:
        raise avro_damage(self._subject, found)


def _core(expected: Any) -> tuple[Any, bool]:
    """Our own type without null and logical type, and whether it may be null."""
    may_be_null = isinstance(expected, list)
    core = expected[1] if may_be_null else expected
    if isinstance(core, Mapping) and "logicalType" in core:
        core = core["type"]
    return core, may_be_null


def _kind(core: Any) -> str:
    """The kind of a leaf of ours."""
    return _kinds(core)[0]


def _kinds(core: Any) -> list[str]:
    """The same, and what it may be instead in a file: items that are never null, records without their last fields that
    may be.
    """
    if isinstance(core, str):
        return [_KINDS[core]]
    if core["type"] == "array":
        item, may_be_null = _core(core["items"])
        nulls = ("nullable ", "") if may_be_null else ("",)
        return [f"array of {null}{kind}" for null in nulls for kind in _kinds(item)]
    members = [(member["name"], *_core(member["type"])) for member in core["fields"]]
    least = max((at for at, member in enumerate(members, 1) if not member[2]), default=0)
    parts = [f"{name} {'nullable ' * is_null}{_kind(part)}" for name, part, is_null in members]
    return [f"record({', '.join(parts[:end])})" for end in range(len(parts), least - 1, -1)]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def avro_damage(subject: str, found: str) -> DamagedError:
    """The error for bytes that are no manifest."""
    return DamagedError(
        subject,
        found=found,
        expected="an Avro file as Paimon writes its manifests",
        action="Restore the file, or go back to an older snapshot.",
    )
