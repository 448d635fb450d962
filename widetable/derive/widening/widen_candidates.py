"""The candidates of a round: rows of a fact table, as of a snapshot, whose widened columns may have to change.

    touched   facts that were written in (f0, f], except by the round that ended with f0 and d0
    followed  facts whose foreign key leads to a dim row that differs between d0 and d: by the fact's index on the
              foreign key, if that is not behind f

All facts of f are candidates without an earlier snapshot, without an index, or if there are so many candidates that one
scan is cheaper. Surplus candidates only cost time. Raises what lookups and scans raise.

    1,000,000 facts    touched 200    changed dim rows 3, followed by the index to 40,000 facts    40,200 keys looked up
                       touched 200    changed dim rows 3, no index                                 all scanned
                       touched 130,000, more than an eighth                                        all scanned

An index that is ahead of f is good enough: the additional facts that it leads to are compared unnecessarily, and a fact
that has left it since was written after f, so this round does not widen it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Final

import pyarrow as pa

from widetable.commit.transaction.touched_keys import (
    TouchedFiles,
    distinct_keys,
    touched_files,
    touched_groups,
)
from widetable.derive.changes.equal_keys import distinct_rows
from widetable.derive.changes.row_changes import changed_rows, whole_keys
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.indexes.index_lookup import IndexView
from widetable.derive.indexes.index_progress import index_progress
from widetable.derive.indexes.index_table import find_index
from widetable.derive.joins.join_side import present
from widetable.derive.widening.widen_commits import NumberedRound
from widetable.derive.widening.widen_progress import Pair, round_of, user_of
from widetable.errors import NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.kernels.arrow_buffers import one_array
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.read.arrow_rows import ArrowRows
from widetable.schema.derived_options import WidenOption, index_options
from widetable.write.safe_cast import key_cast

_KEYS_AT_ONCE: Final = 1 << 16
# From this share of the facts on, one scan costs less than lookups.
SCAN_SHARE: Final = 1 / 8


def candidates(of: NumberedRound, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the candidates at the fact's snapshot, each once, piece by piece.

    columns: they include the primary key; the foreign key is added.
    """
    fact, fact_id = of.widening.fact, of.pair.fact_id
    names = list(dict.fromkeys([*columns, of.widening.option.column]))
    keys = None if of.last.done is None else _keys(of, of.last.done)
    return rows_of_keys(
        keys, lambda: scan_at(fact, fact_id, names), lambda: view_at(fact, fact_id, names)
    )


def rows_of_keys(
    keys: pa.Table | None, scan: Callable[[], ArrowRows], view: Callable[[], LookupView]
) -> Iterator[pa.Table]:
    """Yield the existing rows of these keys, piece by piece. keys: None for all rows."""
    if keys is None:
        for batch in scan().to_batches():
            yield pa.Table.from_batches([batch])
        return
    with closing(view()) as rows:
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            yield present(rows.lookup(keys.slice(start, _KEYS_AT_ONCE)), keys.column_names)


def _keys(of: NumberedRound, done: Pair) -> pa.Table | None:
    """Return the keys of the candidates, or None: scan all facts."""
    (fact, dim, option, _), pair = of.widening, of.pair
    try:
        touched = _touched(of, done)
        changed = _changed_keys(dim, option, done.dim_id, pair.dim_id)
    except NotFoundError:  # a range that has expired
        return None

    def follow() -> pa.Table | None:
        if not changed.num_rows:
            return nullable_keys(fact).empty_table()
        return followed_by_index(fact, option, changed, pair.fact_id)

    return few_keys(fact, touched, follow, _rows_at(fact, pair.fact_id))


def few_keys(
    table: OpenTable, files: TouchedFiles, follow: Callable[[], pa.Table | None], rows: int
) -> pa.Table | None:
    """Return the keys in the files and those that `follow` returns, each once.

    Return None if they are so many of all rows that one scan costs less, or if `follow` returns None. Files with too
    many rows are not read.
    """
    if sum(file.row_count for members in files.values() for file in members) > SCAN_SHARE * rows:
        return None
    touched, followed = keys_in(table, files), follow()
    if followed is None or touched.num_rows + followed.num_rows > SCAN_SHARE * rows:
        return None
    return distinct_rows(pa.concat_tables([touched, followed]))


def _touched(of: NumberedRound, done: Pair) -> TouchedFiles:
    """Return the files that any commit has written since `done`, except the commits of the round that ended at `done`.

    The commits of a killed round count: they may have used a dim row that has since got its old values back.
    """
    fact, end_id = of.widening.fact, of.pair.fact_id + 1
    committer, touched = fact._committer, dict[BucketId, list[DataFileMeta]]()
    last_ended = (user_of(of.widening.option), of.last.number if of.last.has_ended else None)
    load, ids = committer.snapshots.load, range(done.fact_id + 1, end_id)
    skipped_ids = [id for id in ids if round_of(load(id)) == last_ended]
    for after, next_id in pairwise([done.fact_id, *skipped_ids, end_id]):
        files = touched_files(fact._state(), committer.live_files, after, next_id - 1)
        for bucket, members in files.items():
            touched.setdefault(bucket, []).extend(members)
    return touched


def keys_in(table: OpenTable, files: TouchedFiles) -> pa.Table:
    """Return the keys in files, each once, with their partition columns; a rescaled partition may have two buckets."""
    state = table._state()
    batches = [
        whole_keys(distinct_keys(state, group), next(iter(group)), state.schema)
        for group in touched_groups(state, files)
    ]
    return pa.Table.from_batches(batches, nullable_keys(table))


def nullable_keys(table: OpenTable) -> pa.Schema:
    """Return the schema of key tables: the primary key, with nullable columns."""
    fields = table.schema.arrow_schema(table.schema.primary_keys)
    return pa.schema([field.with_nullable(True) for field in fields])


def _changed_keys(dim: OpenTable, option: WidenOption, after_id: int, until_id: int) -> pa.Table:
    """Return the keys of the dim whose widened columns differ between the two snapshots."""
    key = dim.schema.primary_keys
    columns = list(dict.fromkeys([*key, *option.columns.values()]))
    keys = [pa.table([pa.array([], dim.schema.arrow_schema(key).field(0).type)], list(key))]
    for before, after in changed_rows(dim, after_id, until_id, columns):
        same = equal_rows(before, after)
        for rows in (before, after):
            keys.append(present(rows.select(list(key)).filter(pa.array(~same)), key))
    return pa.concat_tables(keys)


def followed_by_index(
    fact: OpenTable, option: WidenOption, changed: pa.Table, fact_id: int
) -> pa.Table | None:
    """Return the keys of the facts that refer to these rows of the dim, by an index that has reached `fact_id`.

    Return None if there is no such index. changed: one column, the dim's key; it is cast to the foreign key's type, as
    writes cast. fact_id: the index must have the rows that were written up to it. The index and its base are held
    during the lookup.
    """
    own, schema = (option.column,), fact.schema
    fitting = next((one for one in index_options(schema.options) if one.columns == own), None)
    index = None if fitting is None else find_index(fact, fitting)
    if fitting is None or index is None:
        return None
    latest = index._committer.snapshots.latest()
    source_id = index_progress(index, fact, fitting, latest).source_id
    if source_id is None or source_id < fact_id:
        return None
    kind = schema.arrow_schema(own).field(0).type
    keys = key_cast(one_array(changed.column(0)), schema.field(option.column), kind)
    with closing(IndexView(fact, fitting, [])) as view:
        return view.keys(pa.table([keys], [option.column]))


def _rows_at(table: OpenTable, snapshot_id: int) -> int:
    entries = table._committer.live_files.live_entries(table._committer.snapshots.load(snapshot_id))
    return sum(entry.file.row_count for entry in entries)
