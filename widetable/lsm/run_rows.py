"""Rows of one sorted run by key: each key batch is led to the files of the run that may hold its keys.

In: key batches (lsm.file_rows) that ascend from call to call (others are answered too, for more reads). Files are
opened when keys come to them; `open_files` says for how long. Raises what reading data files raises, and DamagedError
for a run whose files overlap.

    files    f 1..9   g 10..19   h 20..29         call 1, keys 3 12      f opened, passed when 12 comes; g opened
                                                  call 2, keys 15 25     g goes on, passed when 25 comes; h opened

A file stays open between calls, since the next keys may be its too; so at most one file per run
is, beside those that are kept (`threads` of them while a call asks several at once).
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
    """One file and the keys that it may have."""

    rows: FileRows
    share: Share

    def find(self) -> Found:
        hits, rows = self.rows.find(self.share.keys)
        return Found(hits + self.share.start, rows)


class RunRows:
    """files: of the bucket, shared by its runs."""

    def __init__(self, files: OpenFiles, run: SortedRun, schema: TableSchema) -> None:
        self._open = files
        # In key order, and sure not to overlap.
        self._files = [file for section in sections(run.files, schema) for file in section.files]
        self._bounds = bounds_of_files(self._files, schema)
        self._rows = max(run.rows, 1)
        self._touched: set[int] = set()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """In key order."""
        return tuple(self._files)

    def find(self, keys: pa.RecordBatch, expected_keys: int = 0, threads: int = 1) -> list[Found]:
        """What each file has of the keys, in key order. hits count in `keys`.

        expected_keys: about how many all calls will look for, over the whole run; 0: nobody knows. threads: so many
        files are open at once, and if they answer in any order they are asked at once.
        """
        if len(self._files) == 1 and self._open.is_open(self._files[0]):
            return _hit([self._open.rows(self._files[0], 0).find(keys)])
        shares = self._bounds.shares(keys)
        found: list[Found] = []
        for at in range(0, len(shares), threads):
            self._pass_before(shares[at].place)
            parts: list[_Part] = []
            for share in shares[at : at + threads]:
                file = self._touch(share.place)
                # Its share, by rows, of the keys that are expected, if that is more.
                file_keys = max(share.keys.num_rows, expected_keys * file.row_count // self._rows)
                parts.append(_Part(self._open.rows(file, file_keys), share))
            in_any_order = all(part.rows.answers_in_any_order for part in parts)
            found += in_threads(_Part.find, parts, threads if in_any_order else 1, "lookup")
        return _hit(found)

    def find_by_file(self, keys: pa.RecordBatch) -> list[tuple[DataFileMeta, Found]]:
        """The same for few keys, with the file that has them."""
        found = []
        for index in (share.place for share in self._bounds.shares(keys)):
            self._pass_before(index)
            file = self._touch(index)
            found.append((file, self._open.rows(file, 1).find(keys)))
        return [each for each in found if len(each[1].hits)]

    def close(self) -> None:
        """Let go of all files that need not be kept. May be called more than once."""
        self._pass_before(len(self._files))

    def _pass_before(self, index: int) -> None:
        for passed in [each for each in self._touched if each < index]:
            self._open.passed(self._files[passed])
            self._touched.remove(passed)

    def _touch(self, index: int) -> DataFileMeta:
        """The file, which `_pass_before` will let go of."""
        self._touched.add(index)
        return self._files[index]


def _hit(found: list[Found]) -> list[Found]:
    return [each for each in found if len(each.hits)]
