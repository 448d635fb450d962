"""What is unwise about a table that is sound: nobody compacts it, too many files, a consumer that holds expiry,
a writer that holds barriers or is ahead of the clock (`barrier_advice`), buckets too large, too many or skewed
(`bucket_advice`). Each as a finding with the command that mends it.

In: what waits (`backlog`), consumers, live files. Out: findings of the check "upkeep", each with
a command that can be run as it is, or "" where none mends it. No file is opened but metadata;
sizes are those of files. An append table has no level 0 to be compacted and no key that hashes to
a bucket, so neither is looked at. Raises what reading these raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from widetable.commit.barriers.barrier_state import BarrierState, state_at
from widetable.commit.barriers.writer_registration import registrations, silent_jobs
from widetable.commit.notes.lease import holder
from widetable.commit.transaction.committer import Committer
from widetable.errors import DamagedError, NotFoundError
from widetable.format.bucket_id import by_bucket
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.operations.compaction.backlog import (
    Backlog,
    ConsumerLag,
    SinceCompaction,
    awaits_changelog,
    backlog_of,
    consumer_lags,
    is_far_behind,
    is_slow,
    is_stuck,
    is_untended,
    since_compaction,
    unattended_by,
)
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.operations.health.barrier_advice import (
    HELD_MILLIS,
    BarrierAdvice,
    Remedy,
    barrier_advice,
)
from widetable.operations.health.bucket_advice import BucketSize, bucket_advice
from widetable.operations.health.doctor_report import DoctorFinding, command_line
from widetable.operations.health.snapshot_audit import partition_text
from widetable.operations.queries.requested_partitions import partition_words
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.storage.paths import table_name
from widetable.write.table_state import TableState


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
    yield from _barriers(state, barriers_at(state, committer, latest))
    if state.schema.primary_keys and state.schema.num_buckets > 0:
        yield from _bucket_sizes(state, entries)


def _compaction(
    state: TableState, backlog: Backlog, since: SinceCompaction
) -> Iterator[DoctorFinding]:
    """One finding at most: too many files for reads, or files that nobody takes up, with what
    helps against it, a maintainer where nobody else compacts, else a compaction.
    """
    options, root = state.options, state.paths.root
    is_leased = holder(state.file_io, state.paths) is not None
    unattended = unattended_by(root, options, backlog, since, is_leased=is_leased)
    # One that has just been written has not been left alone yet.
    is_alone = is_untended(backlog, options, is_leased=is_leased) or (
        unattended is not None and is_stuck(backlog)
    )
    if not (is_slow(backlog, options) or is_alone or awaits_changelog(backlog, options)):
        return
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    needs_maintainer = unattended is not None or (options.get(opt.WRITE_ONLY) and not is_leased)
    expected = "somebody who moves them up"
    if is_slow(backlog, options):
        key = opt.NUM_SORTED_RUN_COMPACTION_TRIGGER.key
        expected = (
            f"not many more than {trigger} in a bucket, where compactions begin (option {key!r})"
        )
    elif not needs_maintainer:
        expected = "none for longer than a compaction takes to come"
    yield DoctorFinding(
        "upkeep",
        root,
        counted(backlog.files, "level-0 file")
        + (", and nobody who compacts" if needs_maintainer else ""),
        expected,
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
        found = f"{counted(lag.behind, 'snapshot')} behind"
        yield DoctorFinding(
            "upkeep",
            f"consumer {name!r} of {state.paths.root}",
            f"{found}, the next one has expired" if has_expired else found,
            "one that reads on",
            f"snapshots from {lag.next_snapshot_id} on, which expiry keeps for it",
            "Start its reader again, or forget it: then it starts anew.",
            command_line("consumer", "delete", state.paths.root, name),
        )


def barriers_at(
    state: TableState, committer: Committer, latest: Snapshot
) -> Sequence[BarrierAdvice]:
    """What is unwise about its writers; nothing of a table without barriers.
    By the newest snapshot and the one of ten minutes ago.
    """
    interval = state.schema.typed_options.get(BARRIER_INTERVAL)
    if interval is None:
        return ()
    at_millis = now_millis()
    before: BarrierState | None = None
    try:
        now = state_at(latest, committer.last_commits.load, interval)
    except NotFoundError:  # only other clients' snapshots are left, which say nothing
        return ()
    # Nothing that old is kept, or it cannot be read, which is a finding of its own.
    with contextlib.suppress(NotFoundError, DamagedError):
        then = committer.snapshots.by_timestamp(at_millis - HELD_MILLIS)
        before = state_at(then, committer.last_commits.load, interval)
    silent = silent_jobs(registrations(state.file_io, state.paths))
    return barrier_advice(now, before, at_millis, silent)


def _barriers(state: TableState, advice: Sequence[BarrierAdvice]) -> Iterator[DoctorFinding]:
    root = state.paths.root
    for each in advice:
        yield DoctorFinding(
            "upkeep",
            f"writer {each.writer!r} of {root}",
            each.found,
            each.expected,
            each.concerned,
            each.action,
            _command(root, each),
        )


def _command(root: str, advice: BarrierAdvice) -> str:
    """The remedy as a command; "" where only the writer itself can help, or the table lies in no warehouse."""
    place = table_name(root)  # a branch has none
    if advice.remedy is Remedy.LEAVE and place is not None:
        return command_line("meta", "leave", *place, advice.writer)
    return command_line("maintain", root) if advice.remedy is Remedy.MAINTAIN else ""


def _bucket_sizes(state: TableState, entries: Sequence[ManifestEntry]) -> Iterator[DoctorFinding]:
    """One finding at most, of the table or of one partition; without a command where the
    partition's values cannot be said on a command line.
    """
    counts = {entry.partition: entry.total_buckets for entry in entries}
    sizes = {
        bucket: BucketSize(
            sum(entry.file.file_size for entry in members),
            sum(entry.file.row_count for entry in members),
        )
        for bucket, members in by_bucket(entries).items()
    }
    advice = bucket_advice(sizes, counts)
    if advice is None:
        return
    root = state.paths.root
    words: list[str] | None = []
    subject = f"option {opt.BUCKET.key!r} of {root}"
    if advice.partition is not None and state.schema.partition_keys:
        subject = f"partition {partition_text(advice.partition, state.schema)!r} of {root}"
        words = partition_words(advice.partition, state.schema)
    command = ""
    if advice.buckets is not None and words is not None:
        command = command_line("rescale", root, str(advice.buckets), *words)
    yield DoctorFinding(
        "upkeep",
        subject,
        advice.found,
        advice.expected,
        advice.concerned,
        advice.action,
        command,
    )
