"""Debezium's records, and what is counted of them.

    key    {"id":1}      value    {"before":null,"after":{"id":1,"name":"x"},"op":"c",...}      ordinal    0
           {"id":1}               null (a tombstone)                                                       1

A `RecordBatch` of Arrow with the columns key and value, texts or bytes, becomes `Records`. A value that is not UTF-8
is no JSON. Raises InvalidError for columns of other types.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError


@dataclass(frozen=True)
class Records:
    """n records. keys: large_string[n]; None if nobody knows them. values: large_string[n], null for a tombstone.
    ordinals: int64[n], ascending, equal whenever the batch is read again. is_utf8: bool[n], false where the value is
    something else, and therefore null.
    """

    keys: pa.Array | None
    values: pa.Array
    ordinals: npt.NDArray[np.int64]
    is_utf8: npt.NDArray[np.bool_]

    @staticmethod
    def of(keys: pa.Array | None, values: pa.Array, ordinals: npt.NDArray[np.int64]) -> Records:
        """Return records of columns of texts or bytes."""
        key_texts = None if keys is None else _texts(keys, "key")[0]
        value_texts, is_utf8 = _texts(values, "value")
        return Records(key_texts, value_texts, ordinals, is_utf8)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.values)


@dataclass(frozen=True)
class RecordCounts:
    """What a batch held. records: all of them. tombstones: without a value. messages: of op m, which change no row.
    bad: that went to the error table. late: that came behind a newer one by the source's position.
    """

    records: int = 0
    tombstones: int = 0
    messages: int = 0
    bad: int = 0
    late: int = 0

    def __add__(self, other: RecordCounts) -> RecordCounts:
        """Return the sums."""
        return RecordCounts(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )


def _texts(column: pa.Array, name: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    every = np.ones(len(column), np.bool_)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(pa.large_string()), every
    if not _is_text(column.type):
        raise InvalidError(
            f"column {name!r} of Debezium records",
            found=str(column.type),
            expected="texts or bytes of JSON",
            action="Pass Kafka's key and value as they are, or lines of JSON.",
        )
    try:
        return column.cast(pa.large_binary()).cast(pa.large_string()), every
    except pa.ArrowInvalid:
        texts = [None if value is None else _decoded(value) for value in _binary(column)]
        is_utf8 = np.asarray(column.is_null()) | np.array([text is not None for text in texts])
        return pa.array(texts, pa.large_string()), is_utf8


def _is_text(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type)
        or pa.types.is_large_string(type)
        or pa.types.is_binary(type)
        or pa.types.is_large_binary(type)
    )


def _binary(column: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return values


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
