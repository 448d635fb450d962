"""A filter as a tree: it keeps rows (as an Arrow expression), and prunes files by the bounds of their values.

Logic is SQL's: a comparison with null is null, and rows for which the filter is null are left out.
NaN is larger than every number and equal to itself. Pruning asks "may this be true, may this be
false for some row within these bounds?" and errs towards yes. Pure: no I/O.

    k of a file's rows      1 to 9        5 only       6 to 9       only nulls
    k = 5                   true, false   true         false        neither: it is null for all
    NOT k = 5               true, false   false        true         neither

Both questions are needed, although only "true" prunes: NOT exchanges the two, and a condition that
may be true need not be true for all rows. A filter that is a text is applied as the expression of
its tree (`to_expression`). A filter that is an Arrow expression is applied as it is; its tree only
prunes, and must not be false or null where the expression is true.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.plain_value import FLOATS, plain_column
from widetable.read.literal import Comparable, grid_range, holds, is_grid, scalar_of
from widetable.runtime.forked_child import UNFORKABLE
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField

# Not pa.scalar: its first call imports pandas, which takes half of the import time of this package.
_NULL: Final = pa.nulls(1, pa.bool_())[0]


@dataclass(frozen=True)
class And:
    """A node that is true if all parts are true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """A node that is true if at least one part is true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not:
    """A node that is true if its part is false."""

    part: Node


@dataclass(frozen=True)
class Compare:
    """A comparison: column op value; op is one of = <> < <= > >=.
    value: may be one that the column cannot have: a Fraction between two steps of its grid,
    or a number outside of its range.
    """

    column: DataField
    op: str
    value: Comparable


@dataclass(frozen=True)
class In:
    """A node that is true if the column equals one of the values, which are not null. Without values it is false."""

    column: DataField
    values: tuple[Comparable, ...]


@dataclass(frozen=True)
class IsNull:
    """A node that is true if the column is null."""

    column: DataField


@dataclass(frozen=True)
class Like:
    """A match with a pattern. pattern: SQL's, `%` and `_`, with backslash as the escape. prefix: UTF-8 that every match
    starts with.
    """

    column: DataField
    pattern: str
    prefix: bytes


@dataclass(frozen=True)
class Truth:
    """The constant TRUE, FALSE or, with None, NULL."""

    value: bool | None


@dataclass(frozen=True)
class Opaque:
    """A condition that only Arrow can compute; it prunes nothing. columns: the columns that it reads."""

    columns: tuple[str, ...]


Node: TypeAlias = And | Or | Not | Compare | In | IsNull | Like | Truth | Opaque


class Bound(NamedTuple):
    """The bounds of a column's values in some rows. lower, upper: comparables, None if unknown.

    exact: all values equal lower. nulls, values: whether there may be nulls, non-nulls. Bounds
    may be wider than the values, but never narrower. A partition has an exact bound, or
    `values=False` if its value is null; the keys of a file have no nulls.
    """

    lower: Comparable = None
    upper: Comparable = None
    exact: bool = False
    nulls: bool = True
    values: bool = True


UNKNOWN: Final = Bound()


class Outcomes(NamedTuple):
    """Whether a node may be true, and may be false, for a row within the bounds.
    Neither: it is null for all of these rows. They are left out as if it were false, and
    also below a NOT.
    """

    true: bool
    false: bool


_ANY: Final = Outcomes(True, True)
# The operator with its sides exchanged: 3 < k is k > 3.
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


# The negations of operators: true where the other is false, false where it is true, null where it is null.
_NEGATED: Final = {"<>": "=", ">=": "<", "<=": ">"}


@dataclass(frozen=True)
class Predicate:
    """A filter that can prune and be applied.

    tree: prunes. expression: decides about rows; columns: the columns that it reads, which a
    scan reads in addition to the requested ones. Created by `filters.parse`.
    """

    tree: Node
    expression: pc.Expression
    columns: frozenset[str]

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the filter keeps. Raises InvalidError if Arrow cannot compute a caller's expression."""
        try:
            kept = filtered(pa.Table.from_batches([batch]), self.expression).combine_chunks()
        except pa.ArrowException as cause:
            raise InvalidError(
                f"filter {self.expression}",
                found=str(cause).splitlines()[0],
                expected="an expression that can be computed for every row",
                action="Correct the filter, for instance the types of its literals.",
            ) from cause
        # RecordBatch.filter of Arrow before 21 fails where no row is kept.
        return kept.to_batches()[0] if kept.num_rows else batch.slice(0, 0)

    def may_match(self, bounds: Mapping[str, Bound]) -> bool:
        """Return False only if the filter keeps no row within the bounds (by column name; a missing one is unknown)."""
        return outcomes(self.tree, bounds).true

    def equal_values(self, column: str) -> tuple[Comparable, ...] | None:
        """Return the values one of which `column` has in every kept row; None if the filter does not restrict it so."""
        for part in conjuncts(self.tree):
            if isinstance(part, Compare) and part.column.name == column and part.op == "=":
                return (part.value,)
            if isinstance(part, In) and part.column.name == column:
                return part.values
        return None


def filtered(rows: pa.Table, expression: pc.Expression) -> pa.Table:
    """Return the rows for which an expression is true. Raises what Arrow raises.

    Arrow imports and sets up what filters in its first call. A child that is forked meanwhile would wait for it
    forever, so the fork waits.
    """
    first = nullcontext() if "pyarrow.acero" in sys.modules else UNFORKABLE
    with first:
        return rows.filter(expression)


def conjuncts(node: Node) -> Iterator[Node]:
    """Yield the parts that must all be true."""
    if isinstance(node, And):
        for part in node.parts:
            yield from conjuncts(part)
    else:
        yield node


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns that the node reads; a name may occur twice."""
    if isinstance(node, And | Or):
        for part in node.parts:
            yield from columns_of(part)
    elif isinstance(node, Not):
        yield from columns_of(node.part)
    elif isinstance(node, Opaque):
        yield from node.columns
    elif not isinstance(node, Truth):
        yield node.column.name


def unknown_column(name: str, condition: object, schema: TableSchema) -> InvalidError:
    """Create the error for a column of a filter that the table lacks. condition: the filter of the caller."""
    return InvalidError(
        f"column {name!r}",
        found=f"a filter on it ({condition})",
        expected=f"one of {', '.join(schema.names)}",
        action="Correct the column's name in the filter.",
    )


# Pruning


def outcomes(node: Node, bounds: Mapping[str, Bound]) -> Outcomes:
    """Return whether the node may be true, and may be false, for some row within the bounds."""
    rule: Callable[[Any, Mapping[str, Bound]], Outcomes] = _OUTCOMES[type(node)]
    return rule(node, bounds)


def _and_outcomes(node: And, bounds: Mapping[str, Bound]) -> Outcomes:
    """Combine the outcomes of the parts, each by itself: `k < 3 AND k > 5` may be true for keys from 1 to 9, although
    it is true for no key.
    """
    parts = [outcomes(part, bounds) for part in node.parts]
    return Outcomes(all(part.true for part in parts), any(part.false for part in parts))


def _or_outcomes(node: Or, bounds: Mapping[str, Bound]) -> Outcomes:
    parts = [outcomes(part, bounds) for part in node.parts]
    return Outcomes(any(part.true for part in parts), all(part.false for part in parts))


def _not_outcomes(node: Not, bounds: Mapping[str, Bound]) -> Outcomes:
    part = outcomes(node.part, bounds)
    return Outcomes(part.false, part.true)


def _of_known(
    rule: Callable[[Any, Bound], Outcomes], *, null_is_false: bool = False
) -> Callable[[Any, Mapping[str, Bound]], Outcomes]:
    """Wrap a rule that needs both bounds of the node's column. null_is_false: the node may be false for a null."""

    def outcomes_of(node: Any, bounds: Mapping[str, Bound]) -> Outcomes:
        bound = bounds.get(node.column.name, UNKNOWN)
        if not bound.values:
            return Outcomes(False, null_is_false)
        return _ANY if None in (bound.lower, bound.upper) else rule(node, bound)

    return outcomes_of


def _compare_outcomes(node: Compare, bound: Bound) -> Outcomes:
    value, lower, upper = node.value, bound.lower, bound.upper
    if node.op in _NEGATED:
        negated = _compare_outcomes(replace(node, op=_NEGATED[node.op]), bound)
        return Outcomes(negated.false, negated.true)
    if node.op == "=":
        return Outcomes(lower <= value <= upper, not (bound.exact and lower == value))
    if node.op == "<":
        return Outcomes(lower < value, upper >= value)
    return Outcomes(upper > value, lower <= value)


def _in_outcomes(node: In, bound: Bound) -> Outcomes:
    inside = any(bound.lower <= value <= bound.upper for value in node.values)
    return Outcomes(inside, bound.nulls or not (bound.exact and inside))


def _null_outcomes(node: IsNull, bounds: Mapping[str, Bound]) -> Outcomes:
    bound = bounds.get(node.column.name, UNKNOWN)
    return Outcomes(bound.nulls, bound.values)


def _like_outcomes(node: Like, bound: Bound) -> Outcomes:
    """Prune by the prefix: a match lies between the bounds, so its first bytes lie between theirs. For the prefix
    `ab` and values from `aax` to `abz`: `aa` <= `ab` <= `ab`. Texts compare as UTF-8 bytes, the sort order of files.
    """
    length = len(node.prefix)
    return Outcomes(bound.lower[:length] <= node.prefix <= bound.upper[:length], True)


_OUTCOMES: Final[dict[type, Callable[[Any, Mapping[str, Bound]], Outcomes]]] = {
    And: _and_outcomes,
    Or: _or_outcomes,
    Not: _not_outcomes,
    Compare: _of_known(_compare_outcomes),
    # Arrow's is_in is false for a null, SQL's is null: "may be false" must hold for both.
    In: _of_known(_in_outcomes, null_is_false=True),
    IsNull: _null_outcomes,
    Like: _of_known(_like_outcomes),
    Truth: lambda node, bounds: Outcomes(node.value is True, node.value is False),
    Opaque: lambda node, bounds: _ANY,
}


# Expressions


def to_expression(node: Node) -> pc.Expression:
    """Return the Arrow expression of a tree without Opaque nodes. It is true for the rows that are kept."""
    rule: Callable[[Any], pc.Expression] = _EXPRESSIONS[type(node)]
    return rule(node)


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The most conditions in one chain of an Arrow expression. It is short because fifty chains may be nested.
_LONGEST_CHAIN: Final = 16
# A value between two steps of the grid: the operator for the comparison with the step below.
_BETWEEN_STEPS: Final = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}


def _unless_null(name: str, value: pc.Expression | bool) -> pc.Expression:
    """Return value, but null where the column is null: a NOT around it must not admit those rows."""
    expression = value if isinstance(value, pc.Expression) else pc.scalar(value)
    return pc.if_else(pc.field(name).is_valid(), expression, pc.scalar(_NULL))


def _compare_expression(node: Compare) -> pc.Expression:
    """Return the expression of a comparison. Arrow never gets a literal that the type cannot hold: it would refuse it,
    or compare as floats.

    k < 5.5, k <= 5.5    k <= 5        5.5 lies between the steps 5 and 6
    k = 5.5              false, or null where k is null
    k <> 1e30            true, or null where k is null: it is above all values of a BIGINT
    """
    name, op, value = node.column.name, node.op, node.value
    if node.column.type.root in FLOATS:
        return _float_expression(name, op, value)
    if is_grid(node.column.type):
        lowest, highest = grid_range(node.column.type)
        if isinstance(value, Fraction):
            if op in ("=", "<>"):
                return _unless_null(name, op == "<>")
            op, value = _BETWEEN_STEPS[op], math.floor(value)
        if value < lowest:
            return _unless_null(name, op in (">", ">=", "<>"))
        if value > highest:
            return _unless_null(name, op in ("<", "<=", "<>"))
    return _OPERATORS[op](pc.field(name), pc.scalar(scalar_of(node.column.type, value)))


def _float_expression(name: str, op: str, value: Comparable) -> pc.Expression:
    """Return the expression of a comparison of floats. In Arrow, comparisons with NaN are false (<> is true); here NaN
    is above all numbers.
    """
    column, not_a_number = pc.field(name), pc.is_nan(pc.field(name))
    if value[0]:  # NaN
        chosen = {"=": not_a_number, "<>": ~not_a_number, "<": ~not_a_number, ">=": not_a_number}
        return chosen.get(op, _unless_null(name, op == "<="))
    compared = _OPERATORS[op](
        column.cast(pa.float64()), pc.scalar(pa.scalar(value[1], pa.float64()))
    )
    return compared | not_a_number if op in (">", ">=") else compared


def _in_expression(node: In) -> pc.Expression:
    """Return the expression of IN, without values that the column cannot have. Floats are compared one by one, because
    Arrow's is_in distinguishes -0.0 from 0.0.
    """
    t = node.column.type
    if t.root in FLOATS:
        return to_expression(Or(tuple(Compare(node.column, "=", value) for value in node.values)))
    values = plain_column([value for value in node.values if holds(t, value)], t)
    return _unless_null(node.column.name, pc.field(node.column.name).isin(values))


def _chained(node: And | Or) -> Iterator[Node]:
    """Yield the parts, with nested parts of the same kind flattened: `a OR (b OR c)` is one chain of three."""
    for part in node.parts:
        if isinstance(part, And | Or) and type(part) is type(node):
            yield from _chained(part)
        else:
            yield part


def _joined(operation: Callable[[Any, Any], Any], whole: bool) -> Callable[[Any], pc.Expression]:
    """Return a rule that joins parts. whole: the result without parts. AND and OR are Kleene's in Arrow, as in SQL.

    Arrow makes one chain of all ORs below an OR, however they are nested, and recurses once for each
    part of the chain: 10,000 parts crash the process. Two NOTs around each group break the chain.
    """

    def join(node: Any) -> pc.Expression:
        parts = [to_expression(part) for part in _chained(node)] or [pc.scalar(whole)]
        while len(parts) > _LONGEST_CHAIN:
            groups = [
                parts[at : at + _LONGEST_CHAIN] for at in range(0, len(parts), _LONGEST_CHAIN)
            ]
            parts = [~~reduce(operation, group) for group in groups]
        return reduce(operation, parts)

    return join


_EXPRESSIONS: Final[dict[type, Callable[[Any], pc.Expression]]] = {
    And: _joined(operator.and_, True),
    Or: _joined(operator.or_, False),
    Not: lambda node: ~to_expression(node.part),
    Compare: _compare_expression,
    In: _in_expression,
    IsNull: lambda node: pc.field(node.column.name).is_null(),
    Like: lambda node: pc.match_like(pc.field(node.column.name), node.pattern),
    Truth: lambda node: pc.scalar(pa.scalar(node.value, pa.bool_())),
}
