"""Divides a split whose newer records are few and replace older rows as a whole: most of it is read without a merge.

    level 5     a b c d e f g h i j k l       untouched    level 5, without the keys of the newer files
    level 0         c       g  -k      m      keys         c g k m
                                              touched      c g m

Nothing is older than the deepest level, so a row of it whose key no newer file has is a row of the table. Where the
last record of a key wins as a whole, the other rows are those of the newer files. The caller leaves the keys out of the
untouched rows: an engine that reads Parquet itself is faster at that than a merge is.

Decides by the metadata of files, without I/O. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from widetable.format.data_file_meta import DataFileMeta
from widetable.merge.merge_engine import RowOrigin
from widetable.read.split import Split, SplitRead, needs_merge
from widetable.schema import options as opt
from widetable.write.table_state import TableState

# With more newer rows for each row of the deepest level, one merge of all is as fast.
_MOST_NEWER_ROWS: Final = 0.1


class HotSplit(NamedTuple):
    """The parts of a split.

    Attributes
    ----------
    untouched : SplitRead
        The files of the deepest level, with all their rows. They need no merge.
    keys : SplitRead
        The primary keys of the newer files. A key may come several times.
    touched : SplitRead
        The rows of keys that newer files have.
    """

    untouched: SplitRead
    keys: SplitRead
    touched: SplitRead


def hot_split(read: SplitRead) -> HotSplit | None:
    """Divide the read of a split.

    Parameters
    ----------
    read : SplitRead
        A read of `Table.scan().split_reads()`.

    Returns
    -------
    HotSplit or None
        Its parts, whose rows together are those of the split. None if it needs no merge, if newer records are not few
        or may leave something of an older row, or if a file of the deepest level has deleted rows.
    """
    files = read.split.files
    deepest = max(file.level for file in files)
    untouched = [file for file in files if file.level == deepest]
    newer = [file for file in files if file.level != deepest]
    rows = [sum(file.row_count for file in part) for part in (untouched, newer)]
    if not (read.split.needs_merge and newer) or rows[1] > _MOST_NEWER_ROWS * rows[0]:
        return None
    if any(file.delete_row_count != 0 or file.deleted is not None for file in untouched):
        return None
    if not _newest_decides(read.table, untouched, newer):
        return None
    id, bucket = read.split.snapshot_id, read.split.bucket
    key = tuple(read.table.schema.primary_keys)
    return HotSplit(
        replace(read, split=Split(id, bucket, tuple(untouched), needs_merge=False)),
        SplitRead(read.table, Split(id, bucket, tuple(newer), needs_merge=False), key),
        replace(read, split=Split(id, bucket, tuple(newer), needs_merge(newer))),
    )


def _newest_decides(
    table: TableState, older: Sequence[DataFileMeta], newer: Sequence[DataFileMeta]
) -> bool:
    """Return whether a record of the newer files replaces the older row whatever is in it."""
    schema = table.schema
    wins_whole = table.engine.origin is RowOrigin.LAST and not schema.sequence_fields
    ignores_some = schema.typed_options.get(opt.IGNORE_DELETE)
    first_number = min(file.min_sequence_number for file in newer)
    are_later = all(file.max_sequence_number < first_number for file in older)
    return wins_whole and are_later and not ignores_some
