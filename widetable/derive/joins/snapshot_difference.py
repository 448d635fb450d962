"""The rows in which two states of a table differ, whatever was written in between: Paimon's mode `diff`.

    bucket with the same files in both      nothing, unread
    key only in the later state             +I its row
    key in both, with other values          -U the row before, +U the row after
    key only in the earlier state           -D its row

In: two chosen states, both with the current columns. Out: batches, bucket by bucket; within a bucket first the rows of
the later state, then the deleted rows, each by key. A key that moved to another bucket (the table was rescaled) is
looked up in its bucket of the other state, so it is reported only if its row differs, in its later bucket. Memory: a
batch of rows and the rows that are looked up for it. Raises what scans and lookups raise.

Each bucket is read once from either side: forwards for +I, -U and +U, backwards for -D, where keys that still exist are
only looked up. So no side is held in memory, and only one of the two passes reports a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from widetable.derive.changes.equal_keys import rows_without
from widetable.derive.changes.row_difference import row_difference
from widetable.derive.joins.join_side import present
from widetable.operations.handle.chosen_state import ChosenState
from widetable.operations.queries.lookup_view import LookupView
from widetable.read.split import Split, SplitRead


def snapshot_difference(
    old: ChosenState, new: ChosenState, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the changes, with `_row_kind` as the last column. columns: they include the primary key."""
    key = old.state.schema.primary_keys
    before, after = _splits(old, columns), _splits(new, columns)
    same = {bucket for bucket, split in before.items() if _equal(split, after.get(bucket))}
    with (
        closing(LookupView(old, columns)) as old_rows,
        closing(LookupView(new, columns)) as new_rows,
    ):
        for bucket in [*after, *(bucket for bucket in before if bucket not in after)]:
            if bucket in same:
                continue
            for rows in _rows(new, after.get(bucket), columns):
                existing = _existing_rows(old_rows, rows, key)
                yield row_difference(existing, rows, key, with_before=True)
            for rows in _rows(old, before.get(bucket), columns):
                existing = _existing_rows(new_rows, rows, key)
                yield row_difference(rows_without(rows, key, existing), rows.slice(0, 0), key)


def _splits(at: ChosenState, columns: Sequence[str]) -> dict[tuple[bytes, int], Split]:
    splits = at.scan(columns).splits()
    return {(split.bucket.partition, split.bucket.number): split for split in splits}


def _equal(one: Split, other: Split | None) -> bool:
    """Return whether both splits read the same rows of the same files."""
    return other is not None and frozenset(one.files) == frozenset(other.files)


def _rows(at: ChosenState, split: Split | None, columns: Sequence[str]) -> Iterator[pa.Table]:
    for batch in () if split is None else SplitRead(at.state, split, tuple(columns)).to_batches():
        yield pa.Table.from_batches([batch])


def _existing_rows(view: LookupView, rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows that the view has for these keys."""
    keys = rows.select(list(key)).combine_chunks().to_batches()
    existing = view.lookup(keys[0]) if keys else rows.slice(0, 0)
    return present(existing, key).cast(rows.schema)
