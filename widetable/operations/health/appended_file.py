"""Laws of a data file of an append table: its rows lie in their bucket, and within the bounds of its meta.

    file-bounds   no value is outside of the minimum and maximum that the meta records, or null where it counts none
    row-bucket    each row's bucket key hashes to the bucket of the file

Readers skip files by these bounds, so a wrong one hides rows. In: the rows of a file, all of them or a part. Out: what
does not hold. Raises the errors of reading data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from widetable.format.binary_row import decode_row
from widetable.format.bucket_hash import bucket_ids
from widetable.format.column_stats import KeyStats
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.row_batch import column_or_nulls
from widetable.format.value_bounds import ValueRange, value_bounds
from widetable.write.table_state import TableState


class Breach(NamedTuple):
    """A law that does not hold: what is expected, and what is there instead."""

    law: str
    expected: str
    actual: str


class AppendedRows:
    """Checks the rows of one file, batch by batch. `breaches` may be asked when all were added."""

    def __init__(self, table: TableState, entry: ManifestEntry) -> None:
        self._schema = table.schema
        self._entry = entry
        self._bounds = value_bounds(
            entry.file, table.schema_of(entry.file.schema_id), table.schema.fields
        )
        fields = [table.schema.field(name) for name in self._bounds]
        self._fields = [field for field in fields if not field.type.is_nested]
        self._stats = KeyStats([field.type for field in self._fields])
        self._nulls = dict.fromkeys(self._bounds, 0)
        self._elsewhere = 0
        self._rows = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the check reads."""
        return tuple(dict.fromkeys([*self._bounds, *self._schema.bucket_keys]))

    def add(self, rows: pa.RecordBatch) -> None:
        """Count rows, row batches or parts of them."""
        self._rows += rows.num_rows
        columns = {
            name: column_or_nulls(rows, self._schema.arrow_field(name)) for name in self._bounds
        }
        self._stats.add([columns[field.name] for field in self._fields])
        for name, column in columns.items():
            self._nulls[name] += column.null_count
        if self._entry.total_buckets > 0:
            buckets = bucket_ids(rows, self._schema, self._entry.total_buckets)
            self._elsewhere += int(np.count_nonzero(buckets != self._entry.bucket))

    def breaches(self) -> Iterator[Breach]:
        """Yield what does not hold for the rows that were added."""
        if self._elsewhere:
            place = f"rows of bucket {self._entry.bucket} of {self._entry.total_buckets}"
            yield Breach("row-bucket", place, f"{self._elsewhere} of other buckets")
        for name, recorded in self._bounds.items():
            if self._nulls[name] and not recorded.nulls:
                yield Breach("file-bounds", f"{name} without nulls", "null")
            if self._nulls[name] < self._rows and not recorded.values:
                yield Breach("file-bounds", f"only nulls in {name}", "values")
        if not self._fields:
            return
        stats, types = self._stats.build(), [field.type for field in self._fields]
        minima, maxima = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
        for field, low, high in zip(self._fields, minima, maxima, strict=True):
            recorded = self._bounds[field.name]
            expected = f"{field.name} from {recorded.low!r} to {recorded.high!r}"
            if low is not None and _is_outside(recorded, low, high):
                yield Breach("file-bounds", expected, f"from {low!r} to {high!r}")


def _is_outside(recorded: ValueRange, low: object, high: object) -> bool:
    is_below = recorded.low is not None and low < recorded.low  # type: ignore[operator]
    is_above = recorded.high is not None and high > recorded.high  # type: ignore[operator]
    return bool(is_below or is_above)


def fit(table: TableState, entry: ManifestEntry, rows: Sequence[pa.RecordBatch]) -> bool:
    """Return whether some rows that decode belong to the file."""
    check = AppendedRows(table, entry)
    for batch in rows:
        check.add(batch)
    return next(check.breaches(), None) is None
