"""The expressions of computed columns, parsed by sqlglot and translated into a tree of our own. Pure.

    column                  name, or "name" where it is no plain word; as the source writes it
    constant                'text', whole numbers, TRUE, FALSE
    call                    function(argument, ...); CAST(argument AS type)

sqlglot only parses. A kind of node that is not above is refused, and so is more than one statement. Which functions
there are says `functions.py`. Raises InvalidError that names the expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from widetable import InvalidError

CAST: Final = "cast"
_MOST_NESTED: Final = 20


@dataclass(frozen=True)
class ColumnOf:
    """A column of the source."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A value that all rows share."""

    value: str | int | bool


@dataclass(frozen=True)
class Call:
    """A function, in lower case, of arguments. Of a cast the second one is the text of the type."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = ColumnOf | Constant | Call


class _Dialect(Dialect):
    """SQL in which sqlglot gives no function a meaning, except for CAST, whose arguments have a form of their own."""

    class Parser(sqlglot.Parser):
        # sqlglot's metaclass reads plain dicts.
        FUNCTIONS = {}  # noqa: RUF012
        FUNCTION_PARSERS = {"CAST": sqlglot.Parser.FUNCTION_PARSERS["CAST"]}  # noqa: RUF012
        NO_PAREN_FUNCTIONS = {}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {}  # noqa: RUF012


def parse_expression(text: str) -> Expression:
    """Return the tree of an expression."""
    try:
        parsed = sqlglot.parse(text, read=_Dialect)
    except SqlglotError as cause:
        first = str(cause).splitlines()[0].replace("\x1b[4m", "").replace("\x1b[0m", "")
        raise _refused(text, f"text that is no expression ({first})") from cause
    if len(parsed) != 1 or parsed[0] is None:
        raise _refused(text, "no expression, or several")
    return _ExpressionReader(text).node(parsed[0], 0)


class _ExpressionReader:
    """Translates sqlglot's tree. text: of the whole expression, for errors."""

    def __init__(self, text: str) -> None:
        self._text = text

    def node(self, e: Any, depth: int) -> Expression:
        """Translate a node."""
        if depth > _MOST_NESTED:
            raise _refused(self._text, f"more than {_MOST_NESTED} nested calls")
        if isinstance(e, exp.Paren):
            return self.node(e.this, depth + 1)
        if isinstance(e, exp.Cast) and type(e) is exp.Cast and not e.args.get("format"):
            kind = Constant(e.to.sql(dialect="spark"))
            return Call(CAST, (self.node(e.this, depth + 1), kind))
        if isinstance(e, exp.Anonymous):
            arguments = tuple(self.node(each, depth + 1) for each in e.expressions)
            return Call(str(e.this).lower(), arguments)
        if isinstance(e, exp.Column) and len(e.parts) == 1:
            return ColumnOf(e.name)
        return self._constant(e)

    def _constant(self, e: Any) -> Constant:
        if isinstance(e, exp.Boolean):
            return Constant(bool(e.this))
        if isinstance(e, exp.Literal) and e.is_string:
            return Constant(str(e.this))
        is_minus = isinstance(e, exp.Neg)
        literal = e.this if is_minus else e
        if isinstance(literal, exp.Literal) and str(literal.this).isdigit():
            return Constant(-int(literal.this) if is_minus else int(literal.this))
        raise _refused(self._text, repr(e.sql()))


def _refused(text: str, problem: str) -> InvalidError:
    return InvalidError(
        f"expression {text!r}",
        found=problem,
        expected="a column, a constant, or a function of these; texts in single quotes",
        action="Correct the expression.",
    )
