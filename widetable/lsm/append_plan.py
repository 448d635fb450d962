"""The plan of a compaction of an append table: which files of a bucket become larger ones. Pure.

A file is small below seven tenths of `target-file-size` (Paimon `compaction.small-file-ratio`); only small files, and
files that have lost many rows, are rewritten. So that a row is not rewritten with each commit, files join from the
smallest to the largest while the next is not larger than all before it together; then a row is rewritten about once for
each doubling of its file.

    due, five files at least     1 1 1 1 1               all five
                                 1 1 1 1 40              none: four of similar size
                                 1 1 1 1 1 4 40          the first six
                                 1 1 40 40 40 40 40      the last five
    full                         1 1 1 1 40              all

Rows of a bucket (`bucket` > 0) keep their order: only neighbours by sequence number join, beginning with the newest. A
plan takes at most 1 GiB, what a lost race may cost; `leaves_some` says that another plan follows.

Source: Paimon `AppendCompactCoordinator`, `BucketedAppendCompactManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.bucket_plan import Move, Plan, Scope
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema

_SMALL: Final = 0.7
# A file with more deleted rows than this is rewritten (Paimon `compaction.delete-ratio-threshold`).
_MANY_DELETED: Final = 0.2
# So small files join whatever their sizes are.
_TINY_BYTES: Final = 1 << 20
_AT_ONCE_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Concatenate(Move):
    """Write the rows of the files one after the other, in this order, into new files of the same level."""


def plan_appended(schema: TableSchema, files: Iterable[DataFileMeta], scope: Scope) -> Plan:
    """Return the plan of a bucket with these live files; empty if nothing is due.

    A bucket with files of a newer schema is left to a compactor that has read it: this one would lose their columns.
    """
    live = tuple(files)
    if any(file.schema_id > schema.id for file in live) or scope in (Scope.REST, Scope.EXPIRY):
        return ()
    most_bytes = _AT_ONCE_BYTES
    if scope is Scope.COMMIT:
        most_bytes = min(most_bytes, schema.typed_options.get(opt.INLINE_COMPACTION_SIZE))
    pick = _all_small if scope is Scope.FULL else _due
    for run in _runs(schema, live, deleted_ratio=0.0 if scope is Scope.FULL else _MANY_DELETED):
        picked = pick(schema, run)
        within = [total <= most_bytes for total in accumulate(file.file_size for file in picked)]
        taken = picked[: max(sum(within), 1)]
        if _is_worthwhile(taken) and sum(file.file_size for file in taken) <= most_bytes:
            return (Concatenate(_ordered(schema, taken), 0, frozenset()),)
    return ()


def leaves_some(schema: TableSchema, files: Sequence[DataFileMeta], plan: Plan) -> bool:
    """Return whether a full compaction of a bucket has more to do after this plan."""
    planned = {file.file_name for step in plan for file in step.files}
    left = [file for file in files if file.file_name not in planned]
    return bool(plan and plan_appended(schema, left, Scope.FULL))


def _runs(
    schema: TableSchema, files: Sequence[DataFileMeta], deleted_ratio: float
) -> Iterator[tuple[DataFileMeta, ...]]:
    """Yield the files that may join, small ones first: all small files, or in a bucket with an order each run of
    neighbours, the newest first.
    """
    target_bytes = schema.typed_options.get(opt.TARGET_FILE_SIZE)

    def may_join(file: DataFileMeta) -> bool:
        return file.file_size < _SMALL * target_bytes or _deleted(file) > deleted_ratio

    if schema.has_free_rows:
        yield tuple(sorted(filter(may_join, files), key=lambda file: file.file_size))
        return
    run: list[DataFileMeta] = []
    for file in reversed(in_order(files)):
        if may_join(file):
            run.append(file)
        elif run:
            yield tuple(run)
            run = []
    yield tuple(run)


def in_order(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Return the files of a bucket in the order of their rows. Files of equal numbers keep their order."""
    return sorted(files, key=lambda file: file.min_sequence_number)


def _ordered(schema: TableSchema, files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
    """Return picked files in the order of their rows. A run has the newest first, also among equal numbers."""
    return tuple(files if schema.has_free_rows else in_order(reversed(files)))


def _all_small(schema: TableSchema, run: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
    return run


def _due(schema: TableSchema, run: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
    """Return the first neighbours of a run of which none is larger than all before it, if they are enough; else a file
    that has lost many rows.
    """
    least: int = schema.typed_options.get(opt.COMPACTION_MIN_FILE_NUM)
    start, total = 0, 0
    for place, file in enumerate(run):
        if place > start and file.file_size > max(total, _TINY_BYTES):
            if place - start >= least:
                return run[start:place]
            start, total = place, 0
        total += file.file_size
    if len(run) - start >= least:
        return run[start:]
    return [file for file in run if _deleted(file) > _MANY_DELETED][:1]


def _is_worthwhile(files: Sequence[DataFileMeta]) -> bool:
    """Return whether rewriting the files makes them fewer, or removes deleted rows."""
    return len(files) > 1 or any(_deleted(file) for file in files)


def _deleted(file: DataFileMeta) -> float:
    """Return the share of deleted rows of a file; 1 if its index does not count them."""
    if file.deleted is None:
        return 0.0
    return 1.0 if file.deleted.rows is None else file.deleted.rows / file.row_count
