"""Widens a filter so that it keeps all rows that another engine keeps for the same text, in any time zone. Pure.

An engine that applies a condition itself reads `'2024-01-01 00:00'` in the time zone of its session, and compares a
TIMESTAMP with a moment through that zone, whose clocks jump. So the engine decides about rows, and the filter here only
avoids reading rows. Comparisons with moments are widened by two days: no zone is further than 18 hours from UTC, and no
clock was put forward by more than a day. All else stays as it is. An opaque part of a filter, which is only computed,
may be true for any row.

    at >= TIMESTAMP '2024-01-03'               at >= 2024-01-01
    at = TIMESTAMP '2024-01-03'                at >= 2024-01-01 AND at <= 2024-01-05
    NOT at < TIMESTAMP '2024-01-03'            NOT at < 2024-01-01           below a NOT comparisons are narrowed
    day >= DATE '2024-01-03'                   day >= 2024-01-03             a day has no zone

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
    """Return a predicate that is true at least where the given one is true in some time zone."""
    tree = _at_least(predicate.tree)
    return Predicate(tree, to_expression(tree), predicate.columns)


def _at_least(node: Node) -> Node:
    """Return a node that is true wherever the given one may be true."""
    rule = _WIDER.get(type(node))
    return node if rule is None else rule(node)


def _at_most(node: Node) -> Node:
    """Return a node that is false wherever the given one may be false."""
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
    """Move a bound outwards by a number of steps."""
    return Compare(node.column, op, node.value + (steps if op[0] == "<" else -steps))


def _any_of(node: In) -> Node:
    """Widen a list of moments value by value."""
    parts = [Compare(node.column, "=", value) for value in node.values]
    if any(_steps(part.column, part.value) for part in parts):
        return Or(tuple(map(_wider, parts)))
    return node


def _none_of(node: In) -> Node:
    moments = any(_steps(node.column, value) for value in node.values)
    return Truth(False) if moments else node


def _steps(column: DataField, value: Comparable) -> int:
    """Return the uncertainty of a comparison with the value, in steps of the type's grid."""
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
