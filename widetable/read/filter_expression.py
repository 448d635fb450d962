"""Filters that are a pyarrow expression. The expression decides about rows; the parts that we can parse prune.

pyarrow has no way to walk an expression, but pickles it as an Arrow IPC file of one record batch.
Literals and options are its columns; the schema's metadata holds the tokens of the expression in
prefix order (call, field_ref, literal, options, end), where a literal's or options' value is the
index of its column. The pairs repeat keys, so they are read through Arrow's C data interface.
A part that cannot be parsed becomes `Opaque`: it prunes nothing, and the rows are correct all the same.

    (field("a") == 5) & field("b").isin([1, 2])

    call and_kleene
        call equal      field_ref a   literal 0               end equal       column 0: 5
        call is_in      field_ref b   options 1               end is_in       column 1: {value_set: [1, 2], ..}
    end and_kleene

Arrow does not promise this form; a test checks it with each pyarrow in use (decision 0026).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.plain_value import FLOATS, TEXTS
from widetable.read.literal import scalar_comparable
from widetable.read.predicate import (
    MIRRORED,
    And,
    Compare,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Opaque,
    Or,
    Truth,
    filtered,
    unknown_column,
)
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, arrow_type

# A chain of 10,000 overflows the 8 MB stack of a thread in Arrow.
_DEEPEST: Final = 1_000
_CHAINS: Final = ("and_kleene", "or_kleene")

_Values = TypeVar("_Values", pa.Scalar, pa.Array)


def parse_expression(expression: pc.Expression, schema: TableSchema) -> tuple[Node, frozenset[str]]:
    """Return a tree that is true wherever the expression is, and the columns that the expression reads.

    If the form cannot be parsed at all, these are all columns: a scan then reads each of them.
    Raises InvalidError for columns that `schema` lacks.
    """
    try:
        tokens, values = _serialized(expression)
        parsed = _ExpressionParser(tokens, values).read()
    except (
        _UnsupportedExpression,
        pa.ArrowException,
        StopIteration,
        ValueError,
        KeyError,
        IndexError,
    ):
        names = _bound_columns(expression, schema)
        return Opaque(names), frozenset(names)
    for name in parsed.columns():
        if name not in schema.by_name:
            raise unknown_column(name, expression, schema)
    return _node(parsed, schema), frozenset(parsed.columns())


class _UnsupportedExpression(Exception):
    """The serialised form is not the one that this module can parse."""


@dataclass
class _Token:
    """A call with its arguments, a column (nested: a path of names) or a literal."""

    kind: str
    name: str = ""
    path: tuple[str, ...] = ()
    value: pa.Scalar | None = None
    arguments: list[_Token] = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0

    def take(self, argument: _Token) -> None:
        """Add an argument. The arguments of an OR below an OR are added to this one, and so for AND."""
        if self.name in _CHAINS and argument.name == self.name:
            self.arguments.extend(argument.arguments)
        else:
            self.arguments.append(argument)

    def close(self, name: str) -> None:
        """End the call, and set how deep Arrow recurses when it computes the call: it makes one chain of all ORs below
        an OR, and recurses once for each of them.

        Raises InvalidError if that may overflow the stack of a thread.
        """
        # A cast ends with its own name, although its options are where others have theirs.
        self.name = name
        step = len(self.arguments) if name in _CHAINS else 1
        self.depth = step + max((argument.depth for argument in self.arguments), default=0)
        if self.depth > _DEEPEST:
            raise InvalidError(
                "filter",
                found=f"an expression of more than {_DEEPEST:,} conditions that are chained or nested",
                expected="an expression that Arrow can compute on the stack of a thread",
                action="Use isin for a list of values, or pass the filter as text.",
            )

    def columns(self) -> Iterator[str]:
        if self.kind == "field_ref":
            yield self.path[0]
        for argument in self.arguments:
            yield from argument.columns()


class _ExpressionParser:
    """Builds the tree of the tokens with an explicit stack: a chain of 1,000 ORs is nested as deep."""

    def __init__(self, tokens: Sequence[tuple[str, str]], values: pa.RecordBatch) -> None:
        self._tokens = iter(tokens)
        self._values = values

    def read(self) -> _Token:
        whole = _Token("whole")
        open_calls = [whole]
        for key, value in self._tokens:
            call = open_calls[-1]
            if key == "call":
                open_calls.append(_Token(key, value))
            elif key == "options":
                call.options = self._options(value)
            elif key == "end":
                call.close(value)
                del open_calls[-1]
                open_calls[-1].take(call)
            else:
                call.take(self._leaf(key, value))
            if len(open_calls) == 1:
                return whole.arguments[0]
        raise _UnsupportedExpression("no end")

    def _leaf(self, key: str, value: str) -> _Token:
        if key == "field_ref":
            return _Token(key, path=(value,))
        if key == "nested_field_ref":
            return _Token("field_ref", path=tuple(next(self._tokens)[1] for _ in range(int(value))))
        if key == "literal":
            return _Token(key, value=self._values.column(int(value))[0])
        raise _UnsupportedExpression(key)

    def _options(self, value: str) -> dict[str, Any]:
        struct = self._values.column(int(value))
        fields = range(struct.type.num_fields)
        return {struct.type.field(i).name: struct.field(i)[0] for i in fields}


def _serialized(expression: pc.Expression) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    try:
        buffer = expression.__reduce__()[1][0]
    except pa.ArrowNotImplementedError as cause:
        raise InvalidError(
            f"filter {expression}",
            found=str(cause),
            expected="columns that are named",
            action="Use pyarrow.compute.field with names, not positions.",
        ) from cause
    reader = pa.ipc.open_file(buffer)
    return _metadata_pairs(reader.schema), reader.get_batch(0)


class _CSchema(ctypes.Structure):
    """The head of Arrow's C data interface `ArrowSchema`."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata_pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the key-value metadata with its repeated keys, which `schema.metadata` would merge.

        int32 pairs | int32 length, bytes of a key | int32 length, bytes of its value | ..

    The bytes are in the machine's byte order, without a terminator. The capsule owns the memory, so
    all of it is copied before the end of this function frees the capsule.
    """
    capsule = schema.__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = _CSchema.from_address(get_pointer(capsule, b"arrow_schema")).metadata
    if not address:
        raise _UnsupportedExpression("no metadata")

    def number(at: int) -> int:
        return ctypes.c_int32.from_address(at).value

    texts, at = [], address + 4
    for _ in range(2 * number(address)):
        length = number(at)
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))


def _bound_columns(expression: pc.Expression, schema: TableSchema) -> tuple[str, ...]:
    """Return all columns, after a check that the expression is a condition over them."""
    empty = pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema.fields]).empty_table()
    try:
        filtered(empty, expression)
    except pa.ArrowException as cause:
        raise InvalidError(
            f"filter {expression}",
            found=str(cause).splitlines()[0],
            expected=f"a condition over the columns {', '.join(schema.names)}",
            action="Correct the filter.",
        ) from cause
    return schema.names


# Tokens into the tree


def _node(token: _Token, schema: TableSchema) -> Node:
    """Return the node of a token; Opaque if no rule applies. The rest of the tree is not affected: the first half of
    `(a == 5) & (b + 1 == 7)` prunes.
    """
    rule = _RULES.get(token.name) if token.kind == "call" else None
    try:
        if rule is not None:
            return rule(token, schema)
        if token.kind == "field_ref" and len(token.path) == 1:
            column = schema.by_name[token.path[0]]
            if column.type.root == "BOOLEAN":
                return Compare(column, "=", True)
        if (
            token.kind == "literal"
            and token.value is not None
            and pa.types.is_boolean(token.value.type)
        ):
            return Truth(token.value.as_py())
    except (_UnsupportedExpression, pa.ArrowException, OverflowError):
        pass
    return Opaque(tuple(dict.fromkeys(token.columns())))


def _column(token: _Token, schema: TableSchema) -> DataField:
    if token.kind != "field_ref" or len(token.path) != 1:
        raise _UnsupportedExpression(token.kind)
    return schema.by_name[token.path[0]]


def _joined(kind: type[And | Or]) -> Callable[[_Token, TableSchema], Node]:
    return lambda token, schema: kind(
        tuple(_node(argument, schema) for argument in token.arguments)
    )


def _compare(op: str) -> Callable[[_Token, TableSchema], Node]:
    def rule(token: _Token, schema: TableSchema) -> Node:
        left, right = token.arguments
        if left.kind == "literal":
            return _comparison(MIRRORED[op], right, left, schema)
        return _comparison(op, left, right, schema)

    return rule


def _comparison(op: str, left: _Token, right: _Token, schema: TableSchema) -> Node:
    """Compare a column with a literal, or raise _UnsupportedExpression. A comparison with null is null, as in SQL."""
    column = _column(left, schema)
    if right.value is None:
        raise _UnsupportedExpression(right.kind)
    if not right.value.is_valid:
        return Truth(None)
    value = scalar_comparable(column.type, _cast(right.value, column))
    return _may_be_false(Compare(column, op, value))


def _cast(values: _Values, column: DataField) -> _Values:
    """Cast a scalar or array to the column's type. Raises _UnsupportedExpression if a value differs, as NaN does.

    Some casts round silently: of a float to FLOAT and DECIMAL, of a timestamp to DATE.
    Arrow compares floats with a DECIMAL as floats, where several decimals are equal.
    """
    if column.type.root == "DECIMAL" and pa.types.is_floating(values.type):
        raise _UnsupportedExpression("a DECIMAL as a float")
    cast = values.cast(arrow_type(column.type))
    if pc.all(pc.equal(cast, values)).as_py() is False:
        raise _UnsupportedExpression("rounded")
    return cast


def _may_be_false(node: Compare | In) -> Node:
    """Mark a condition on floats as uncertain: Arrow may be false where our rules are true, for NaN, and for -0.0 in a
    list.
    """
    column = node.column
    return And((node, Opaque((column.name,)))) if column.type.root in FLOATS else node


def _is_in(token: _Token, schema: TableSchema) -> Node:
    """Return the node of `isin`. Unlike SQL's IN, it is true for a null if the list contains a null."""
    column = _column(token.arguments[0], schema)
    values = _cast(token.options["value_set"].values, column)
    non_null = In(
        column, tuple(scalar_comparable(column.type, value) for value in values if value.is_valid)
    )
    node = _may_be_false(non_null)
    return Or((node, IsNull(column))) if values.null_count else node


def _is_null(token: _Token, schema: TableSchema) -> Node:
    nan_too = token.options.get("nan_is_null")
    if nan_too is not None and nan_too.as_py():
        raise _UnsupportedExpression("nan_is_null")
    return IsNull(_column(token.arguments[0], schema))


def _starts_with(token: _Token, schema: TableSchema) -> Node:
    """Return a Like that prunes by its prefix. It has no pattern, because the expression decides about rows."""
    column = _column(token.arguments[0], schema)
    if column.type.root not in TEXTS or token.options["ignore_case"].as_py():
        raise _UnsupportedExpression("starts_with")
    prefix = token.options["pattern"].as_py()
    return Like(column, "", prefix.encode())


def _not(token: _Token, schema: TableSchema) -> Node:
    return Not(_node(token.arguments[0], schema))


_RULES: Final[dict[str, Callable[[_Token, TableSchema], Node]]] = {
    "and_kleene": _joined(And),
    "or_kleene": _joined(Or),
    "invert": _not,
    "equal": _compare("="),
    "not_equal": _compare("<>"),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "is_in": _is_in,
    "is_null": _is_null,
    "is_valid": lambda token, schema: Not(IsNull(_column(token.arguments[0], schema))),
    "starts_with": _starts_with,
}
