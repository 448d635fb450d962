"""What is unwise about a table that is sound: nobody compacts it, too many files, a consumer that holds expiry,
buckets too large or too many. Each as a finding with the command that mends it.

In: what waits (`backlog`), consumers, live files. Sizes are those of files. Raises what reading these
raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from widetable import options as opt
from widetable.commit.committer import Committer
from widetable.commit.lease import holder
from widetable.errors import DamagedError
from widetable.format.human_units import size_text
from widetable.format.manifest_entry import ManifestEntry
from widetable.operations.backlog import (
    Backlog,
    ConsumerLag,
    SinceCompaction,
    backlog_of,
    consumer_lags,
    is_far_behind,
    is_slow,
    is_stuck,
    is_untended,
    since_compaction,
    unattended_by,
)
from widetable.operations.doctor_report import DoctorFinding, command_line
from widetable.operations.newest_snapshot import newest_files
from widetable.write.table_state import TableState

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
    earliest_id = committer.snapshots.earliest_id() or 1
    if state.schema.primary_keys:
        try:
            since = since_compaction(committer, latest, earliest_id)
        except DamagedError:  # of a snapshot, which is a finding of its own
            return
        yield from _compaction(state, backlog_of(entries, since.began_millis), since)
    yield from _consumers(state, consumer_lags(state, latest), earliest_id)
    if state.schema.primary_keys and state.schema.num_buckets > 0:
        yield from _bucket_sizes(state, entries)


def _compaction(
    state: TableState, backlog: Backlog, since: SinceCompaction
) -> Iterator[DoctorFinding]:
    options, root = state.options, state.paths.root
    is_leased = holder(state.file_io, state.paths) is not None
    unattended = unattended_by(root, options, backlog, since, is_leased=is_leased)
    # One that has just been written has not been left alone yet.
    is_alone = is_untended(backlog, options, is_leased=is_leased) or (
        unattended is not None and is_stuck(backlog)
    )
    if not is_slow(backlog, options) and not is_alone:
        return
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    needs_maintainer = unattended is not None or (options.get(opt.WRITE_ONLY) and not is_leased)
    yield DoctorFinding(
        "upkeep",
        root,
        f"{backlog.files} level-0 files"
        + (", and nobody who compacts" if needs_maintainer else ""),
        f"about {trigger} in a bucket, as option {opt.NUM_SORTED_RUN_COMPACTION_TRIGGER.key!r} says",
        f"reads, which merge them, and the changelog: {backlog.most_in_a_bucket} in one bucket",
        "Let a maintainer run for as long as the table is written."
        if needs_maintainer
        else "Compact the table; if they come again, look into the log of who compacts it.",
        command_line("maintain", root)
        if needs_maintainer
        else command_line("compact", "--full", root),
    )


def _consumers(
    state: TableState, lags: Mapping[str, ConsumerLag], earliest_id: int
) -> Iterator[DoctorFinding]:
    for name, lag in lags.items():
        has_expired = lag.next_snapshot_id < earliest_id
        if not (has_expired or is_far_behind(lag, state.options)):
            continue
        found = f"{lag.behind} snapshots behind"
        yield DoctorFinding(
            "upkeep",
            f"consumer {name!r} of {state.paths.root}",
            f"{found}, the next one has expired" if has_expired else found,
            "one that reads on",
            f"snapshots from {lag.next_snapshot_id} on, which expiry keeps for it",
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
            f"a bucket of {size_text(largest)}",
            "compactions, which rewrite a bucket at once",
        )
    elif len(buckets) >= _MANY_BUCKETS and total < _SMALL_BYTES * len(buckets) and wanted < number:
        found = f"{len(buckets)} buckets with {size_text(total)} together"
        concerned = "commits, which write a file for each bucket"
    else:
        return
    yield DoctorFinding(
        "upkeep",
        f"option {opt.BUCKET.key!r} of {root}",
        f"{found}, {number} in each partition",
        f"up to {size_text(_WANTED_BYTES)} in a bucket, and not many more buckets than that needs",
        concerned,
        "Give the table another number of buckets; it is rewritten.",
        command_line("rescale", root, str(wanted)),
    )
