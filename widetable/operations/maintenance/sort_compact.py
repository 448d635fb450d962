"""Sorts the rows of an append table for queries, partition by partition, beside its writers.

    live files of a partition ─► sorted files (`sorted_rewrite`) ─► one COMPACT snapshot, with what it was sorted by

No row changes, so readers of changes see nothing. Files that writers add meanwhile stay as they are. A partition whose
files are all from sorts of the same kind is left out: so a call that was killed, or stopped at one partition, goes on
where it ended. That is known as long as the snapshots of these sorts are kept; afterwards a partition is sorted once
more, which is harmless.

    a compaction or a delete of the same files came first     the partition is planned again, at most five times
    a schema was added meanwhile                               the next plan has it; rows never lose its columns
    killed                                                     committed partitions stay; the files of one are orphans

On disk: never change:

    widetable.sorted = in a COMPACT snapshot that sorted a partition: {"order": "zorder", "by": ["a", "b"]}, as JSON

Raises InvalidError for columns and words that do not fit, UnsupportedError for tables with a primary key or buckets,
ConflictError, and what reading and writing data files raises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import names, one_of
from widetable.commit.snapshots.committed import SORTED
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, InvalidError, NotFoundError, UnsupportedError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.lsm.row_curve import ORDERS
from widetable.lsm.sorted_rewrite import SortedRewrite
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.requested_partitions import request_partitions
from widetable.schema.table_schema import TableSchema
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_MAX_ROUNDS: Final = 5


@dataclass(frozen=True)
class SortWork:
    """A partition to sort: its files, the columns and the word of the order. Picklable."""

    bucket: BucketId
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    by: tuple[str, ...]
    order: str

    def perform(self, state: TableState) -> SortOutcome:
        """Write the sorted files; return the message for the commit, or the error as a value, which travels between
        processes.
        """
        try:
            new = SortedRewrite(state, self.bucket, self.files, self.by, self.order).run()
        except Exception as error:  # noqa: BLE001
            return error
        return CommitMessage(
            *self.bucket, self.total_buckets, compact_before=self.files, compact_after=new
        )


# A message to commit, or the error that the sort of a partition met.
SortOutcome: TypeAlias = CommitMessage | Exception
# Does the work of partitions, here or elsewhere, and returns each with its outcome, in any order.
RunSorts: TypeAlias = Callable[
    [TableState, Iterable[SortWork]], Iterable[tuple[SortWork, SortOutcome]]
]


def sort_compact(
    table: OpenTable,
    by: Sequence[str],
    order: str = "zorder",
    *,
    partitions: Any = None,
) -> CommitResult:
    """Sort the rows of an append table, so that queries with filters read fewer files.

    Partition after partition is sorted and committed; a call that was broken off goes on where it ended. Writers go on
    meanwhile; what they add is sorted by the next call. Memory stays within about `write-buffer-size`.

    Parameters
    ----------
    by : list of str
        The columns that filters name. With `linear` the first one counts most.
    order : {"linear", "zorder", "hilbert"}, default "zorder"
        `linear`: by the columns one after the other. `zorder`, `hilbert`: along a curve on which all columns count
        alike.
    partitions : Arrow data, frame, dict, list of dicts or list, default None
        The partitions to sort, as in `drop_partitions`. None: all.

    Returns
    -------
    CommitResult
        What was committed, of all partitions together; `committed` is False when all were sorted already.

    Raises
    ------
    InvalidError
        A column is missing, nested or there twice, or the order is none of these.
    UnsupportedError
        The table has a primary key, or buckets, whose rows have an order already.
    ConflictError
        Other commits changed the files of a partition in each of several tries.

    Examples
    --------
    >>> clicks = catalog.create_table("shop.visits", {"user": "BIGINT", "page": "STRING"})
    >>> clicks.write([{"user": 2, "page": "home"}, {"user": 1, "page": "cart"}]).rows
    2
    >>> clicks.sort_compact(["user"], "linear").rows
    2
    >>> clicks.scan().to_arrow().column("user").to_pylist()
    [1, 2]
    """
    return sort_by(table, by, order, partitions=partitions)


def sort_by(
    table: OpenTable,
    by: Sequence[str],
    order: str,
    *,
    partitions: Any = None,
    run: RunSorts | None = None,
) -> CommitResult:
    """Sort as `sort_compact` does. run: does the work of partitions; None: this process, one after the other."""
    schema = table.schema
    accept(schema, Use.MAINTAIN)
    columns = _checked_columns(schema, by)
    order = one_of(order, tuple(ORDERS), "order")
    wanted = None
    if partitions is not None:
        wanted = request_partitions(table, partitions, "Leave out the partitions.")
    wait_for_compactions(table.path)
    with held_lease(table._state(schema)):
        return _Sort(table, columns, order, run or _one_by_one).run(wanted)


def _one_by_one(
    state: TableState, works: Iterable[SortWork]
) -> Iterator[tuple[SortWork, SortOutcome]]:
    for work in works:
        yield work, work.perform(state)


class _Sort:
    """One call. Commits each partition when it is sorted."""

    def __init__(self, table: OpenTable, by: tuple[str, ...], order: str, run: RunSorts) -> None:
        self._table = table
        self._committer: Committer = table._committer
        self._by = by
        self._order = order
        self._run = run
        self._kind = json.dumps({"order": order, "by": list(by)})
        self._commits: list[CommitResult] = []
        self._files = 0

    def run(self, wanted: frozenset[bytes] | None) -> CommitResult:
        started = time.monotonic()
        only: set[BucketId] | None = None
        lost: ConflictError | NotFoundError | None = None
        for _ in range(_MAX_ROUNDS):
            only, lost = self._round(wanted, only)
            if not only:
                break
        if lost is not None:
            raise lost
        return CommitResult(
            committed=bool(self._commits),
            snapshot_id=self._commits[-1].snapshot_id if self._commits else None,
            kind=COMMIT_KIND_COMPACT,
            rows=sum(each.rows for each in self._commits),
            files=self._files,
            retries=sum(each.retries for each in self._commits),
            duration_millis=int((time.monotonic() - started) * 1000),
        )

    def _round(
        self, wanted: frozenset[bytes] | None, only: set[BucketId] | None
    ) -> tuple[set[BucketId], ConflictError | NotFoundError | None]:
        """Sort all partitions that need it. Return those that lost a race, and how. only: of an earlier round."""
        lost: set[BucketId] = set()
        conflict: ConflictError | NotFoundError | None = None
        works = self._works(wanted, only)
        # The schema is read after the files, so it has the columns of each of them.
        state = self._table._state()
        _checked_columns(state.schema, self._by)
        for work, outcome in self._run(state, works):
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                self._commit(state, outcome)
            # Files of a partition may expire between its plan and its work, after another compaction replaced them.
            except (ConflictError, NotFoundError) as error:
                lost.add(work.bucket)
                conflict = error
        return lost, conflict

    def _commit(self, state: TableState, message: CommitMessage) -> None:
        try:
            result = self._committer.compact([message], properties={SORTED: self._kind})
        except ConflictError:
            discard(state, [message])
            raise
        self._commits.append(result)
        self._files += len(message.compact_after)

    def _works(self, wanted: frozenset[bytes] | None, only: set[BucketId] | None) -> list[SortWork]:
        _, entries = newest_files(self._committer)
        is_sorted = self._sorted_files()
        return [
            SortWork(
                bucket,
                members[0].total_buckets,
                tuple(entry.file for entry in members),
                self._by,
                self._order,
            )
            for bucket, members in by_bucket(entries).items()
            if (wanted is None or bucket.partition in wanted)
            and (only is None or bucket in only)
            and not all(entry.file.file_name in is_sorted for entry in members)
        ]

    def _sorted_files(self) -> frozenset[str]:
        """Return the names of the files that sorts of this kind have written, as far as their snapshots are kept."""
        snapshots, live_files = self._committer.snapshots, self._committer.live_files
        latest_id, earliest_id = snapshots.latest_id(), snapshots.earliest_id()
        sorted_names: set[str] = set()
        for id in range(earliest_id or 1, (latest_id or 0) + 1):
            try:
                snapshot = snapshots.load(id)
                is_sort = snapshot.commit_kind == COMMIT_KIND_COMPACT
                if is_sort and snapshot.properties.get(SORTED) == self._kind:
                    added = (e for e in live_files.delta_entries(snapshot) if e.kind == ADD)
                    sorted_names.update(entry.file.file_name for entry in added)
            except NotFoundError:
                continue  # it has just expired
        return frozenset(sorted_names)


def _checked_columns(schema: TableSchema, by: Sequence[str]) -> tuple[str, ...]:
    if schema.has_key or not schema.has_free_rows:
        raise UnsupportedError(
            "sort_compact",
            found=f"a table with the primary key {', '.join(schema.primary_keys)}"
            if schema.has_key
            else f"bucket = {schema.num_buckets}: the rows of a bucket keep the order of their writers",
            expected="an append table with bucket = -1",
            action="Filter by the key, or copy the rows into an append table without buckets.",
        )
    columns = names(by, "by")
    if not columns or len(set(columns)) < len(columns):
        raise InvalidError(
            "by",
            found=f"{list(columns)}",
            expected="one column or more, each once",
            action="Name the columns that filters name.",
        )
    for name in columns:
        if schema.field(name).type.is_nested:
            raise InvalidError(
                f"column {name!r}",
                found=f"the type {schema.field(name).type}",
                expected="a plain type, whose values have an order",
                action="Sort by other columns.",
            )
    return columns
