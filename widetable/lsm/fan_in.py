"""The fan-in of a compaction: it takes as many files of level 0 as can be open at once within `write-buffer-size`.

A merge has an open reader for each of its runs, and a reader holds a part of a row group in memory: the stored chunks,
a decoded page of each, a batch. So five hundred files of two megabytes, of as many writers, took two gigabytes. The
newest files are left: the result is that of a compaction before these were committed, which is right for every engine
and producer. The next compaction takes them. Pure. Raises nothing.

    write-buffer-size 256 MiB, files of 2 MiB at level 0      42 of them, the oldest
    files of 100 MiB                                          16: fewer would rewrite lower levels too often

The files of one commit stay together: a key may have records in several of them (docs/decisions/0003), and otherwise
readers of changes would see half of a commit. The sequence numbers show which files are of one commit: within a commit
they follow each other closely (`write.sequence`), while those of two commits are as far apart as their beginnings in
nanoseconds. So commits that begin within a few milliseconds count as one, as do all commits of a client that counts its
rows.

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

# Bytes in memory for each byte of a file that is read as one row group: stored, decoded, and in a batch.
_HELD_PER_BYTE: Final = 3
_LARGEST_BYTES: Final = 2 * ROW_GROUP_BYTES
_MIN_FILES: Final = 16
# Numbers further apart than this (about 17 ms) are of two commits. Within one commit, 15 tasks between two others may
# have no row for a bucket.
_APART: Final = 1 << (BLOCK_BITS + 4)


def taken_at_once(files: Sequence[DataFileMeta], options: TableOptions) -> tuple[DataFileMeta, ...]:
    """Return the files of a bucket without the newest ones of level 0 that do not fit; all of them if they fit."""
    fresh = sorted((file for file in files if file.level == 0), key=level0_age)
    memory_bytes = [min(_HELD_PER_BYTE * file.file_size, _LARGEST_BYTES) for file in fresh]
    fitting = bisect_right([*accumulate(memory_bytes)], options.get(opt.WRITE_BUFFER_SIZE))
    if fitting == len(fresh):
        return tuple(files)
    later = frozenset(file.file_name for file in fresh[_cut(fresh, max(fitting, _MIN_FILES)) :])
    return tuple(file for file in files if file.file_name not in later)


def _cut(fresh: Sequence[DataFileMeta], target: int) -> int:
    """Return how many files to take: at most `target` so that no commit is divided, or else more."""
    highest = [*accumulate((file.max_sequence_number for file in fresh), max)]
    lowest = [*accumulate((file.min_sequence_number for file in reversed(fresh)), min)][::-1]
    begins = [
        place
        for place in range(_MIN_FILES, len(fresh))
        if lowest[place] - highest[place - 1] > _APART
    ]
    place = bisect_right(begins, target)
    if place:
        return begins[place - 1]
    return begins[0] if begins else len(fresh)
