"""Compacting a table: all buckets when asked to, the touched ones after an append.

A lease keeps two compactors from doing the same work twice; safety never depends on it. What
follows an append never fails the append: a lost race is left to the next one, other errors are
logged.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from widetable.commit.committer import CommitResult, Committer
from widetable.commit.lease import try_lease
from widetable.errors import ConflictError, WidetableError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.lsm.compaction import plan_bucket
from widetable.lsm.compaction_job import compact_table
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_LEASE_MILLIS: Final = 60_000
_log = logging.getLogger("widetable")


def compact_all(state: TableState, committer: Committer, *, full: bool) -> CommitResult:
    """Compact every bucket that the universal rules pick, or that is not one bottom run (full).

    It does not wait for a lease: who asks for a compaction gets it. Raises ConflictError when it
    lost in every round.
    """

    def live_entries() -> list[ManifestEntry]:
        return committer.live_files.live_entries(committer.snapshots.latest())

    with _lease(state):
        return _compact(state, committer, live_entries, full=full)


def compact_touched(
    state: TableState, committer: Committer, messages: Sequence[CommitMessage]
) -> None:
    """Run the universal pick on the buckets of an append. Raises nothing of this package."""
    touched = {(message.partition, message.bucket) for message in messages}
    partitions = frozenset(partition for partition, _ in touched)
    buckets = frozenset(bucket for _, bucket in touched)

    def live_entries() -> list[ManifestEntry]:
        latest = committer.snapshots.latest()
        entries = committer.live_files.live_entries(latest, partitions, buckets)
        return [entry for entry in entries if (entry.partition, entry.bucket) in touched]

    try:
        if not _has_work(state, live_entries()):
            return
        with _lease(state) as is_ours:
            if is_ours:
                _compact(state, committer, live_entries, full=False)
    except ConflictError as lost:
        _log.info("compaction of %s is left to the next: %s", state.paths.root, lost)
    except (WidetableError, pa.ArrowException, OSError):
        _log.warning("compaction of %s after an append failed", state.paths.root, exc_info=True)


def _has_work(state: TableState, entries: Sequence[ManifestEntry]) -> bool:
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    return any(
        plan_bucket(state, [entry.file for entry in members], full=False) is not None
        for members in buckets.values()
    )


@contextlib.contextmanager
def _lease(state: TableState) -> Iterator[bool]:
    """Whether the lease is ours while the block runs."""
    lease = try_lease(state.file_io, state.paths, str(uuid.uuid4()), _LEASE_MILLIS)
    try:
        yield lease is not None
    finally:
        if lease is not None:
            lease.release()


def _compact(
    state: TableState,
    committer: Committer,
    live_entries: Callable[[], list[ManifestEntry]],
    *,
    full: bool,
) -> CommitResult:
    started = time.monotonic()
    commits: list[CommitResult] = []

    def commit(messages: list[CommitMessage]) -> None:
        commits.append(committer.compact(messages))

    done = compact_table(state, live_entries, commit, full=full)
    return CommitResult(
        committed=bool(commits),
        snapshot_id=commits[-1].snapshot_id if commits else None,
        kind=COMMIT_KIND_COMPACT,
        rows=sum(each.rows for each in commits),
        files=done.files_after,
        retries=sum(each.retries for each in commits) + done.conflicts,
        duration_millis=int((time.monotonic() - started) * 1000),
    )
