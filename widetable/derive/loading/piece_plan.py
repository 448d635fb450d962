"""Plans the pieces of a snapshot, and counts their rows.

In: the splits of a scan (`SplitRead`). Out: pieces in the order of partition values, bucket and key; none is empty.
What is read for it:

    files that need no merge                footers, and without a filter nothing else
    ... with a filter                       the columns of the filter
    sections of files that overlap          the keys, and the columns of the filter, merged

A manifest does not say where row groups begin, nor how many rows are left of files that overlap; so both are read.
A section is cut where row groups of its largest run begin, on the first key column that is not the same in all of it:
the columns before are constant, so a range of that column is a range of keys, and a file outside of it is not opened.
Columns without bounds, such as DOUBLE, cut nothing.

Raises NotFoundError when the snapshot has expired, and what reading data files raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from widetable.derive.loading.piece import (
    KeyRangePiece,
    Piece,
    RowGroupPiece,
    batches_of_group,
    needed_columns,
)
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.plain_value import TEXTS
from widetable.lsm.sorted_run import Section, SortedRun, key_types, sections, sort_key
from widetable.read.expired import files_of
from widetable.read.literal import is_grid
from widetable.read.merge_read import read_bucket
from widetable.read.predicate import And, Compare, Node, Predicate, to_expression
from widetable.read.split import SplitRead
from widetable.runtime.worker_thread import in_threads
from widetable.schema.types import DataField

# The number of splits whose files are opened at once.
_THREADS: Final = 2


def pieces_of(reads: Sequence[SplitRead]) -> list[Piece]:
    """Return the pieces of the rows that these reads return together."""
    parts = in_threads(lambda read: list(_pieces_of_split(read)), reads, _THREADS, "loading")
    return list(chain.from_iterable(parts))


def _pieces_of_split(read: SplitRead) -> Iterator[Piece]:
    split, schema = read.split, read.table.schema
    with files_of(read.table, split.snapshot_id):
        if not schema.primary_keys:
            for file in split.files:
                yield from _row_groups(read, file)
            return
        for section in sections(split.files, schema):
            if not split.needs_merge or _is_plain(section):
                for file in section.files:
                    yield from _row_groups(read, file)
            else:
                yield from _key_ranges(read, section)


def _is_plain(section: Section) -> bool:
    """Return whether the rows of a section are those of its files: one run, in which nothing retracts."""
    return len(section.runs) == 1 and all(file.delete_row_count == 0 for file in section.files)


def _row_groups(read: SplitRead, file: DataFileMeta) -> Iterator[Piece]:
    columns = needed_columns((), read.predicate)
    with read.table.opened(read.split.bucket, file, columns) as opened:
        for group, rows in enumerate(opened.row_group_live_rows):
            if rows and read.predicate is not None:
                batches = batches_of_group(opened, group, read, ())
                rows = sum(batch.num_rows for batch in batches)
            if rows:
                yield RowGroupPiece(read, file, group, rows)


class _Cut(NamedTuple):
    """Where the keys of a section are cut: before each of the values, ascending, of one column of the key."""

    column: DataField
    values: Sequence[Any]
    # The first and last value of the column in each file.
    spans: Sequence[tuple[Any, Any]]


def _key_ranges(read: SplitRead, section: Section) -> Iterator[Piece]:
    """Yield the pieces of a section, in key order."""
    cut = _cut(read, section)
    if cut is None or not cut.values:
        yield from _counted(KeyRangePiece(read, section.files, read.predicate, 0))
        return
    for low, high in pairwise([None, *cut.values, None]):
        files = tuple(
            file
            for file, (first, last) in zip(section.files, cut.spans, strict=True)
            if (low is None or last >= low) and (high is None or first < high)
        )
        predicate = _within(cut.column, low, high, read.predicate)
        yield from _counted(KeyRangePiece(read, files, predicate, 0))


def _counted(piece: KeyRangePiece) -> Iterator[Piece]:
    """Yield the piece with its number of rows, if it has any. Only keys and columns of the filter are read."""
    if not piece.files:
        return
    read = piece.read
    batches = read_bucket(
        read.table, read.split.bucket, piece.files, (), piece.predicate, merge=True
    )
    rows = sum(batch.num_rows for batch in batches)
    if rows:
        yield replace(piece, rows=rows)


def _cut(read: SplitRead, section: Section) -> _Cut | None:
    """Return where a section is cut; None if no column of its keys can be compared."""
    schema = read.table.schema
    types = key_types(schema)
    firsts = [sort_key(file.min_key, types) for file in section.files]
    lasts = [sort_key(file.max_key, types) for file in section.files]
    for number, name in enumerate(schema.trimmed_primary_key):
        column = schema.field(name)
        ends = {key[number] for key in (*firsts, *lasts)}
        if len(ends) == 1:
            continue
        if () in ends or not (is_grid(column.type) or column.type.root in TEXTS):
            return None
        spans = [
            (first[number][0], last[number][0]) for first, last in zip(firsts, lasts, strict=True)
        ]
        largest = max(section.runs, key=lambda run: run.rows)
        values = {value for value in _group_starts(read, largest, number) if value is not None}
        smallest = min(first for first, _ in spans)
        return _Cut(column, sorted(value for value in values if value > smallest), spans)
    return None


def _group_starts(read: SplitRead, run: SortedRun, number: int) -> Iterator[Any]:
    """Yield the smallest value of a key column in each row group; None where it is not known."""
    for file in run.files:
        with read.table.opened(read.split.bucket, file, ()) as opened:
            for key_range in opened.row_group_key_ranges():
                yield key_range.minima[number]


def _within(column: DataField, low: Any, high: Any, also: Predicate | None) -> Predicate:
    """Return the predicate of low <= column < high (None: no bound) and of the filter."""
    parts: list[Node] = []
    if low is not None:
        parts.append(Compare(column, ">=", low))
    if high is not None:
        parts.append(Compare(column, "<", high))
    tree: Node = And(tuple(parts))
    expression, columns = to_expression(tree), frozenset([column.name])
    if also is None:
        return Predicate(tree, expression, columns)
    return Predicate(And((tree, also.tree)), expression & also.expression, columns | also.columns)
