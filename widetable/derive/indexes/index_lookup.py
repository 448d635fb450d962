"""Lookups by columns that are not the key, through an index table: the index and its base at one moment.

    newest snapshot i of the index ─► its source s ─► keys by prefix at i ─► rows of these keys at s

The index may be behind the base, but the rows always fit the index: both are read as of s. Raises NotFoundError for
columns without an index and for an index that was never fed, and what lookups raise.

    reader      newest of the index: 4, fits 9                            lease on 4: expired      retries: 5, fits 12
    feeder                                          5 fits 12
    expiry                                                    removes 4, 9
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.arguments import whole_number
from widetable.commit.holds.lookup_pin import TakeLease
from widetable.commit.holds.read_lease import ReadLease, hold_if_taken
from widetable.derive.indexes.index_progress import index_progress
from widetable.derive.indexes.index_table import find_index
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_keys import rows_of
from widetable.operations.queries.lookup_view import KEY_NUMBER
from widetable.operations.queries.table_at import view_at
from widetable.schema.derived_options import IndexOption, index_options

# A try fails only if both a feeder and an expiry run between two requests.
_TRIES: Final = 5


class HeldIndex(NamedTuple):
    """The newest snapshot of an index and the snapshot of its base that it fits; leases keep both from expiry."""

    newest: Snapshot
    source: Snapshot
    leases: list[ReadLease]


def hold_index(
    base: OpenTable, index: OpenTable, option: IndexOption, take: TakeLease = hold_if_taken
) -> HeldIndex | None:
    """Hold the newest snapshot of an index and the one of its base; return None for a base without snapshots.

    The function retries if the index is fed and both snapshots expire meanwhile. The caller releases the leases; a
    failed try releases its own. take: see `hold_newest`. Raises NotFoundError for an index that fits no snapshot.
    """
    for tries_left in reversed(range(_TRIES)):
        latest = index._committer.snapshots.latest()
        source_id = index_progress(index, base, option, latest).source_id
        if latest is None or source_id is None:
            break
        leases: list[ReadLease] = []
        try:
            for table, id in ((index, latest.id), (base, source_id)):
                lease = take(table._file_io, table._paths, id)
                leases += [] if lease is None else [lease]
            return HeldIndex(latest, base._committer.snapshots.load(source_id), leases)
        except BaseException as error:
            for lease in leases:
                lease.release()
            if not isinstance(error, NotFoundError) or not tries_left:
                raise
    if base._committer.snapshots.latest_id() is None:
        return None
    raise _never_fed(base, option)


class IndexView:
    """One moment of a base and of its index, kept from expiry until `close`. Only one thread may use it at a time.

    columns: the columns of the base's rows, None for all. snapshot_id belongs to the base, index_snapshot_id to the
    index.
    """

    def __init__(self, base: OpenTable, option: IndexOption, columns: Sequence[str] | None) -> None:
        index = find_index(base, option)
        moment = None if index is None else hold_index(base, index, option)
        if index is None or moment is None:
            raise _never_fed(base, option)
        self._base = base
        self.index_snapshot_id, self.snapshot_id = moment.newest.id, moment.source.id
        with ExitStack() as stack:
            for lease in moment.leases:
                stack.callback(lease.release)
            keys = view_at(index, self.index_snapshot_id, base.schema.primary_keys)
            self._keys = stack.enter_context(closing(keys))
            self._rows = stack.enter_context(closing(view_at(base, self.snapshot_id, columns)))
            self._resources = stack.pop_all()

    def lookup(self, keys: Any, limit_per_key: int | None = None) -> pa.Table:
        """Look up rows by values of the indexed columns; see `lookup_index`."""
        matches = self._keys.lookup_prefix(keys, limit_per_key)
        rows = self._rows.lookup(matches.select(list(self._base.schema.primary_keys)))
        return rows.add_column(0, KEY_NUMBER, matches.column(KEY_NUMBER.name))

    def keys(self, keys: Any) -> pa.Table:
        """Return the primary keys of the rows that have these values."""
        matches = self._keys.lookup_prefix(keys, None)
        return matches.select(list(self._base.schema.primary_keys))

    def close(self) -> None:
        """Close all files and release both snapshots. It may be called more than once."""
        self._resources.close()


def lookup_index(
    table: OpenTable,
    keys: Any,
    columns: Sequence[str] | None = None,
    limit_per_key: int | None = None,
) -> pa.Table:
    """Look up all rows with one of the values in indexed columns.

    The option `index.<columns>` declares the index. The rows are those of the newest snapshot that the index
    fits; `inspect` shows how far it is behind.

    Parameters
    ----------
    keys : Arrow data, frame, dict, list of dicts or list
        Rows of the indexed columns, in any form that `lookup` takes.
    columns : list of str, default None
        The columns to return, in this order. None: all.
    limit_per_key : int, default None
        The highest number of rows that a value may have. Nothing is cut off. None: any number.

    Returns
    -------
    pyarrow.Table
        First column `_key_number` (int64, the position of the value, from 0), then the columns; in the
        order of key number, then key.

    Raises
    ------
    NotFoundError
        The table has no index of these columns, no maintainer has fed it, or there is no such column.
    InvalidError
        The keys do not fit the columns, or a value has more rows than `limit_per_key`.
    """
    limit = None if limit_per_key is None else whole_number(limit_per_key, "limit_per_key", least=1)
    indexes = index_options(table.schema.options)
    if not indexes:
        raise _no_index(table, ())
    one = next((each for each in indexes if len(each.columns) == 1), indexes[0])
    given = rows_of(keys, table.schema, one.columns, lambda names: index_for(table, names).columns)
    with closing(IndexView(table, index_for(table, given.schema.names), columns)) as view:
        return view.lookup(given, limit)


def index_for(table: OpenTable, names: Collection[str]) -> IndexOption:
    """Return the index on exactly these columns. Raises NotFoundError if there is none."""
    indexes = index_options(table.schema.options)
    fitting = [each for each in indexes if set(each.columns) == set(names)]
    if fitting:
        return fitting[0]
    raise _no_index(table, names)


def _never_fed(base: OpenTable, option: IndexOption) -> NotFoundError:
    return NotFoundError(
        f"index {option.table!r} of {name_of(base)!r}",
        found="an index that was never fed, or that fits no existing snapshot of its table",
        expected="an index that a maintainer has fed",
        action="Run maintain on the table.",
    )


def _no_index(table: OpenTable, names: Collection[str]) -> NotFoundError:
    indexes = ", ".join(each.key for each in index_options(table.schema.options))
    return NotFoundError(
        "keys",
        found=f"the columns {', '.join(names) or 'none'}"
        if indexes
        else "a table without an index",
        expected=f"the columns of an index of {name_of(table)!r}: {indexes or 'none'}",
        action="Name the columns of an index, or declare one: option index.<column> = <database>.<table>.",
    )
