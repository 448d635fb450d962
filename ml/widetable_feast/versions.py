"""The versions of a table's rows, as Feast's materialization reads them: a time for each, and when it was committed.

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

_TIME: Final = "_time"
_NEWEST_FIRST: Final = (_TIME, COMMIT_TIME, "_snapshot", "_place")


@dataclass(frozen=True)
class Versions:
    """Which columns are read. time: the one that dates a version. created: the created timestamp; None without."""

    source: WidetableSource
    keys: tuple[str, ...]
    features: tuple[str, ...]
    time: str
    created: str | None

    def read(self, config: RepoConfig, begin: datetime | None, end: datetime | None) -> pa.Table:
        """Return the versions of the range with all columns of a history."""
        table = self.source.opened(config)
        rows = row_versions(table, self.features, self.time, self.source.timestamp_unit)
        rows = rows.filter(pc.invert(rows["_deleted"]))
        if begin is not None:
            rows = rows.filter(pc.greater_equal(rows[_TIME], make_tzaware(begin)))
        if end is not None:
            rows = rows.filter(pc.less_equal(rows[_TIME], make_tzaware(end)))
        return rows

    def newest(self, rows: pa.Table) -> pa.Table:
        """Return the newest version of each key: by its time, then by its commit."""
        keys = [(key, "ascending") for key in self.keys]
        rows = rows.sort_by([*keys, *((name, "descending") for name in _NEWEST_FIRST)])
        numbered = rows.append_column("__row", pa.array(np.arange(rows.num_rows)))
        firsts = numbered.group_by(list(self.keys), use_threads=False).aggregate(
            [("__row", "first")]
        )
        return rows.take(firsts["__row_first"])

    def shown(self, rows: pa.Table) -> pa.Table:
        """Return the columns that Feast asked for. Times are times, whatever the table has."""
        names = dict.fromkeys(
            [*self.keys, *self.features, *([self.created] if self.created else [])]
        )
        columns = {name: rows[name] for name in names} | {self.time: rows[_TIME]}
        return pa.table(columns)
