"""Convert JSON values to columns: the inverse of `printed_value`.

    numbers, true, false, text       `parsed_text` parses the text; BOOLEAN is true or false or their text,
                                     CHAR, VARCHAR, BINARY, VARBINARY, DATE and times are texts only
    ARRAY                            a list
    MAP, MULTISET                    a list of [key, value]; no key is null
    ROW                              an object; a missing field is null
    null                             null

In: for each row a value from `json.loads`, with numbers as `JsonNumber`, their text in JSON; out: the
type's Arrow column. Raises InvalidError for a value that the type does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import shown
from widetable.errors import InvalidError
from widetable.format.parsed_text import parsed_texts
from widetable.schema.types import DataType, arrow_type


class JsonNumber(str):
    """The text of a number in JSON."""

    __slots__ = ()


_BOOLEANS: Final = {True: "true", False: "false"}
_NUMERIC: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"))


def parsed(values: Sequence[Any], kind: DataType) -> pa.Array:
    """Return a column of the type."""
    return _NESTED.get(kind.root, _plain)(values, kind)


def null_mask(values: Sequence[Any]) -> pa.Array:
    """Return whether each value is None."""
    return pa.array([value is None for value in values], pa.bool_())


def list_offsets(values: Sequence[Any]) -> pa.Array:
    """Return where the items of each value begin among all items, and the end; None has no items."""
    lengths = (0 if value is None else len(value) for value in values)
    return pa.array([0, *accumulate(lengths)], pa.int32())


def _plain(values: Sequence[Any], kind: DataType) -> pa.Array:
    if kind.root == "BOOLEAN":
        values = [_BOOLEANS[value] if isinstance(value, bool) else value for value in values]
    taken = {str, JsonNumber} if kind.root in _NUMERIC else {str}
    for value in values:
        if value is not None and type(value) not in taken:
            raise _refused(value, kind, "a number" if kind.root in _NUMERIC else "a text")
    try:
        texts = pa.array(values, pa.string())
    except UnicodeEncodeError as cause:
        raise _refused(cause.object, kind, "text without halves of surrogate pairs") from cause
    return parsed_texts(texts, kind)


def _lists(values: Sequence[Any], kind: DataType) -> pa.Array:
    assert kind.element is not None
    _check(values, kind, list, "a list")
    elements = parsed(list(chain.from_iterable(filter(None, values))), kind.element)
    return pa.ListArray.from_arrays(
        list_offsets(values), elements, arrow_type(kind), mask=null_mask(values)
    )


def _maps(values: Sequence[Any], kind: DataType) -> pa.Array:
    _check(values, kind, list, "a list of [key, value]")
    pairs = list(chain.from_iterable(filter(None, values)))
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or pair[0] is None:
            raise _refused(pair, kind, "[key, value] with a key that is not null")
    key, value = kind.entry
    return pa.MapArray.from_arrays(
        list_offsets(values),
        parsed([pair[0] for pair in pairs], key),
        parsed([pair[1] for pair in pairs], value),
        arrow_type(kind),
        mask=null_mask(values),
    )


def _rows(values: Sequence[Any], kind: DataType) -> pa.Array:
    _check(values, kind, dict, "an object")
    names = [field.name for field in kind.fields]
    field_names = frozenset(names)
    for value in values:
        if value is not None and not field_names.issuperset(value):
            raise _refused(value, kind, f"an object of {', '.join(names)}")
    rows = [value or {} for value in values]
    parts = [parsed([row.get(f.name) for row in rows], f.type) for f in kind.fields]
    return pa.StructArray.from_arrays(parts, fields=list(arrow_type(kind)), mask=null_mask(values))


def _check(values: Sequence[Any], kind: DataType, wanted: type, form: str) -> None:
    for value in values:
        if value is not None and type(value) is not wanted:
            raise _refused(value, kind, form)


def _refused(value: Any, kind: DataType, expected: str) -> InvalidError:
    return InvalidError(
        f"value of the type {kind}",
        found=shown(value),
        expected=expected,
        action="Correct the value.",
    )


_NESTED: Final[dict[str, Callable[[Sequence[Any], DataType], pa.Array]]] = {
    "ARRAY": _lists,
    "MAP": _maps,
    "MULTISET": _maps,
    "ROW": _rows,
}
