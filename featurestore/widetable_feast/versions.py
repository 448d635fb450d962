"""The versions of a table's rows, as Feast's materialization reads them: a time for each, and when it was committed.

    source timestamp_field    time of a version
    event                     its value; a version without one does not count
    seen_at, "millis"         the number, as a time
    _from                     the time of its commit

In: a source and a range of times, both ends with it. Out: keys, features, times, and the created timestamp if there
is one. Deleted rows do not count: Feast has no deletes. Raises what `row_versions` raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from feast.repo_config import RepoConfig
from feast.utils import make_tzaware

from widetable.connector import row_versions
from widetable_feast.table_source import COMMIT_TIME, WidetableSource

_UNITS: Final = {"seconds": "s", "millis": "ms", "micros": "us", "nanos": "ns"}
_UTC: Final = pa.timestamp("us", "UTC")
_NEWEST_FIRST: Final = tuple((name, "descending") for name in (COMMIT_TIME, "_snapshot", "_place"))


@dataclass(frozen=True)
class Versions:
    """Which columns are read. created: what Feast calls the created timestamp; None without."""

    keys: tuple[str, ...]
    features: tuple[str, ...]
    created: str | None

    def read(
        self,
        config: RepoConfig,
        source: WidetableSource,
        begin: datetime | None,
        end: datetime | None,
    ) -> pa.Table:
        """Return the versions of the range with all columns of a history."""
        own = {source.timestamp_field} - {COMMIT_TIME}
        columns = dict.fromkeys([*self.features, *own])
        rows = row_versions(source.opened(config), [n for n in columns if n not in self.keys])
        rows = rows.filter(pc.invert(rows["_deleted"]))
        rows = rows.filter(pc.is_valid(rows[source.timestamp_field]))
        times = _times(rows[source.timestamp_field], source.timestamp_unit)
        if begin is not None:
            rows, times = _where(rows, times, pc.greater_equal(times, _scalar(begin)))
        if end is not None:
            rows, times = _where(rows, times, pc.less_equal(times, _scalar(end)))
        place = rows.column_names.index(source.timestamp_field)
        return rows.set_column(place, source.timestamp_field, times)

    def newest(self, rows: pa.Table, source: WidetableSource) -> pa.Table:
        """Return the newest version of each key: by its time, then by its commit."""
        order = dict([(source.timestamp_field, "descending"), *_NEWEST_FIRST])
        rows = rows.sort_by([*((key, "ascending") for key in self.keys), *order.items()])
        numbered = rows.append_column("__row", pa.array(np.arange(rows.num_rows)))
        firsts = numbered.group_by(list(self.keys), use_threads=False).aggregate(
            [("__row", "first")]
        )
        return self.shown(rows.take(firsts["__row_first"]), source)

    def shown(self, rows: pa.Table, source: WidetableSource) -> pa.Table:
        """Return the columns that Feast asked for."""
        created = [] if not self.created else [self.created]
        names = dict.fromkeys([*self.keys, *self.features, source.timestamp_field, *created])
        return rows.select(list(names))


def _where(
    rows: pa.Table, times: pa.ChunkedArray, chosen: pa.ChunkedArray
) -> tuple[pa.Table, pa.ChunkedArray]:
    return rows.filter(chosen), times.filter(chosen)


def _times(column: pa.ChunkedArray, unit: str | None) -> pa.ChunkedArray:
    if unit is not None:
        column = column.cast(pa.int64()).cast(pa.timestamp(_UNITS[unit]))
    return column.cast(_UTC, safe=False)


def _scalar(time: datetime) -> pa.Scalar:
    return pa.scalar(make_tzaware(time), _UTC)
