"""A batch of the engine's records as Arrow columns, made of four texts with a line for each record.

    topics     shop.shop.orders          of a table: <prefix>.<database>.<table>
    keys       {"id":1}
    values     {"schema":{..},"payload":{"before":null,"after":{..},"source":{..},"op":"c"}}
    offsets    {"file":"bin.000003","pos":154,"gtids":"0-1-36"}

    topic                              kind             what ends behind it
    <prefix>                           SCHEMA           -
    <prefix>.transaction               BEGIN, END       a transaction
    __debezium-heartbeat.<prefix>      HEARTBEAT        -
    others                             CHANGE           a truncate is a transaction alone

JSON of Debezium has no line feeds, and a record without a value says null. Pure. Raises DamagedError if the texts have
different numbers of lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable import DamagedError

Mask = npt.NDArray[np.bool_]
HEARTBEATS: Final = "__debezium-heartbeat"
# A row of the source cannot bring this text about: quotes in its values are escaped, and no field is an object.
_TRUNCATE: Final = '"payload":{"before":null,"after":null,'
_END: Final = '"status":"END"'
_IN_TRANSACTION: Final = '"event":'
_IN_SNAPSHOT: Final = '"snapshot":'


@dataclass(frozen=True)
class EngineBatch:
    """n records. topics, keys, values, offsets: large_string[n]."""

    topics: pa.Array
    keys: pa.Array
    values: pa.Array
    offsets: pa.Array

    @staticmethod
    def of(topics: bytes, keys: bytes, values: bytes, offsets: bytes) -> EngineBatch:
        """Return the records of four texts."""
        columns = [_lines(each) for each in (topics, keys, values, offsets)]
        counts = sorted({len(column) for column in columns})
        if len(counts) > 1:
            raise DamagedError(
                "batch of Debezium's engine",
                found=f"between {counts[0]} and {counts[-1]} lines",
                expected="one line for each record in each text",
                action="Report this with the version of Debezium.",
            )
        return EngineBatch(*columns)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.topics)

    def part(self, start: int, end: int) -> EngineBatch:
        """Return the records from start to end."""
        columns = (self.topics, self.keys, self.values, self.offsets)
        return EngineBatch(*(column.slice(start, end - start) for column in columns))

    def is_schema(self, prefix: str) -> Mask:
        """Return which records are changes of the schema."""
        return _mask(pc.equal(self.topics, prefix))

    def is_heartbeat(self) -> Mask:
        """Return which records are heartbeats."""
        return _mask(pc.starts_with(self.topics, pattern=HEARTBEATS))

    def is_change(self, prefix: str) -> Mask:
        """Return which records are changes of rows."""
        is_transaction = _mask(pc.equal(self.topics, f"{prefix}.transaction"))
        return ~(is_transaction | self.is_schema(prefix) | self.is_heartbeat())

    def is_clean(self) -> Mask:
        """Return which offsets are at the begin of a transaction."""
        return ~_mask(pc.match_substring(self.offsets, _IN_TRANSACTION)) & ~self.is_copied()

    def is_copied(self) -> Mask:
        """Return which records were made while the full copy was not complete."""
        return _mask(pc.match_substring(self.offsets, _IN_SNAPSHOT))

    def ends_transaction(self, prefix: str) -> Mask:
        """Return behind which records no transaction is open."""
        is_change = self.is_change(prefix)
        is_end = _mask(pc.equal(self.topics, f"{prefix}.transaction")) & _mask(
            pc.match_substring(self.values, _END)
        )
        is_truncate = is_change & _mask(pc.match_substring(self.values, _TRUNCATE))
        return is_end | is_truncate | (self.is_clean() & ~is_change)


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.fill_null(False)).astype(np.bool_)


def _lines(text: bytes) -> pa.Array:
    data = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data)).astype(np.int64)
    # The line feeds stay at the ends of the lines but the last, and are taken off by Arrow.
    offsets = np.concatenate(([0], ends[:-1] + 1, [len(data)])).astype(np.int64)
    lines = pa.Array.from_buffers(
        pa.large_string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    return pc.utf8_rtrim(lines, characters="\n")
