"""A filter that keeps at least the rows which another engine keeps of the same text, in any time zone. Pure.

An engine that applies a condition itself reads `'2024-01-01 00:00'` in the zone of its session. It compares a TIMESTAMP
with a moment by way of that zone, whose clocks jump. So the condition is its to decide, and here it only spares reading
rows. Comparisons with moments are made wider by two days: no zone is further than 18 hours from UTC, and no clock was
put forward by more than a day. Everything else stays as it is. What is only computed, of a filter that was given as an
expression, may be true of any row.

    at >= TIMESTAMP '2024-01-03'               at >= 2024-01-01
    at = TIMESTAMP '2024-01-03'                at >= 2024-01-01 AND at <= 2024-01-05
    NOT at < TIMESTAMP '2024-01-03'            NOT at < 2024-01-01           below a NOT comparisons get narrower
    day >= DATE '2024-01-03'                   the same: a day has no zone

Raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from widetable.read.literal import Comparable
from widetable.read.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Node,
    Not,
    Opaque,
    Or,
    Predicate,
    Truth,
    to_expression,
)
from widetable.schema.types import DataField, timestamp_unit

_DAYS: Final = 2
_STEPS_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400 * 10**9}
_ZONED: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")


def loosened(predicate: Predicate) -> Predicate:
    """True at least where the predicate is true in some time zone."""
    tree = _at_least(predicate.tree)
    return Predicate(tree, to_expression(tree), predicate.columns)


def _at_least(node: Node) -> Node:
    """True wherever the node may be."""
    rule = _WIDER.get(type(node))
    return node if rule is None else rule(node)


def _at_most(node: Node) -> Node:
    """False wherever the node may be."""
    rule = _NARROWER.get(type(node))
    return node if rule is None else rule(node)


def _wider(node: Compare) -> Node:
    steps = _steps(node.column, node.value)
    if not steps:
        return node
    if node.op == "<>":
        return Not(IsNull(node.column))
    if node.op == "=":
        return And((_moved(node, ">=", steps), _moved(node, "<=", steps)))
    return _moved(node, node.op, steps)


def _narrower(node: Compare) -> Node:
    steps = _steps(node.column, node.value)
    if not steps:
        return node
    if node.op == "=":
        return Truth(False)
    if node.op == "<>":
        return Or((_moved(node, "<", -steps), _moved(node, ">", -steps)))
    return _moved(node, node.op, -steps)


def _moved(node: Compare, op: str, steps: int) -> Node:
    """A bound that lies so many steps further out."""
    return Compare(node.column, op, node.value + (steps if op[0] == "<" else -steps))


def _any_of(node: In) -> Node:
    """Each value by itself where they are moments."""
    parts = [Compare(node.column, "=", value) for value in node.values]
    if any(_steps(part.column, part.value) for part in parts):
        return Or(tuple(map(_wider, parts)))
    return node


def _none_of(node: In) -> Node:
    moments = any(_steps(node.column, value) for value in node.values)
    return Truth(False) if moments else node


def _steps(column: DataField, value: Comparable) -> int:
    """By how many steps of its type's grid a comparison with the value is uncertain."""
    if column.type.root in _ZONED:
        return _DAYS * _STEPS_PER_DAY[timestamp_unit(column.type.precision or 0)]
    is_moment = column.type.root == "DATE" and isinstance(value, Fraction)
    return _DAYS if is_moment else 0


_WIDER: Final[dict[type, Callable[[Any], Node]]] = {
    And: lambda node: And(tuple(map(_at_least, node.parts))),
    Or: lambda node: Or(tuple(map(_at_least, node.parts))),
    Not: lambda node: Not(_at_most(node.part)),
    Compare: _wider,
    In: _any_of,
    Opaque: lambda node: Truth(True),
}
_NARROWER: Final[dict[type, Callable[[Any], Node]]] = {
    And: lambda node: And(tuple(map(_at_most, node.parts))),
    Or: lambda node: Or(tuple(map(_at_most, node.parts))),
    Not: lambda node: Not(_at_least(node.part)),
    Compare: _narrower,
    In: _none_of,
    Opaque: lambda node: Truth(False),
}
