"""How many files of level 0 one compaction takes: as many as can be open side by side within `write-buffer-size`.

A merge has a reader open for each of its runs, and a reader holds what it has read of a row group: the chunks as they
are stored, a decoded page of each, a batch. Five hundred files of two megabytes, of as many writers, took two gigabytes
so. Files that are left are the newest: a compaction of the others is one that ran before these were committed, which
is right for every engine and producer. Who carries compactions out goes on with them. Pure. Raises nothing.

    write-buffer-size 256 MiB, files of 2 MiB at level 0      42 of them, the oldest
    files of 100 MiB                                          16: fewer would rewrite what lies below too often
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from widetable import options as opt
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.parquet_layout import ROW_GROUP_BYTES
from widetable.lsm.sorted_run import level0_age
from widetable.options import TableOptions

# Of a byte of a file, as long as it is read as one row group: stored, decoded, and in a batch.
_HELD_PER_BYTE: Final = 3
_LARGEST_BYTES: Final = 2 * ROW_GROUP_BYTES
_LEAST_FILES: Final = 16


def taken_at_once(files: Sequence[DataFileMeta], options: TableOptions) -> tuple[DataFileMeta, ...]:
    """The files of a bucket without the newest of level 0 that are too many. All of them where they fit."""
    fresh = sorted((file for file in files if file.level == 0), key=level0_age)
    left_bytes = options.get(opt.WRITE_BUFFER_SIZE)
    for place, file in enumerate(fresh):
        left_bytes -= min(_HELD_PER_BYTE * file.file_size, _LARGEST_BYTES)
        if left_bytes < 0 and place >= _LEAST_FILES:
            later = frozenset(each.file_name for each in fresh[place:])
            return tuple(file for file in files if file.file_name not in later)
    return tuple(files)
