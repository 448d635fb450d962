"""Advice about a table that is undamaged: nobody compacts it, it has too many files, a consumer holds expiry, a writer
holds barriers or is ahead of the clock (`barrier_advice`), buckets are too large, too many or skewed (`bucket_advice`).

In: the backlog of compactions (`backlog`), consumers, live files. Out: findings of the check "upkeep", each with
a command that can be run unchanged, or "" if no command helps. Only metadata is opened; sizes are those of files. An
append table has no level 0 and no key that hashes to a bucket, so these checks are skipped for it. Raises what reading
these raises.
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
    """Yield the findings in the order of the module's first sentence."""
    latest, entries = newest_files(committer)
    if latest is None:
        return
    earliest_id = committer.snapshots.earliest_id() or 1
    if state.schema.primary_keys:
        try:
            since = since_compaction(committer, latest, earliest_id)
        except DamagedError:  # a damaged snapshot is a finding of another check
            return
        yield from _compaction(state, backlog_of(entries, since.began_millis), since)
    yield from _consumers(state, consumer_lags(state, latest), earliest_id)
    yield from _barriers(state, barriers_at(state, committer, latest))
    if state.schema.primary_keys and state.schema.num_buckets > 0:
        yield from _bucket_sizes(state, entries)


def _compaction(
    state: TableState, backlog: Backlog, since: SinceCompaction
) -> Iterator[DoctorFinding]:
    """Yield at most one finding: too many files for reads, or files that nobody compacts. It advises a maintainer if
    nobody compacts the table, otherwise a compaction.
    """
    options, root = state.options, state.paths.root
    is_leased = holder(state.file_io, state.paths) is not None
    unattended = unattended_by(root, options, backlog, since, is_leased=is_leased)
    # A table that has just been written is not yet untended.
    is_alone = is_untended(backlog, options, is_leased=is_leased) or (
        unattended is not None and is_stuck(backlog)
    )
    if not (is_slow(backlog, options) or is_alone or awaits_changelog(backlog, options)):
        return
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    needs_maintainer = unattended is not None or (options.get(opt.WRITE_ONLY) and not is_leased)
    expected = "a maintainer or writer that compacts them"
    if is_slow(backlog, options):
        key = opt.NUM_SORTED_RUN_COMPACTION_TRIGGER.key
        expected = (
            f"not many more than {trigger} in a bucket, where compactions begin (option {key!r})"
        )
    elif not needs_maintainer:
        expected = "none that waits longer than compactions usually take"
    yield DoctorFinding(
        "upkeep",
        root,
        counted(backlog.files, "level-0 file")
        + (", and nobody compacts" if needs_maintainer else ""),
        expected,
        f"reads, which merge them, and the changelog: {backlog.most_in_a_bucket} in one bucket",
        "Let a maintainer run for as long as the table is written."
        if needs_maintainer
        else "Compact the table; if such files return, look into the log of the process that compacts it.",
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
        text = f"{counted(lag.behind, 'snapshot')} behind"
        yield DoctorFinding(
            "upkeep",
            f"consumer {name!r} of {state.paths.root}",
            f"{text}, the next one has expired" if has_expired else text,
            "a consumer whose reader keeps up",
            f"snapshots from {lag.next_snapshot_id} on, which expiry keeps for it",
            "Start its reader again, or delete the consumer: its reader then has no saved position.",
            command_line("consumer", "delete", state.paths.root, name),
        )


def barriers_at(
    state: TableState, committer: Committer, latest: Snapshot
) -> Sequence[BarrierAdvice]:
    """Return advice about the writers of a table, by the newest snapshot and the one of ten minutes ago; none without
    barriers.
    """
    interval = state.schema.typed_options.get(BARRIER_INTERVAL)
    if interval is None:
        return ()
    at_millis = now_millis()
    before: BarrierState | None = None
    try:
        now = state_at(latest, committer.last_commits.load, interval)
    except NotFoundError:  # only snapshots of other clients are left, which state no barriers
        return ()
    # These errors mean that no snapshot that old is kept, or that it cannot be read, which another check reports.
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
    """Return the remedy as a command; "" if only the writer itself can help, or if the table lies in no warehouse."""
    place = table_name(root)  # a branch has none
    if advice.remedy is Remedy.LEAVE and place is not None:
        return command_line("meta", "leave", *place, advice.writer)
    return command_line("maintain", root) if advice.remedy is Remedy.MAINTAIN else ""


def _bucket_sizes(state: TableState, entries: Sequence[ManifestEntry]) -> Iterator[DoctorFinding]:
    """Yield at most one finding, about the table or one partition. It has no command if a command line cannot express
    the partition's values.
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
