"""What is unwise about a table that is sound: nobody compacts it, too many runs, a consumer that holds expiry,
buckets too large or too many. Each as a finding with the command that mends it.

In: the newest snapshot, its live files, consumers and the lease. Sizes are those of files. Raises what reading these
raises.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from widetable import options as opt
from widetable import retention_options as retention
from widetable.commit.committer import Committer
from widetable.commit.consumer_store import ConsumerStore
from widetable.commit.lease import holder
from widetable.format.bucket_id import by_bucket
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.lsm.levels import levels_of
from widetable.operations.doctor_report import DoctorFinding, command_line
from widetable.operations.newest_snapshot import newest_files
from widetable.write.table_state import TableState

# So many snapshots behind, in terms of what expiry keeps anyway, a consumer is one that holds it.
FAR_BEHIND: Final = 10
# In terms of the compaction trigger.
_MANY_RUNS: Final = 5
# For so long level-0 files of a table whose changelog compactions make may wait.
_PATIENT_MILLIS: Final = 60_000
_MADE_BY_COMPACTION: Final = ("lookup", "full-compaction")
# A bucket is compacted and merged by one task: it should fit one.
_LARGE_BYTES: Final = 2 << 30
_WANTED_BYTES: Final = 1 << 30
# Many small buckets are many small files in every commit.
_MANY_BUCKETS: Final = 256
_SMALL_BYTES: Final = 1 << 20


def upkeep_findings(state: TableState, committer: Committer) -> Iterator[DoctorFinding]:
    """In the order of the module's first sentence."""
    latest, entries = newest_files(committer)
    if latest is None:
        return
    if state.schema.primary_keys:
        yield from _compaction(state, latest, entries)
    yield from _consumers(state, committer, latest)
    if state.schema.primary_keys and state.schema.num_buckets > 0:
        yield from _bucket_sizes(state, entries)


def _compaction(
    state: TableState, latest: Snapshot, entries: Sequence[ManifestEntry]
) -> Iterator[DoctorFinding]:
    options, root = state.options, state.paths.root
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    waiting: list[int] = [0]
    runs = [0]
    for members in by_bucket(entry for entry in entries if entry.bucket >= 0).values():
        files = [entry.file for entry in members]
        waiting.append(sum(file.level == 0 for file in files))
        runs.append(len(levels_of(files, options).sorted_runs()))
    is_write_only = options.get(opt.WRITE_ONLY)
    if is_write_only and holder(state.file_io, state.paths) is None and any(waiting):
        age_millis = int(time.time() * 1000) - latest.time_millis
        producer = options.get(opt.CHANGELOG_PRODUCER)
        is_due = producer in _MADE_BY_COMPACTION and age_millis > _PATIENT_MILLIS
        if is_due or max(waiting) > max(trigger, 1):
            yield DoctorFinding(
                "upkeep",
                root,
                f"a write-only table with {sum(waiting)} level-0 files, and nobody who compacts it",
                "a maintainer, which holds the compaction lease",
                f"{max(waiting)} in one bucket",
                "Let a maintainer run for as long as the table is written.",
                command_line("maintain", root),
            )
            return
    if max(runs) > _MANY_RUNS * max(trigger, 1):
        yield DoctorFinding(
            "upkeep",
            root,
            f"{max(runs)} sorted runs in one bucket",
            f"about {trigger}, as option {opt.NUM_SORTED_RUN_COMPACTION_TRIGGER.key!r} says",
            "reads, which merge them",
            "Compact the table; if they come again, look into the log of who compacts it.",
            command_line("compact", "--full", root),
        )


def _consumers(
    state: TableState, committer: Committer, latest: Snapshot
) -> Iterator[DoctorFinding]:
    kept = FAR_BEHIND * state.options.get(retention.SNAPSHOT_NUM_RETAINED_MIN)
    earliest_id = committer.snapshots.earliest_id() or 1
    for name, next_id in ConsumerStore(state.file_io, state.paths).all().items():
        behind = latest.id + 1 - next_id
        if behind <= kept and next_id >= earliest_id:
            continue
        found = f"{behind} snapshots behind"
        yield DoctorFinding(
            "upkeep",
            f"consumer {name!r} of {state.paths.root}",
            found if next_id >= earliest_id else f"{found}, the next one has expired",
            "one that reads on",
            f"snapshots from {next_id} on, which expiry keeps for it",
            "Start its reader again, or forget it: then it starts anew.",
            command_line("consumer", "delete", state.paths.root, name),
        )


def _bucket_sizes(state: TableState, entries: Sequence[ManifestEntry]) -> Iterator[DoctorFinding]:
    buckets: dict[tuple[bytes, int], int] = {}
    partitions: dict[bytes, int] = {}
    for entry in entries:
        size = entry.file.file_size
        buckets[entry.partition, entry.bucket] = (
            buckets.get((entry.partition, entry.bucket), 0) + size
        )
        partitions[entry.partition] = partitions.get(entry.partition, 0) + size
    if not buckets:
        return
    number, root = state.schema.num_buckets, state.paths.root
    wanted = -(-max(partitions.values()) // _WANTED_BYTES)
    largest, total = max(buckets.values()), sum(buckets.values())
    if largest > _LARGE_BYTES and wanted > number:
        found, concerned = (
            f"a bucket of {largest} bytes",
            "compactions, which rewrite a bucket at once",
        )
    elif len(buckets) >= _MANY_BUCKETS and total < _SMALL_BYTES * len(buckets) and wanted < number:
        found = f"{len(buckets)} buckets with {total} bytes together"
        concerned = "commits, which write a file for each bucket"
    else:
        return
    yield DoctorFinding(
        "upkeep",
        f"option {opt.BUCKET.key!r} of {root}",
        f"{found}, {number} in each partition",
        f"up to {_WANTED_BYTES} bytes in a bucket, and not many more buckets than that needs",
        concerned,
        "Give the table another number of buckets; it is rewritten.",
        command_line("rescale", root, str(wanted)),
    )
