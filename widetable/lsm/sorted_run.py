"""Sorted runs of a bucket, and the key ranges in which they overlap.

A read merges runs only where their keys overlap; all other rows are passed on unchanged:

    keys        a · · · · · · · · · · · · · · · z
    level 0        [--]   [----]
    level 4     [----][---------]    [---]
    level 5                                 [--]
                section 1: a bridge  2: one 3: one      the level-0 files bridge the two files of level 4

Files are sorted by their first key; a section ends if the next first key is above every last key so far. The runs of a
section are its levels, deepest first, then each level-0 file by age.

Source: Paimon `SortedRun`, `IntervalPartition`; format.md sections 7 and 9. Values only, no I/O.
In: the metadata of a bucket's files. Out: sections, disjoint in keys and in key order, each with the runs that must be
merged there. Raises DamagedError for a level >= 1 whose files overlap (trap T2).

Keys are compared in the order of files (plain_value).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from widetable.errors import DamagedError
from widetable.format.binary_row import decode_row
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.plain_value import row_order
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType


@dataclass(frozen=True)
class SortedRun:
    """Files of one level with disjoint key ranges; a level-0 run is a single file.

    The files are in key order if `sections` made the run; `Levels.sorted_runs` does not compare keys.
    """

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.row_count for file in self.files)

    @property
    def lowest_number(self) -> int:
        """The lowest sequence number of the files."""
        return min(file.min_sequence_number for file in self.files)

    @property
    def highest_number(self) -> int:
        return max(file.max_sequence_number for file in self.files)


@dataclass(frozen=True)
class Section:
    """A key range of a bucket that overlaps no file outside of the section. runs: oldest first."""

    runs: tuple[SortedRun, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run.files)


def row_width(run: SortedRun) -> float:
    """Return the average number of bytes of a row in the files of the run."""
    return max(run.size_bytes / max(run.rows, 1), 1.0)


def read_shares(runs: Sequence[SortedRun], budget_bytes: int) -> list[int]:
    """Return the batch bytes of each run, so that all runs yield about as many rows, as a window of a merge takes.

    The shares are in proportion to the width of rows in their files. With equal shares a wide run among many narrow
    ones would yield only a few rows at a time, and each time that costs a call for each of its columns.

        budget 6 MB, runs of 1,000, 100 and 100 bytes a row      5 MB, 0.5 MB, 0.5 MB
    """
    widths = [row_width(run) for run in runs]
    return [int(budget_bytes * width / sum(widths)) for width in widths]


class KeyedFile(NamedTuple):
    """A file with its decoded key range, and its index in the input."""

    first: tuple[Any, ...]
    last: tuple[Any, ...]
    place: int
    file: DataFileMeta


def key_types(schema: TableSchema) -> tuple[DataType, ...]:
    """Return the types of the trimmed primary key, in its order: those of `min_key` and `max_key` of files."""
    return tuple(schema.field(name).type for name in schema.trimmed_primary_key)


def sort_key(key: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """Return a key of a manifest as a tuple that sorts in the order of files."""
    return row_order(types)(decode_row(key, types))


def level0_age(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Return a key that sorts level-0 files oldest first (Paimon `Levels`: highest sequence number, then lowest)."""
    return (
        file.max_sequence_number,
        file.min_sequence_number,
        file.creation_time_millis or 0,
        file.file_name,
    )


def sections(files: Iterable[DataFileMeta], schema: TableSchema) -> list[Section]:
    """Cut a bucket's files into sections: neighbours in key order that overlap, directly or through others."""
    files = list(files)
    if len(files) == 1:
        return [Section((SortedRun(files[0].level, tuple(files)),))]
    return [Section(_runs(members)) for members in overlapping(files, schema)]


def overlapping(files: Iterable[DataFileMeta], schema: TableSchema) -> list[list[KeyedFile]]:
    """Return the files as groups that are disjoint in keys, all in key order."""
    types = key_types(schema)
    groups: list[list[KeyedFile]] = []
    bound: tuple[Any, ...] = ()
    for one in sorted(
        KeyedFile(sort_key(file.min_key, types), sort_key(file.max_key, types), place, file)
        for place, file in enumerate(files)
    ):
        if not groups or one.first > bound:
            groups.append([])
            bound = one.last
        groups[-1].append(one)
        bound = max(bound, one.last)
    return groups


def _runs(members: Sequence[KeyedFile]) -> tuple[SortedRun, ...]:
    """Return the runs of files that are in key order: deepest level first, then level 0 by age."""
    levels: dict[int, list[KeyedFile]] = {}
    for one in members:
        if one.file.level:
            levels.setdefault(one.file.level, []).append(one)
    runs = []
    for level in sorted(levels, reverse=True):
        _check_disjoint(levels[level])
        runs.append(SortedRun(level, tuple(one.file for one in levels[level])))
    fresh = sorted((one.file for one in members if one.file.level == 0), key=level0_age)
    return (*runs, *(SortedRun(0, (file,)) for file in fresh))


def _check_disjoint(level: Sequence[KeyedFile]) -> None:
    """Raise DamagedError if neighbours overlap: a lookup would find either row of a key that two files have."""
    for one, following in pairwise(level):
        if following.first <= one.last:
            raise DamagedError(
                f"data file {following.file.file_name!r}",
                found=f"keys that {one.file.file_name!r} of the same level {one.file.level} also has",
                expected="files of a level >= 1 with disjoint key ranges",
                action="Go back to the snapshot before the one that added the file.",
            )
