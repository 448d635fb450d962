"""Leaves data files out of the splits of a plan by their indexes, before any data file is opened.

An index is a small read for each file, so files of a remote store are asked side by side. Raises what `indexed_files`
raises; a missing index file is explained as a missing data file is (`expired`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.file_index.column_indexes import has_index
from widetable.read.expired import files_of
from widetable.read.indexed.indexed_files import may_ask, rows_of_file
from widetable.read.merge_read import section_reads
from widetable.read.predicate import Predicate
from widetable.read.split import Split
from widetable.runtime.worker_thread import in_threads
from widetable.storage.kept_inputs import is_remote
from widetable.write.table_state import TableState

_THREADS: Final = 16


class _Question(NamedTuple):
    """A file whose indexes are asked. merges: its rows are merged with those of other files."""

    split: Split
    file: DataFileMeta
    merges: bool


def without_unindexed_files(
    table: TableState, splits: Sequence[Split], predicate: Predicate | None
) -> list[Split]:
    """Return the splits without files in which the filter keeps no row by their indexes; none is empty."""
    if predicate is None:
        return list(splits)
    questions = [each for split in splits for each in _questions(table, split, predicate)]

    def is_empty(question: _Question) -> bool:
        split, file, merges = question
        with files_of(table, split.snapshot_id):
            rows = rows_of_file(table, split.bucket, file, predicate, merges=merges)
        return rows is not None and not rows

    threads = _THREADS if is_remote(table.paths.root) else 1
    answers = in_threads(is_empty, questions, threads, "file-index")
    empty = {
        (question.split.bucket, question.file.file_name)
        for question, left_out in zip(questions, answers, strict=True)
        if left_out
    }
    kept = []
    for split in splits if empty else ():
        files = tuple(f for f in split.files if (split.bucket, f.file_name) not in empty)
        if files:
            kept.append(replace(split, files=files))
    return kept if empty else list(splits)


def _questions(table: TableState, split: Split, predicate: Predicate) -> Iterator[_Question]:
    if not any(map(has_index, split.files)):
        return
    for section, merges in section_reads(table, split.files, merge=split.needs_merge):
        for file in section.files:
            if may_ask(table, file, predicate, merges=merges):
                yield _Question(split, file, merges)
