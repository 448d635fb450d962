"""Avro schemas: written like Java's, and matched with the schema of a file that is read.

Fields are matched by name, whatever the records are called. Fields that we know must have our type (int and long
are equivalent); nullable ones may be missing. Fields that we do not know are skipped.
Raises DamagedError naming the subject and the field.

How a field of the file is matched with ours:

    both have it, kinds agree      a step with an output, and a leaf
    only the file has it           a step without an output: it is skipped
    only we have it, nullable      a leaf without an output: None in every record
    only we have it, not nullable  DamagedError
    may be null only in the file   DamagedError, because readers accept no None

A record inside of a record is split into leaves; a record inside of an array is one value, a
tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from widetable.format.avro_nodes import AvroNodes, Schema
from widetable.kernels.avro_records import STEP_BYTES, STEP_INT, STEP_NODE, Steps


def nullable(kind: Any) -> list[Any]:
    """Return the union of null and `kind`."""
    return ["null", kind]


def field(name: str, kind: Any) -> Schema:
    """Return a field of a record; a nullable one has the default null, as Java writes it."""
    if isinstance(kind, list):
        return {"name": name, "type": kind, "default": None}
    return {"name": name, "type": kind}


def array(items: Any) -> Schema:
    """Return an array type."""
    return {"type": "array", "items": items}


@dataclass(frozen=True)
class AvroLeaf:
    """A field that is no record. path: its name and those of the enclosing records, with dots.

    kind: "int", "bytes", "string", "array of <kind>", or within these "record(<name> <kind>, ..)"; a file's record
    may lack the last fields, if they are nullable. output: the field's place in the plan's result, None when the file
    does not have the field.

    `avro_file` finds the parser of the value by its kind.
    """

    path: str
    kind: str
    output: int | None


_KINDS: Final = {"int": "int", "long": "int", "bytes": "bytes", "string": "string"}
_STEPS: Final = {"int": STEP_INT, "bytes": STEP_BYTES, "string": STEP_BYTES}


class ColumnPlan:
    """How to decode a file's records into the expected leaves, made from the file's schema and ours.

    outputs: how many fields are decoded; steps: for all fields of the file, in its order.
    """

    def __init__(self, file_schema: Any, expected: Schema, subject: str) -> None:
        """Match a file's schema with the expected one. subject: the file's path, for messages."""
        self._nodes = AvroNodes(file_schema, subject)
        self._steps: list[tuple[int, int, int, int]] = []
        self.leaves: Final[list[AvroLeaf]] = []
        self.outputs = 0
        self._record(file_schema, expected, "")
        steps = np.array(self._steps, np.int64).reshape(-1, 4).T
        self.steps: Final = Steps(*np.ascontiguousarray(steps))
        self.nodes: Final = self._nodes.nodes()

    def _record(self, file_record: Any, expected: Schema, path: str) -> None:
        """Add steps for all fields of a record that is never null."""
        fields = file_record.get("fields") if isinstance(file_record, dict) else None
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            self._nodes.fail(
                f"{str(file_record)[:80]!r} in place of the record {path or 'of an entry'!r}"
            )
        wanted = {f["name"]: f["type"] for f in expected["fields"]}
        for member in fields:
            name, kind = member.get("name"), member.get("type")
            if isinstance(name, str) and name in wanted:
                self._match_field(kind, wanted.pop(name), f"{path}{name}")
            else:
                self._steps.append((STEP_NODE, -1, -1, self._nodes.add(kind)))
        for name, kind in wanted.items():
            core, may_be_null = _core_type(kind)
            if not may_be_null:
                self._nodes.fail(f"no field {name!r}")
            self.leaves.append(AvroLeaf(f"{path}{name}", _kind(core), None))

    def _match_field(self, file_type: Any, expected: Any, path: str) -> None:
        file_core, null_branch = self._nodes.unwrap(file_type)
        core, may_be_null = _core_type(expected)
        if null_branch >= 0 and not may_be_null:
            self._nodes.fail(f"the field {path!r} of type {file_type}, which may be null")
        if isinstance(core, dict) and core["type"] == "record":
            self._record(file_core, core, f"{path}.")
            return
        kind = self._kind_of(file_core)
        if kind is None or kind not in _kinds(core):
            self._nodes.fail(f"the field {path!r} of type {file_type}, not {expected}")
        node = self._nodes.add(file_core)
        self._steps.append((_STEPS.get(kind, STEP_NODE), self.outputs, null_branch, node))
        self.leaves.append(AvroLeaf(path, kind, self.outputs))
        self.outputs += 1

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
                f"{member['name']} {self._kind_of_part(member.get('type'))}"
                for member in members
                if isinstance(member, dict) and "name" in member
            ]
            return f"record({', '.join(parts)})"
        return None

    def _kind_of_part(self, kind: Any) -> str | None:
        """Return the kind of an item or a member; null must be the first branch, as all clients write it."""
        core, null_branch = self._nodes.unwrap(kind)
        inner = self._kind_of(core)
        if inner is None or null_branch > 0:
            return None
        return f"{'nullable ' * (null_branch == 0)}{inner}"


def _core_type(expected: Any) -> tuple[Any, bool]:
    """Return our own type without null and logical type, and whether it may be null."""
    may_be_null = isinstance(expected, list)
    core = expected[1] if may_be_null else expected
    if isinstance(core, Mapping) and "logicalType" in core:
        core = core["type"]
    return core, may_be_null


def _kind(core: Any) -> str:
    """Return the kind of a leaf in our schema."""
    return _kinds(core)[0]


def _kinds(core: Any) -> list[str]:
    """Return our kind of a leaf, and the other kinds that a file may have: items that are never null, records without
    their last fields if they are nullable.

    For the ranges of deletion vectors, best first:

        array of nullable record(f0 string, f1 int, f2 int, _CARDINALITY nullable int)
        array of nullable record(f0 string, f1 int, f2 int)
        array of record(f0 string, f1 int, f2 int, _CARDINALITY nullable int)
        array of record(f0 string, f1 int, f2 int)
    """
    if isinstance(core, str):
        return [_KINDS[core]]
    if core["type"] == "array":
        item, may_be_null = _core_type(core["items"])
        nulls = ("nullable ", "") if may_be_null else ("",)
        return [f"array of {null}{kind}" for null in nulls for kind in _kinds(item)]
    members = [(member["name"], *_core_type(member["type"])) for member in core["fields"]]
    # A file may end its records early, but not before the last member that is never null.
    least = max((at for at, member in enumerate(members, 1) if not member[2]), default=0)
    parts = [f"{name} {'nullable ' * is_null}{_kind(part)}" for name, part, is_null in members]
    return [f"record({', '.join(parts[:end])})" for end in range(len(parts), least - 1, -1)]
