"""Avro schemas: written as Java writes them, and matched against the schema of a file that is read.

A field is matched by its name, whatever the records are called. Fields that we know must have our type (int and long
are one); of these, fields that may be null may be missing. Fields that we do not know are stepped over.
Raises DamagedError naming the subject and the field.

How a field of the file meets ours, with what becomes of it:

    both have it, kinds agree      a step with an output, and a leaf
    only the file has it           a step without an output: it must be stepped over
    only we have it, nullable      a leaf without an output: None in every record
    only we have it, not nullable  DamagedError
    may be null only in the file   DamagedError, for its readers take no None

A record inside of a record is taken apart into leaves; one inside of an array is a value, a
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

    kind is also the key by which `avro_file` finds the parser of the value.
    """

    path: str
    kind: str
    output: int | None


_KINDS: Final = {"int": "int", "long": "int", "bytes": "bytes", "string": "string"}
_STEPS: Final = {"int": STEP_INT, "bytes": STEP_BYTES, "string": STEP_BYTES}


class ColumnPlan:
    """How to decode a file's records into the expected leaves: a walk over the file's schema beside ours.

    outputs: how many fields are decoded; steps are for all fields of the file, in its order.
    """

    def __init__(self, found: Any, expected: Schema, subject: str) -> None:
        """found: the file's schema. subject: its path, for messages."""
        self._nodes = AvroNodes(found, subject)
        self._steps: list[tuple[int, int, int, int]] = []
        self.leaves: Final[list[AvroLeaf]] = []
        self.outputs = 0
        self._record(found, expected, "")
        steps = np.array(self._steps, np.int64).reshape(-1, 4).T
        self.steps: Final = Steps(*np.ascontiguousarray(steps))
        self.nodes: Final = self._nodes.nodes()

    def _record(self, found: Any, expected: Schema, path: str) -> None:
        """Steps for all fields of a record that is always there."""
        fields = found.get("fields") if isinstance(found, dict) else None
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            self._nodes.fail(
                f"{str(found)[:80]!r} in place of the record {path or 'of an entry'!r}"
            )
        wanted = {f["name"]: f["type"] for f in expected["fields"]}
        for member in fields:
            name, kind = member.get("name"), member.get("type")
            if isinstance(name, str) and name in wanted:
                self._known(kind, wanted.pop(name), f"{path}{name}")
            else:
                self._steps.append((STEP_NODE, -1, -1, self._nodes.add(kind)))
        for name, kind in wanted.items():
            core, may_be_null = _core(kind)
            if not may_be_null:
                self._nodes.fail(f"no field {name!r}")
            self.leaves.append(AvroLeaf(f"{path}{name}", _kind(core), None))

    def _known(self, found: Any, expected: Any, path: str) -> None:
        found_core, null_branch = self._nodes.unwrap(found)
        core, may_be_null = _core(expected)
        if null_branch >= 0 and not may_be_null:
            self._nodes.fail(f"the field {path!r} of type {found}, which may be null")
        if isinstance(core, dict) and core["type"] == "record":
            self._record(found_core, core, f"{path}.")
            return
        kind = self._kind_of(found_core)
        if kind is None or kind not in _kinds(core):
            self._nodes.fail(f"the field {path!r} of type {found}, not {expected}")
        node = self._nodes.add(found_core)
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
        """Of an item or a member. They are parsed with null as the first branch, as everybody writes it."""
        core, null_branch = self._nodes.unwrap(kind)
        inner = self._kind_of(core)
        if inner is None or null_branch > 0:
            return None
        return f"{'nullable ' * (null_branch == 0)}{inner}"


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

    Of the ranges of deletion vectors, best first:

        array of nullable record(f0 string, f1 int, f2 int, _CARDINALITY nullable int)
        array of nullable record(f0 string, f1 int, f2 int)
        array of record(f0 string, f1 int, f2 int, _CARDINALITY nullable int)
        array of record(f0 string, f1 int, f2 int)
    """
    if isinstance(core, str):
        return [_KINDS[core]]
    if core["type"] == "array":
        item, may_be_null = _core(core["items"])
        nulls = ("nullable ", "") if may_be_null else ("",)
        return [f"array of {null}{kind}" for null in nulls for kind in _kinds(item)]
    members = [(member["name"], *_core(member["type"])) for member in core["fields"]]
    # A file may end its records early, but not before the last member that is never null.
    least = max((at for at, member in enumerate(members, 1) if not member[2]), default=0)
    parts = [f"{name} {'nullable ' * is_null}{_kind(part)}" for name, part, is_null in members]
    return [f"record({', '.join(parts[:end])})" for end in range(len(parts), least - 1, -1)]
