"""The facts about a data file that its meta records: rows, numbers, keys, bounds of columns. Collected batch by batch.

Two kinds of tables have two kinds of facts behind one protocol:

    a key          rows ascend by it; first and last key, exact bounds of the key, deletes; bounds of values unknown
    append table   no key, no order, no deletes; bounds of the values (`bounded_columns`), by which readers skip files

Their size is constant, except for a minimum and a maximum of each column and batch: no rows are kept. Raises
InvalidError for keys that are out of order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from widetable.errors import InvalidError
from widetable.format.binary_row import EMPTY_ROW, encode_rows, with_arity
from widetable.format.column_stats import (
    EMPTY_STATS,
    MAX_UNKNOWN_COLUMNS,
    ColumnStats,
    KeyStats,
    Stats,
    value_stats,
)
from widetable.kernels.key_lanes import key_lanes
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

# A wide append table has bounds of its first columns only, as Delta Lake has: those of all would outweigh small files.
# Columns by which files are sorted have bounds, too.
BOUNDED_COLUMNS: Final = 32


class MetaFacts(NamedTuple):
    """The facts in the form of a DataFileMeta."""

    min_key: bytes
    max_key: bytes
    key_stats: Stats
    value_stats: Stats
    value_stats_columns: tuple[str, ...] | None
    min_sequence_number: int
    max_sequence_number: int
    delete_rows: int


class WrittenFacts(Protocol):
    """The facts of one file. rows: so far. bounded: the columns whose bounds each row group of the file has, if it
    cannot have those of all.
    """

    rows: int

    @property
    def bounded(self) -> Sequence[str]: ...

    def add(self, batch: pa.RecordBatch, path: str) -> None:
        """Add rows of the file at `path`, after all that were added."""

    def meta(self, footer: pq.FileMetaData, *, old_readers: bool) -> MetaFacts:
        """Return the facts. footer: of the complete file. old_readers: clients before 1.0 must understand them."""


class _Numbers:
    """The lowest and the highest sequence number of the rows."""

    def __init__(self) -> None:
        self.low: int | None = None
        self.high = 0

    def add(self, batch: pa.RecordBatch) -> None:
        numbers = pc.min_max(batch.column(SEQUENCE_NUMBER))
        low = numbers["min"].as_py()
        self.low = low if self.low is None else min(low, self.low)
        self.high = max(numbers["max"].as_py(), self.high)


class KeyedFacts:
    """The facts of a file whose rows ascend by their key. repeated_keys: rows of equal key may follow each other."""

    def __init__(self, schema: TableSchema, *, repeated_keys: bool) -> None:
        self._repeated_keys = repeated_keys
        self._key = schema.trimmed_primary_key
        self._key_types = [schema.field(name).type for name in self._key]
        self._columns = len(schema.fields)
        self._numbers = _Numbers()
        self._key_stats = KeyStats(self._key_types)
        self._first_key: list[pa.Array] = []
        self._last_key: list[pa.Array] = []
        self._deletes = 0
        self.rows = 0

    @property
    def bounded(self) -> Sequence[str]:
        return self._key

    def add(self, batch: pa.RecordBatch, path: str) -> None:
        keys = [batch.column(name) for name in self._key]
        self._check_order(keys, path)
        self._numbers.add(batch)
        kinds = batch.column(VALUE_KIND).to_numpy(zero_copy_only=False)
        self._deletes += int(np.count_nonzero(is_retraction(kinds)))
        self._key_stats.add(keys)
        if not self.rows:
            self._first_key = [key.slice(0, 1) for key in keys]
        self._last_key = [key.slice(len(key) - 1) for key in keys]
        self.rows += batch.num_rows

    def meta(self, footer: pq.FileMetaData, *, old_readers: bool) -> MetaFacts:
        return MetaFacts(
            self._key_row(self._first_key),
            self._key_row(self._last_key),
            self._key_stats.build(),
            *value_stats(self._columns, old_readers=old_readers),
            self._numbers.low or 0,
            self._numbers.high,
            self._deletes,
        )

    def _key_row(self, key: Sequence[pa.Array]) -> bytes:
        return with_arity(encode_rows(key, self._key_types).row(0), len(key))

    def _check_order(self, keys: list[pa.Array], path: str) -> None:
        """Raise unless keys ascend, within the batch and from the batch before; strictly, or not (format.md T2)."""
        if self._last_key:
            keys = [
                pa.concat_arrays([last, key])
                for last, key in zip(self._last_key, keys, strict=True)
            ]
        lanes = key_lanes(keys)
        # From the last lane to the first: a row comes after the one before if its first lane is
        # larger, or equal and the other lanes ascend. Rows that are equal in all lanes ascend if
        # keys may repeat.
        ascends = np.full(len(lanes) - 1, self._repeated_keys)
        for lane in lanes.T[::-1]:
            ascends = (lane[:-1] < lane[1:]) | ((lane[:-1] == lane[1:]) & ascends)
        if not ascends.all():
            at = int(np.argmin(ascends)) + self.rows
            raise InvalidError(
                path,
                found=f"a key that does not come after the one before, at row {at}",
                expected="rows sorted by key"
                + ("" if self._repeated_keys else ", one row per key"),
                action="Sort and merge the rows before they are written.",
            )


class AppendedFacts:
    """The facts of a file of an append table. A column that the file lacks is null in all rows. bounded: columns whose
    bounds are recorded in any case.
    """

    def __init__(self, schema: TableSchema, bounded: Sequence[str] = ()) -> None:
        plain = [field for field in schema.fields if not field.type.is_nested]
        is_wide = len(schema.fields) > MAX_UNKNOWN_COLUMNS
        more = [field for field in plain[BOUNDED_COLUMNS:] if field.name in bounded]
        self._fields = [*plain[:BOUNDED_COLUMNS], *more] if is_wide else list(schema.fields)
        self._stats = ColumnStats(self._fields, long=bounded)
        self._columns = len(schema.fields)
        self._is_wide = is_wide
        self._numbers = _Numbers()
        self.rows = 0

    @property
    def bounded(self) -> Sequence[str]:
        return [field.name for field in self._fields]

    def add(self, batch: pa.RecordBatch, path: str) -> None:
        self._numbers.add(batch)
        self._stats.add(batch)
        self.rows += batch.num_rows

    def meta(self, footer: pq.FileMetaData, *, old_readers: bool) -> MetaFacts:
        stats, columns = self._stats.build(footer), tuple(self.bounded) if self._is_wide else None
        if self._is_wide and old_readers:
            # They would take the stats of some columns for those of all.
            stats, columns = value_stats(self._columns, old_readers=True)
        return MetaFacts(
            EMPTY_ROW,
            EMPTY_ROW,
            EMPTY_STATS,
            stats,
            columns,
            self._numbers.low or 0,
            self._numbers.high,
            0,
        )
