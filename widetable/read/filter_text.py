"""Filters that are a text: a SQL condition, parsed by sqlglot, and translated into our own tree.

    AND, OR, NOT, parentheses        = <> != < <= > >= <=>       IN, BETWEEN, LIKE
    IS [NOT] NULL, TRUE or FALSE     a BOOLEAN column alone
    literals: numbers, 'text', TRUE, FALSE, NULL, X'00ff', DATE '…', TIME '…', TIMESTAMP '…'

The spelling is Spark's: names in backticks if needed, text in single or double quotes, a quote in
text doubled or after a backslash. One side of a comparison is a column, the other a literal.
Raises InvalidError naming the column, or the filter if it is not such a condition.

sqlglot only parses. Its nodes are translated into ours one by one, and a kind of node that is not
in the tables at the end is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from widetable.errors import InvalidError
from widetable.format.plain_value import TEXTS
from widetable.messages.counted import counted
from widetable.read.literal import TimeLiteral, literal
from widetable.read.predicate import (
    MIRRORED,
    And,
    Compare,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Or,
    Truth,
    unknown_column,
)
from widetable.runtime.time_text import FORMS
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField

# Functions recurse over a condition, so the stack limits the nesting. A chain of AND or OR is not nested: it is one
# node with many parts.
_MAX_NESTED: Final = 50


class _FilterDialect(Spark):
    """Spark's SQL with doubled quotes inside text, as Spark itself reads them."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012  # sqlglot's metaclass reads a plain list


def parse_text(text: str, schema: TableSchema) -> Node:
    """Return the tree of a condition over the columns of `schema`."""
    try:
        parsed = sqlglot.parse(text, read=_FilterDialect)
    except SqlglotError as cause:
        first = re.sub(r"\x1b\[\d+m", "", str(cause)).splitlines()[0]
        raise _invalid(text, f"text that is not a SQL condition ({first})") from cause
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Expr):
        raise _invalid(text, counted(len(parsed), "statement") if text.strip() else "an empty text")
    _check_honoured(text, parsed[0])
    return _Reader(text, schema).node(parsed[0])


def _check_honoured(text: str, parsed: exp.Expr) -> None:
    """Refuse arguments of a supported node that we do not read, such as SYMMETRIC: they would be ignored."""
    for e in parsed.walk():
        if type(e) not in _RULES and type(e) not in _VALUES and not isinstance(e, exp.DataType):
            continue  # refused as a whole
        for name, argument in e.args.items():
            is_read = e.arg_types.get(name) or name in _OPTIONAL.get(type(e), ())
            if argument and not is_read:
                raise _invalid(text, f"{e.sql(dialect='spark')!r}, with {name}")


def _invalid(text: str, problem: str) -> InvalidError:
    return InvalidError(
        f"filter {text!r}",
        found=problem,
        expected="comparisons of columns with literals, IN, BETWEEN, LIKE and IS NULL, joined by AND, OR and NOT",
        action="Correct the filter, or filter the result with pyarrow.",
    )


class _Reader:
    """Translates sqlglot's tree, by one method per kind of node, which the tables at the end list."""

    def __init__(self, text: str, schema: TableSchema) -> None:
        self._text = text
        self._schema = schema
        self._depth = 0

    def node(self, e: exp.Expr) -> Node:
        rule = _RULES.get(type(e))
        if rule is None:
            self._refuse(e)
        self._depth += 1
        if self._depth > _MAX_NESTED:
            raise _invalid(self._text, f"more than {_MAX_NESTED} nested conditions")
        node = rule(self, e)
        self._depth -= 1
        return node

    def _refuse(self, e: exp.Expr) -> NoReturn:
        raise _invalid(self._text, f"{e.sql(dialect='spark')!r}")

    def _column(self, e: Any) -> DataField:
        """Return the column of a name, which is case-sensitive; `a.b` is a column of that name, not a field of `a`."""
        if not isinstance(e, exp.Column):
            self._refuse(e)
        name = ".".join(part.name for part in e.parts)
        column = self._schema.by_name.get(name)
        if column is None:
            raise unknown_column(name, repr(self._text), self._schema)
        return column

    def _value(self, e: Any) -> Any:
        """Return the Python value of a literal; None for NULL."""
        if isinstance(e, exp.Paren):
            return self._value(e.this)
        rule = _VALUES.get(type(e))
        if rule is None:
            self._refuse(e)
        try:
            return rule(self, e)
        except (ValueError, ArithmeticError):
            self._refuse(e)

    def number(self, e: exp.Neg) -> Any:
        value = self._value(e.this)
        if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
            self._refuse(e)
        # Decimal's own minus would round to 28 digits.
        return value.copy_negate() if isinstance(value, Decimal) else -value

    def plain(self, e: exp.Literal) -> Any:
        """Return a number or text: 5 is an int, 5.0 a Decimal, 5e0 a float; 'text' is a text for any column."""
        if e.is_string:
            return e.this
        text = str(e.this)
        return (
            int(text) if text.isdigit() else float(text) if "e" in text.lower() else Decimal(text)
        )

    def cast(self, e: exp.Cast) -> Any:
        """Return the value of DATE '..', TIME '..' or TIMESTAMP '..', which sqlglot parses as casts of texts."""
        text = self._value(e.this)
        kind = str(e.to.this.value).upper()
        if not isinstance(text, str):
            self._refuse(e)
        if kind.startswith("TIMESTAMP") or kind == "DATETIME":
            kind = "TIMESTAMP"
        return TimeLiteral(kind, text) if kind in FORMS else self._refuse(e)

    def compare(self, e: exp.Binary) -> Node:
        op = _OPS[type(e)]
        left, right = _bare(e.this), _bare(e.expression)
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, op = right, left, MIRRORED[op]
        if not isinstance(left, exp.Column):
            self._refuse(e)
        return self._comparison(self._column(left), op, right)

    def _comparison(self, column: DataField, op: str, e: exp.Expr) -> Node:
        value = self._value(e)
        return Truth(None) if value is None else Compare(column, op, literal(column, value))

    def same(self, e: exp.NullSafeEQ) -> Node:
        """Translate <=>: equal, or both null. It is never null itself."""
        left, right = _bare(e.this), _bare(e.expression)
        if isinstance(right, exp.Column):
            left, right = right, left
        column, value = self._column(left), self._value(right)
        if value is None:
            return IsNull(column)
        return And((Not(IsNull(column)), Compare(column, "=", literal(column, value))))

    def between(self, e: exp.Between) -> Node:
        column = self._column(_bare(e.this))
        return And(
            (
                self._comparison(column, ">=", e.args["low"]),
                self._comparison(column, "<=", e.args["high"]),
            )
        )

    def member(self, e: exp.In) -> Node:
        column = self._column(_bare(e.this))
        if not e.expressions or e.args.get("query") is not None:
            self._refuse(e)
        values = [self._value(item) for item in e.expressions]
        literals = tuple(literal(column, value) for value in values if value is not None)
        node: Node = In(column, literals)
        # x IN (1, NULL) is true or null, never false.
        return Or((node, Truth(None))) if len(literals) < len(values) else node

    def test(self, e: exp.Is) -> Node:
        """Translate IS NULL, and IS TRUE or FALSE of a comparison, which are never null. sqlglot parses IS NOT as a
        NOT around them.
        """
        constant = _bare(e.expression)
        if isinstance(constant, exp.Null):
            return IsNull(self._column(_bare(e.this)))
        if isinstance(constant, exp.Boolean):
            part = self.node(e.this)
            if not isinstance(part, Compare):
                self._refuse(e)
            return And((Not(IsNull(part.column)), part if constant.this else Not(part)))
        return self._refuse(e)

    def like(self, e: exp.Like) -> Node:
        return self._like(e, "\\")

    def escaped_like(self, e: exp.Escape) -> Node:
        escape = self._value(e.expression)
        if not isinstance(e.this, exp.Like) or not isinstance(escape, str) or len(escape) != 1:
            self._refuse(e)
        return self._like(e.this, escape)

    def _like(self, e: exp.Like, escape: str) -> Node:
        column, text = self._column(_bare(e.this)), self._value(e.expression)
        if column.type.root not in TEXTS:
            raise InvalidError(
                f"column {column.name!r}",
                found=f"LIKE in the filter, of {column.type}",
                expected="a column of texts",
                action="Correct the filter.",
            )
        if text is None:
            return Truth(None)
        literal(column, text)
        pattern, prefix = _like_pattern(text, escape)
        node = Like(column, pattern, prefix)
        return Not(node) if e.args.get("negate") else node

    def alone(self, e: exp.Column) -> Node:
        column = self._column(e)
        if column.type.root != "BOOLEAN":
            self._refuse(e)
        return Compare(column, "=", True)


def _bare(e: Any) -> Any:
    return e.unnest() if isinstance(e, exp.Paren) else e


def _like_pattern(text: str, escape: str) -> tuple[str, bytes]:
    r"""Return (pattern with backslash as its escape, the UTF-8 before the first wildcard).

        ab%c_                   ab%c_       prefix ab
        50!%% ESCAPE '!'        50\%%       prefix 50%
        a\_b                    a\_b        prefix a_b, all of it
        x\y ESCAPE '!'          x\\y        prefix x\y

    An escape at the very end is a plain character.
    """
    pattern, prefix, open_prefix, index = "", "", True, 0
    while index < len(text):
        char = text[index]
        if char == escape and index + 1 < len(text):
            index += 1
            char = text[index]
        elif char in "%_":
            pattern, open_prefix, index = pattern + char, False, index + 1
            continue
        pattern += f"\\{char}" if char in "%_\\" else char
        prefix += char if open_prefix else ""
        index += 1
    return pattern, prefix.encode()


_OPS: Final[dict[type, str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# Optional arguments of nodes that we read.
_OPTIONAL: Final[dict[type, tuple[str, ...]]] = {
    exp.Column: ("table", "db", "catalog"),
    exp.In: ("expressions",),
    exp.Like: ("negate",),
}
_RULES: Final[dict[type, Callable[[_Reader, Any], Node]]] = {
    exp.And: lambda reader, e: And(tuple(map(reader.node, e.flatten()))),
    exp.Or: lambda reader, e: Or(tuple(map(reader.node, e.flatten()))),
    exp.Not: lambda reader, e: Not(reader.node(e.this)),
    exp.Paren: lambda reader, e: reader.node(e.this),
    **dict.fromkeys(_OPS, _Reader.compare),
    exp.NullSafeEQ: _Reader.same,
    exp.Between: _Reader.between,
    exp.In: _Reader.member,
    exp.Is: _Reader.test,
    exp.Like: _Reader.like,
    exp.Escape: _Reader.escaped_like,
    exp.Column: _Reader.alone,
    exp.Boolean: lambda reader, e: Truth(bool(e.this)),
    exp.Null: lambda reader, e: Truth(None),
}
_VALUES: Final[dict[type, Callable[[_Reader, Any], Any]]] = {
    exp.Literal: _Reader.plain,
    exp.Neg: _Reader.number,
    exp.Boolean: lambda reader, e: bool(e.this),
    exp.Null: lambda reader, e: None,
    exp.HexString: lambda reader, e: bytes.fromhex(e.this),
    exp.Cast: _Reader.cast,
    exp.TryCast: _Reader.cast,
}
