"""Convert Avro types to the nodes that `kernels.avro_records` steps over, with named types resolved.

In: a schema, parsed from JSON. Raises DamagedError naming the subject for an invalid schema.

The nodes of record r(a: null | string, b: array of int), added in this order:

    index   0 record   1 union   2 null   3 string   4 array   5 int
    first   0 2 4 4 4 5 5                 children of node i: children[first[i] : first[i + 1]]
    children   1 4  2 3  5

Nodes are a graph, not a tree: a named type has one node, and may be its own child. The kernel
limits the depth of values (`MAX_DEPTH`); `MAX_NESTED` limits the depth of the schema, because
schemas come from files.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from widetable.errors import DamagedError
from widetable.format.damaged_file import damaged_bytes
from widetable.kernels.avro_records import (
    NODE_ARRAY,
    NODE_BYTES,
    NODE_FIXED,
    NODE_MAP,
    NODE_RECORD,
    NODE_UNION,
    NODE_VARINT,
    Nodes,
)

Schema: TypeAlias = dict[str, Any]

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
MAX_NESTED: Final = 32


@dataclass
class _Node:
    kind: int
    width: int = 0
    children: list[int] = dataclass_field(default_factory=list)


class AvroNodes:
    """Collects the nodes of one file's schema.

    Named types are collected before anything is added, so that a reference may come before its
    definition. Names are compared without their namespace. Not for several threads.
    """

    def __init__(self, schema: Any, subject: str) -> None:
        self._subject = subject
        self._named: dict[str, Any] = {}
        self._collect_named(schema, 0)
        self._named_nodes: dict[str, int] = {}
        self._nodes: list[_Node] = []

    def nodes(self) -> Nodes:
        """Return all nodes that were added.

        Raises DamagedError for arrays of items that take no bytes, because few bytes could claim any
        number of them, and for records of fields that take none, which could be any number of steps.
        """
        empty = {
            index
            for index, node in enumerate(self._nodes)
            if (node.kind == NODE_FIXED and not node.width)
            or (node.kind == NODE_RECORD and not node.children)
        }
        around = [node for node in self._nodes if node.kind in (NODE_ARRAY, NODE_RECORD)]
        if any(node.children and empty.issuperset(node.children) for node in around):
            self.fail("an array or a record of parts that take no bytes")
        counts = [len(node.children) for node in self._nodes]
        return Nodes(
            np.array([node.kind for node in self._nodes], np.int64),
            np.array([node.width for node in self._nodes], np.int64),
            np.cumsum([0, *counts], dtype=np.int64),
            np.array([child for node in self._nodes for child in node.children], np.int64),
        )

    def unwrap(self, kind: Any) -> tuple[Any, int]:
        """Return the type with names and logical types resolved, and which branch of its union is null (-1: no union).

        Use this to inspect a field's type, and `add` to step over the field. A union of other than null
        and one type is returned as it is, with -1.
        """
        kind, null_branch = without_null(kind)
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

    def add(self, kind: Any, depth: int = 0) -> int:
        """Return the index of a node that steps over `kind`.

        Raises DamagedError for unknown types and for nesting beyond MAX_NESTED. Each call adds a
        node for a type without a name; a named type, and all below it, has one node per schema.
        """
        if depth > MAX_NESTED:
            self.fail("a schema nested too deeply")
        if isinstance(kind, list):
            return self._add(_Node(NODE_UNION), [(branch, depth + 1) for branch in kind])
        if isinstance(kind, str):
            if kind in _PRIMITIVES:
                return self._add(_Node(*_PRIMITIVES[kind]), [])
            if _short(kind) not in self._named:
                self.fail(f"the unknown type {kind!r}")
            return self._named_node(_short(kind), depth)
        if not isinstance(kind, dict):
            self.fail(f"{str(kind)[:80]!r} in place of a type")
        return self._complex_node(kind, depth)

    def _complex_node(self, kind: Schema, depth: int) -> int:
        name = kind.get("type")
        if name == "array":
            return self._add(_Node(NODE_ARRAY), [(kind.get("items"), depth + 1)])
        if name == "map":
            return self._add(_Node(NODE_MAP), [(kind.get("values"), depth + 1)])
        if name in ("record", "fixed", "enum"):
            return self._named_node(_short(str(kind.get("name"))), depth)
        return self.add(name, depth + 1)

    def _named_node(self, name: str, depth: int) -> int:
        if name in self._named_nodes:
            return self._named_nodes[name]
        kind = self._named.get(name)
        if not isinstance(kind, dict):
            self.fail(f"the unknown type {name!r}")
        self._named_nodes[name] = len(self._nodes)  # before its fields: they may name it again
        if kind["type"] == "enum":
            return self._add(_Node(NODE_VARINT), [])
        if kind["type"] == "fixed":
            size = kind.get("size")
            if not isinstance(size, int) or not 0 <= size < 1 << 31:
                self.fail(f"the type {name!r} of {size} bytes")
            return self._add(_Node(NODE_FIXED, size), [])
        fields = kind.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            self.fail(f"the record {name!r} without fields")
        return self._add(_Node(NODE_RECORD), [(f.get("type"), depth + 1) for f in fields])

    def _add(self, node: _Node, children: list[tuple[Any, int]]) -> int:
        """Add a node before its children, because a child may refer back to it."""
        index = len(self._nodes)
        self._nodes.append(node)
        node.children = [self.add(kind, depth) for kind, depth in children]
        return index

    def _collect_named(self, node: Any, depth: int) -> None:
        """Collect named types: a later field may refer to an earlier type by its name only."""
        if depth > 4 * MAX_NESTED:
            self.fail("a schema nested too deeply")
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

    def fail(self, finding: str) -> NoReturn:
        raise avro_damage(self._subject, finding)


def without_null(kind: Any) -> tuple[Any, int]:
    """Return the other type of a union with null, and which branch is null; any other type as it is, and -1."""
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind:
        null_branch = kind.index("null")
        return kind[1 - null_branch], null_branch
    return kind, -1


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def avro_damage(subject: str, finding: str) -> DamagedError:
    """Return the error for bytes that are no Avro file."""
    return damaged_bytes(subject, finding, "an Avro file as Paimon writes them")
