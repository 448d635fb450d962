"""Which rows of a fact table may have other widened columns than before, as they are at a snapshot.

    touched   facts that were written in (f0, f], but by the round that ended with f0 and d0
    followed  facts whose foreign key leads to a dim row that differs between d0 and d: by the fact's index on the
              foreign key, where that is not behind f

Without a snapshot before, without an index, or where so many are asked for that one scan is cheaper: all facts of f.
Candidates too many cost time only. Raises what lookups and scans raise.

    1,000,000 facts    touched 200    changed dim rows 3, followed by the index to 40,000 facts    40,200 keys looked up
                       touched 200    changed dim rows 3, no index                                 all scanned
                       touched 130,000, more than an eighth                                        all scanned

An index that is ahead of f will do: facts that it leads to besides are compared for nothing,
and a fact that has left it since was written after f, so that it is not to be widened in this
round anyway.
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
    """Their rows at the fact's snapshot, each once, piece by piece: these columns and the foreign key; those of the key
    among them.
    """
    fact, fact_id = of.widening.fact, of.pair.fact_id
    wanted = list(dict.fromkeys([*columns, of.widening.option.column]))
    keys = None if of.last.done is None else _keys(of, of.last.done)
    return rows_of_keys(
        keys, lambda: scan_at(fact, fact_id, wanted), lambda: view_at(fact, fact_id, wanted)
    )


def rows_of_keys(
    keys: pa.Table | None, scan: Callable[[], ArrowRows], view: Callable[[], LookupView]
) -> Iterator[pa.Table]:
    """The rows that there are, piece by piece. keys: None for all rows."""
    if keys is None:
        for batch in scan().to_batches():
            yield pa.Table.from_batches([batch])
        return
    with closing(view()) as rows:
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            yield present(rows.lookup(keys.slice(start, _KEYS_AT_ONCE)), keys.column_names)


def _keys(of: NumberedRound, done: Pair) -> pa.Table | None:
    """Keys of candidates; None: scan all."""
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
    """Those that were touched, in files, and those that lead to rows of the dim, each once; None: so many of all rows
    that one scan costs less, or nobody knows the second. Files with too many rows are not read.
    """
    if sum(file.row_count for members in files.values() for file in members) > SCAN_SHARE * rows:
        return None
    touched, followed = keys_in(table, files), follow()
    if followed is None or touched.num_rows + followed.num_rows > SCAN_SHARE * rows:
        return None
    return distinct_rows(pa.concat_tables([touched, followed]))


def _touched(of: NumberedRound, done: Pair) -> TouchedFiles:
    """By whomever, but by the round that has ended at `done`: what one of ours wrote before it was killed may be of a
    dim row that is since what it was.
    """
    fact, end_id = of.widening.fact, of.pair.fact_id + 1
    committer, found = fact._committer, dict[BucketId, list[DataFileMeta]]()
    ours = (user_of(of.widening.option), of.last.number if of.last.has_ended else None)
    load, ids = committer.snapshots.load, range(done.fact_id + 1, end_id)
    of_last = [id for id in ids if round_of(load(id)) == ours]
    for after, next_id in pairwise([done.fact_id, *of_last, end_id]):
        files = touched_files(fact._state(), committer.live_files, after, next_id - 1)
        for bucket, members in files.items():
            found.setdefault(bucket, []).extend(members)
    return found


def keys_in(table: OpenTable, files: TouchedFiles) -> pa.Table:
    """The keys in files, each once, with the columns of their partition; a rescaled one may be in two buckets."""
    state = table._state()
    batches = [
        whole_keys(distinct_keys(state, group), next(iter(group)), state.schema)
        for group in touched_groups(state, files)
    ]
    return pa.Table.from_batches(batches, nullable_keys(table))


def nullable_keys(table: OpenTable) -> pa.Schema:
    """Of keys that are given, or were found."""
    fields = table.schema.arrow_schema(table.schema.primary_keys)
    return pa.schema([field.with_nullable(True) for field in fields])


def _changed_keys(dim: OpenTable, option: WidenOption, after_id: int, until_id: int) -> pa.Table:
    """Keys of the dim whose widened columns differ."""
    key = dim.schema.primary_keys
    columns = list(dict.fromkeys([*key, *option.columns.values()]))
    found = [pa.table([pa.array([], dim.schema.arrow_schema(key).field(0).type)], list(key))]
    for before, after in changed_rows(dim, after_id, until_id, columns):
        same = equal_rows(before, after)
        for rows in (before, after):
            found.append(present(rows.select(list(key)).filter(pa.array(~same)), key))
    return pa.concat_tables(found)


def followed_by_index(
    fact: OpenTable, option: WidenOption, changed: pa.Table, fact_id: int
) -> pa.Table | None:
    """Keys of the facts that refer to these rows of the dim, by an index that has come to that snapshot, or further;
    None: there is none.

    changed: one column, the dim's key; it is cast to the foreign key's type, as writes cast.
    fact_id: rows that were written up to it are in the index. The index and its base are held
    while it is asked.
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
    asked = key_cast(one_array(changed.column(0)), schema.field(option.column), kind)
    with closing(IndexView(fact, fitting, [])) as view:
        return view.keys(pa.table([asked], [option.column]))


def _rows_at(table: OpenTable, snapshot_id: int) -> int:
    entries = table._committer.live_files.live_entries(table._committer.snapshots.load(snapshot_id))
    return sum(entry.file.row_count for entry in entries)
