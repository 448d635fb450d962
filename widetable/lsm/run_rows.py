"""Rows of one sorted run by key: each key batch is split among the files of the run that may have its keys.

In: key batches (lsm.file_rows) that ascend from call to call (other orders work, too, with more reads). A file is
opened at the first key in its range; `open_files` decides for how long. Raises the errors of reading data files, and
DamagedError for a run whose files overlap.

    files    f 1..9   g 10..19   h 20..29         call 1, keys 3 12      f is opened, and passed at 12; g is opened
                                                  call 2, keys 15 25     g stays open, passed at 25; h is opened

A file stays open between calls, since it may have the next keys, too. So at most one file per run is open, besides kept
ones (or `threads` files while a call searches several at once).
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.file_rows import FileRows, Found
from widetable.lsm.key_bounds import Share, bounds_of_files
from widetable.lsm.open_files import OpenFiles
from widetable.lsm.sorted_run import SortedRun, sections
from widetable.runtime.worker_thread import in_threads
from widetable.schema.table_schema import TableSchema


class _Part(NamedTuple):
    """One file, and the share of the keys that it may have."""

    rows: FileRows
    share: Share

    def find(self) -> Found:
        hits, rows = self.rows.find(self.share.keys)
        return Found(hits + self.share.start, rows)


class RunRows:
    """The rows of one run. files: of the bucket, shared by its runs."""

    def __init__(self, files: OpenFiles, run: SortedRun, schema: TableSchema) -> None:
        self._open = files
        # In key order; `sections` has checked that they do not overlap.
        self._files = [file for section in sections(run.files, schema) for file in section.files]
        self._bounds = bounds_of_files(self._files, schema)
        self._rows = max(run.rows, 1)
        self._touched: set[int] = set()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files of the run in key order."""
        return tuple(self._files)

    def find(self, keys: pa.RecordBatch, expected_keys: int = 0, threads: int = 1) -> list[Found]:
        """Return the rows of the keys, per file with any, in key order. hits are indices into `keys`.

        expected_keys: approximate number of keys of all calls, in the whole run; 0: unknown. threads: number of files
        that are open at once, and that are searched at once if they answer in any order.
        """
        if len(self._files) == 1 and self._open.is_open(self._files[0]):
            return _with_hits([self._open.rows(self._files[0], 0).find(keys)])
        shares = self._bounds.shares(keys)
        parts_found: list[Found] = []
        for at in range(0, len(shares), threads):
            self._pass_before(shares[at].place)
            parts: list[_Part] = []
            for share in shares[at : at + threads]:
                file = self._touch(share.place)
                # The expected keys in proportion to the file's rows, if that is more.
                file_keys = max(share.keys.num_rows, expected_keys * file.row_count // self._rows)
                parts.append(_Part(self._open.rows(file, file_keys), share))
            in_any_order = all(part.rows.answers_in_any_order for part in parts)
            parts_found += in_threads(_Part.find, parts, threads if in_any_order else 1, "lookup")
        return _with_hits(parts_found)

    def find_by_file(self, keys: pa.RecordBatch) -> list[tuple[DataFileMeta, Found]]:
        """Return the rows of a few keys, per file with any, each with its file."""
        by_file = []
        for index in (share.place for share in self._bounds.shares(keys)):
            self._pass_before(index)
            file = self._touch(index)
            by_file.append((file, self._open.rows(file, 1).find(keys)))
        return [each for each in by_file if len(each[1].hits)]

    def close(self) -> None:
        """Close all files that need not be kept. May be called more than once."""
        self._pass_before(len(self._files))

    def _pass_before(self, index: int) -> None:
        for passed in [each for each in self._touched if each < index]:
            self._open.passed(self._files[passed])
            self._touched.remove(passed)

    def _touch(self, index: int) -> DataFileMeta:
        """Return a file and mark it as touched, so that `_pass_before` will release it."""
        self._touched.add(index)
        return self._files[index]


def _with_hits(results: list[Found]) -> list[Found]:
    return [each for each in results if len(each.hits)]
