"""Expressions with the types of a table's columns: what type they have, and their values for whole columns. Pure.

In: an `Expression`, and the type of each column of the source in the target. Out: a `TypedExpression`. A null argument
gives null, except for constants and now(). Raises InvalidError for a column or function that there is not, and for
arguments that a function does not take (`functions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError
from widetable.connector import did_you_mean
from widetable_cdc.columns.expression import ColumnOf, Constant


@dataclass(frozen=True)
class ColumnKind:
    """A type. target: its text, such as DECIMAL(10, 2). arrow: of its values."""

    target: str
    arrow: pa.DataType


@dataclass(frozen=True)
class SourceRows:
    """Rows of the source with the target's types, n of them. now_millis: when they are written. op_micros: int64[n],
    when the transactions that changed them were committed, since 1970; None where nobody asks for it.
    """

    columns: Mapping[str, pa.Array]
    count: int
    now_millis: int = 0
    op_micros: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TypedExpression:
    """An expression. column: the one that it depends on; None for a constant and for now(). is_stable: the same row has
    the same value whenever it is read. keeps_apart: other values of the column give other values. constant: of a
    constant its value.
    """

    kind: ColumnKind
    evaluate: Callable[[SourceRows], pa.Array]
    column: str | None = None
    is_stable: bool = True
    keeps_apart: bool = False
    is_plain: bool = False
    constant: str | int | bool | None = None

    def then(
        self, kind: ColumnKind, apply: Callable[[pa.Array], pa.Array], *, keeps_apart: bool = False
    ) -> TypedExpression:
        """Return a function of this expression. keeps_apart: of its other values."""

        def evaluate(rows: SourceRows) -> pa.Array:
            return apply(self.evaluate(rows))

        apart = keeps_apart and self.keeps_apart
        return TypedExpression(kind, evaluate, self.column, self.is_stable, apart)


def column_expression(column: ColumnOf, kinds: Mapping[str, ColumnKind]) -> TypedExpression:
    """Return the values of a column."""
    name = column.name
    if name not in kinds:
        raise InvalidError(
            f"column {name!r} of an expression",
            found="no such column at the source",
            expected=f"one of {', '.join(kinds)}",
            action=did_you_mean(name, kinds).strip() or "Correct the name.",
        )
    return TypedExpression(
        kinds[name], lambda rows: rows.columns[name], name, keeps_apart=True, is_plain=True
    )


def constant_expression(constant: Constant) -> TypedExpression:
    """Return a column of equal values: STRING, BOOLEAN, INT, or BIGINT if it must be."""
    value = constant.value
    scalar = pa.scalar(value, pa.large_string()) if isinstance(value, str) else _number(value)
    targets = {pa.bool_(): "BOOLEAN", pa.int32(): "INT", pa.int64(): "BIGINT"}
    kind = ColumnKind(targets.get(scalar.type, "STRING"), scalar.type)
    return TypedExpression(kind, lambda rows: pa.repeat(scalar, rows.count), constant=value)


def _number(value: int) -> pa.Scalar:
    if isinstance(value, bool):
        return pa.scalar(value)
    for kind in (pa.int32(), pa.int64()):
        limit = 1 << (kind.bit_width - 1)
        if -limit <= value < limit:
            return pa.scalar(value, kind)
    raise InvalidError(
        f"constant {value}",
        found="a number of more than 64 bits",
        expected="a number that a BIGINT holds, or a text",
        action="Write it as a text.",
    )
