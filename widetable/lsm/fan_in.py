"""How many files of level 0 one compaction takes: as many as can be open side by side within `write-buffer-size`.

A merge has a reader open for each of its runs, and a reader holds what it has read of a row group: the chunks as they
are stored, a decoded page of each, a batch. Five hundred files of two megabytes, of as many writers, took two gigabytes
so. Files that are left are the newest: a compaction of the others is one that ran before these were committed, which
is right for every engine and producer. Who carries compactions out goes on with them. Pure. Raises nothing.

    write-buffer-size 256 MiB, files of 2 MiB at level 0      42 of them, the oldest
    files of 100 MiB                                          16: fewer would rewrite what lies below too often

The files of one commit stay together: a key may have records in several of them (docs/decisions/0003), and readers of
changes would be shown half of a commit. Which files are of one commit is seen by their numbers, which follow each other
closely (`write.sequence`), where those of two commits are as far apart as their beginnings in nanoseconds. Commits that
begin within some milliseconds of each other so count as one, and so do all of a client that counts its rows.

    numbers    10..90  95..99  |  60,000,000..60,000,400      cut here at the earliest
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.parquet_layout import ROW_GROUP_BYTES
from widetable.lsm.sorted_run import level0_age
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.write.sequence import BLOCK_BITS

# Of a byte of a file, as long as it is read as one row group: stored, decoded, and in a batch.
_HELD_PER_BYTE: Final = 3
_LARGEST_BYTES: Final = 2 * ROW_GROUP_BYTES
_LEAST_FILES: Final = 16
# Further apart are numbers of two commits: some 17 ms. Of one commit 15 tasks that lie between two others may have no
# row for a bucket.
_APART: Final = 1 << (BLOCK_BITS + 4)


def taken_at_once(files: Sequence[DataFileMeta], options: TableOptions) -> tuple[DataFileMeta, ...]:
    """The files of a bucket without the newest of level 0 that are too many. All of them where they fit."""
    fresh = sorted((file for file in files if file.level == 0), key=level0_age)
    held = [min(_HELD_PER_BYTE * file.file_size, _LARGEST_BYTES) for file in fresh]
    fitting = bisect_right([*accumulate(held)], options.get(opt.WRITE_BUFFER_SIZE))
    if fitting == len(fresh):
        return tuple(files)
    later = frozenset(file.file_name for file in fresh[_cut(fresh, max(fitting, _LEAST_FILES)) :])
    return tuple(file for file in files if file.file_name not in later)


def _cut(fresh: Sequence[DataFileMeta], wanted: int) -> int:
    """How many are taken: as many as wanted, or fewer, or else more, lest a commit be divided."""
    highest = [*accumulate((file.max_sequence_number for file in fresh), max)]
    lowest = [*accumulate((file.min_sequence_number for file in reversed(fresh)), min)][::-1]
    begins = [
        place
        for place in range(_LEAST_FILES, len(fresh))
        if lowest[place] - highest[place - 1] > _APART
    ]
    place = bisect_right(begins, wanted)
    if place:
        return begins[place - 1]
    return begins[0] if begins else len(fresh)
