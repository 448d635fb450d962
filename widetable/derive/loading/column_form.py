"""Turns columns of a table into arrays of numpy that a training takes. Pure.

In: Arrow arrays of a column, and the caller's choices for nulls and vocabularies. Out: an array of numpy, and for
`null="mask"` which of its rows are valid. Nothing is rounded:

    type of the column            array                     value
    BOOLEAN                       bool
    TINYINT .. BIGINT             int8 .. int64
    FLOAT, DOUBLE                 float32, float64
    DATE                          int32                     days since 1970-01-01
    TIME                          int32                     milliseconds of the day
    TIMESTAMP, both kinds         int64                     since 1970 UTC, in the unit of `Table.arrow_schema`
    DECIMAL, up to 18 digits      int64                     unscaled: 1.50 of a DECIMAL(5, 2) is 150
    CHAR, VARCHAR                 object                    texts; with a vocabulary int64: the place of the word in it
    BINARY, VARBINARY             object                    bytes
    ARRAY of BOOLEAN or numbers   that of the elements      two dimensions: lists of one length, without nulls

A word that is not in the vocabulary has the place behind the last one, len(vocabulary): one more row of an embedding.
Other types raise UnsupportedError, which names the column. Raises InvalidError for a null that no choice allows, for
lists of several lengths, and for choices that do not fit the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import shown
from widetable.errors import InvalidError, UnsupportedError
from widetable.messages.counted import counted
from widetable.schema.types import DataField, DataType, arrow_type

_NUMBERS: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
# Types whose Arrow arrays are read as whole numbers of that width.
_AS_INTEGERS: Final = {
    "DATE": pa.int32(),
    "TIME": pa.int32(),
    "TIMESTAMP": pa.int64(),
    "TIMESTAMP_LTZ": pa.int64(),
}
_OBJECTS: Final = {"CHAR": "", "VARCHAR": "", "BINARY": b"", "VARBINARY": b""}
_TEXTS: Final = ("CHAR", "VARCHAR")
# The most digits that 64 bits always hold.
_INTEGER_DIGITS: Final = 18
_LEAVE_OUT: Final = "Leave it out of `columns`."


class Formed(NamedTuple):
    """A column as numpy has it. valid: None unless nulls are masked."""

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None


@dataclass(frozen=True)
class ColumnForm:
    """The form of one column. fill: stands for nulls; None: a null is refused. masks: whether it says which rows are
    valid. vocabulary: None for none.
    """

    field: DataField
    fill: pa.Scalar | None = None
    masks: bool = False
    vocabulary: pa.Array | None = None

    @property
    def has_objects(self) -> bool:
        """Whether the values are texts or bytes."""
        return self.field.type.root in _OBJECTS and self.vocabulary is None

    @property
    def refuses_nulls(self) -> bool:
        """Whether a null is refused that the column may have."""
        return self.field.type.nullable and self.fill is None and not self.masks

    def formed(self, array: pa.Array) -> Formed:
        """Return the values of an array of the column."""
        valid = None
        if self.masks and self.field.type.nullable:
            valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
        if array.null_count:
            array = self._without_nulls(array)
        if self.vocabulary is not None:
            return Formed(self._places(array), valid)
        if self.field.type.root == "ARRAY":
            return Formed(self._matrix(array), valid)
        return Formed(_plain(array, self.field.type), valid)

    def _without_nulls(self, array: pa.Array) -> pa.Array:
        """Return the array with each null replaced."""
        fill = self.fill
        if fill is None and self.masks:
            fill = self._zero(array)
        if fill is None:
            raise null_refused(
                self.field.name,
                f"{counted(array.null_count, 'null')} in {counted(len(array), 'row')}",
            )
        # By `take`, because `fill_null` knows no lists.
        replacement = pa.array([fill.as_py()], array.type)
        places = pc.if_else(array.is_valid(), pa.array(np.arange(len(array))), len(array))
        return pa.concat_arrays([array, replacement]).take(places)

    def _zero(self, array: pa.Array) -> pa.Scalar:
        """Return what stands for a null that is masked."""
        kind = self.field.type
        if kind.root == "ARRAY":
            lists = array.drop_null()
            if not len(lists):
                raise InvalidError(
                    f"column {self.field.name!r}",
                    found="rows whose lists are all null, so that no list tells their length",
                    expected="a list in these rows, or a value for nulls",
                    action=f"Give null={{{self.field.name!r}: [...]}}.",
                )
            zero = [0] * len(lists[0])
            return pa.scalar([bool(each) for each in zero] if _is_bool(array) else zero, array.type)
        if kind.root in _OBJECTS:
            return pa.scalar(_OBJECTS[kind.root], array.type)
        return pa.scalar(False if kind.root == "BOOLEAN" else 0, array.type)

    def _places(self, array: pa.Array) -> npt.NDArray[Any]:
        assert self.vocabulary is not None
        places = pc.index_in(array, self.vocabulary).fill_null(len(self.vocabulary))
        return np.asarray(places.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def _matrix(self, array: pa.Array) -> npt.NDArray[Any]:
        """Return lists as rows of a matrix."""
        lengths = pc.unique(pc.list_value_length(array)).to_pylist()
        if len(lengths) > 1:
            raise lengths_differ(self.field.name, lengths[:2])
        elements = array.flatten()
        if elements.null_count:
            raise null_refused(self.field.name, "a null within a list")
        assert self.field.type.element is not None
        values = _plain(elements, self.field.type.element)
        return values.reshape(len(array), lengths[0] if lengths else 0)


def lengths_differ(name: str, lengths: Sequence[int]) -> InvalidError:
    """Return the error for lists of several lengths."""
    return InvalidError(
        f"column {name!r}",
        found=f"lists of the lengths {lengths[0]} and {lengths[1]}",
        expected="lists of one length",
        action=_LEAVE_OUT,
    )


def null_refused(name: str, finding: str) -> InvalidError:
    """Return the error for a null that the caller has made no choice for."""
    return InvalidError(
        f"column {name!r}",
        found=finding,
        expected="no null, as null='error' says",
        action=f"Give null={{{name!r}: VALUE}} or null='mask', or leave them out by `filter`.",
    )


def form_of(
    field: DataField, *, masks: bool, fills: dict[str, Any], vocabularies: dict[str, Any]
) -> ColumnForm:
    """Return the form of a column. fills, vocabularies: of all columns, by name."""
    _check_type(field)
    vocabulary = _vocabulary(field, vocabularies.get(field.name))
    fill = None
    if field.name in fills:
        try:
            fill = pa.scalar(fills[field.name], arrow_type(field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            fill = None
        if fill is None or not fill.is_valid:
            raise InvalidError(
                f"null of column {field.name!r}",
                found=shown(fills[field.name]),
                expected=f"a value of the type {field.type}",
                action="Correct the value.",
            )
    return ColumnForm(field, fill, masks, vocabulary)


def _check_type(field: DataField) -> None:
    kind = field.type
    element = kind.element if kind.root == "ARRAY" else None
    is_known = (
        kind.root in (*_NUMBERS, *_AS_INTEGERS, *_OBJECTS)
        or (element is not None and element.root in _NUMBERS)
        or (kind.root == "DECIMAL" and (kind.precision or 0) <= _INTEGER_DIGITS)
    )
    if not is_known:
        raise UnsupportedError(
            f"column {field.name!r}",
            found=f"the type {kind}",
            expected="a number, a text, bytes, a time, a DECIMAL of up to 18 digits, or an ARRAY of numbers",
            action=_LEAVE_OUT,
        )


def _vocabulary(field: DataField, words: Any) -> pa.Array | None:
    if words is None:
        return None
    try:
        vocabulary = pa.array(list(words), pa.string())
        is_right = field.type.root in _TEXTS and len(vocabulary.unique()) == len(vocabulary)
        is_right = is_right and not vocabulary.null_count and not isinstance(words, str)
    except (pa.ArrowException, TypeError, ValueError):
        is_right = False
    if not is_right:
        raise InvalidError(
            f"vocabulary of column {field.name!r}",
            found=f"{shown(words)} for a column of the type {field.type}",
            expected="a list of texts, none of them twice, for a column of texts",
            action="Correct the argument.",
        )
    return vocabulary


def _plain(array: pa.Array, kind: DataType) -> npt.NDArray[Any]:
    """Return an array without nulls as numpy has it."""
    if kind.root in _AS_INTEGERS:
        array = array.view(_AS_INTEGERS[kind.root])
    if kind.root == "DECIMAL":
        words = np.frombuffer(array.buffers()[1], "<i8")
        # Of the 16 bytes of each value the lower 8 have all of it.
        return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _is_bool(lists: pa.Array) -> bool:
    return bool(pa.types.is_boolean(lists.type.value_type))
