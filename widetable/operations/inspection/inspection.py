"""The state of a table as one small value: snapshots, files, backlog, consumers, leases, and what to do.

Reads the newest snapshot and its manifests, consumers and the lease, snapshots from the newest back to the last
compaction, and lists the directories of live files. Opens no data file. Writes nothing, and takes
no lease: if the table changes meanwhile, parts of the value may come from different moments.

Warnings are ordered by importance: damage, then the backlog at level 0 (one sentence that says who should compact, or
else sentences about its effects on reads and changelogs), consumers, writers of barriers, notes that cannot be read.
`doctor` reports these as findings, and reads more.

Raises what reading these raises.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from widetable.commit.holds.snapshot_holds import kept_snapshots
from widetable.commit.holds.tag_store import TagStore
from widetable.format.manifest_entry import ManifestEntry
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, coded
from widetable.operations.compaction.backlog import (
    Backlog,
    ConsumerLag,
    awaits_changelog,
    is_far_behind,
    is_slow,
    is_untended,
    unattended_by,
)
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.barrier_advice import BarrierAdvice
from widetable.operations.health.damaged_metadata import damaged_notes
from widetable.operations.health.file_damage import DamagedFile, damaged_files
from widetable.operations.health.upkeep_check import barriers_at
from widetable.operations.inspection.table_measures import measured
from widetable.schema import options as opt
from widetable.write.table_state import TableState

# How many damaged files have a sentence of their own.
_DAMAGED_NAMED: Final = 10


@dataclass(frozen=True)
class LevelFiles:
    """Sums up one level of all buckets. rows: in the files, not merged; bytes: of the files on the storage."""

    level: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class DerivedState:
    """Describes one derived table or set of columns, by the option that declares it.

    behind: by `db.name`, how many snapshots of each source are not processed; None: no snapshot of it ever was. round,
    ended_millis, rows, duration_millis: a widener's last full round, while its snapshot is kept: its number, when it
    ended (epoch milliseconds), how many rows it wrote, and how long it took. error: why it cannot be updated, if the
    tables themselves show that.
    """

    option: str
    behind: Mapping[str, int | None]
    round: int | None = None
    ended_millis: int | None = None
    rows: int | None = None
    duration_millis: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Inspection:
    """What state a table is in. Ids and times are None for a table without snapshots; times are epoch milliseconds.

    Attributes
    ----------
    path : str
        The directory of the table.
    schema_id : int
        The newest schema.
    merge_engine : str or None
        The option of this name. None: an append table, in which nothing is merged.
    changelog_producer : str
        The option of this name.
    write_only : bool
        Whether writers leave compaction to a maintainer.
    buckets : int
        The option `bucket`: the number of buckets; -1 for dynamic buckets, and for an append table without buckets.
    earliest_snapshot_id, latest_snapshot_id : int or None
        The snapshots that are kept.
    latest_kind : str or None
        The kind of the newest snapshot.
    latest_time_millis : int or None
        The time of the newest snapshot.
    levels : tuple of LevelFiles
        Number, rows and bytes of the live files of each level.
    backlog : Backlog
        What waits for compaction.
    last_compaction_id, last_compaction_time_millis : int or None
        The newest COMPACT snapshot. None: no such snapshot is kept.
    commits_since_compaction : int
        The number of newer snapshots; without a compaction, of all that are kept.
    tags : tuple of str
        The names of the tags.
    consumers : dict of str to ConsumerLag
        Name of a consumer to how far it is behind.
    held_snapshot_ids : tuple of int
        Snapshots that readers keep by a lease.
    lease_holder : str or None
        The owner of the compaction lease. None: it is free.
    lease_expires_millis : int or None
        When the compaction lease expires.
    damaged_files : tuple of DamagedFile
        Live files that are damaged, as far as a listing of directories shows, or a compaction of this process has met
        them. `Table.doctor` reads the files.
    warnings : tuple of str
        Sentences, each with what to do.
    commits_without_changelog : int
        How many commits wait for the compaction that makes their changelog.
    sorted_runs : int
        How many sorted runs a read of the worst bucket merges.
    silent_millis : int or None
        Milliseconds since the last holder of the compaction lease reported that it works. None: no lease is recorded.
    commit_millis : int or None
        How long the newest commit took, lost races included. None: another client made it.
    derived : tuple of DerivedState
        The state of indexes, of widened columns, of the history, and of what the table holds: a join, larger tiles,
        samples.
    """

    __module__ = "widetable"

    path: str
    schema_id: int
    merge_engine: str | None
    changelog_producer: str
    write_only: bool
    buckets: int
    earliest_snapshot_id: int | None
    latest_snapshot_id: int | None
    latest_kind: str | None
    latest_time_millis: int | None
    levels: tuple[LevelFiles, ...]
    backlog: Backlog
    last_compaction_id: int | None
    last_compaction_time_millis: int | None
    commits_since_compaction: int
    tags: tuple[str, ...]
    consumers: Mapping[str, ConsumerLag]
    held_snapshot_ids: tuple[int, ...]
    lease_holder: str | None
    lease_expires_millis: int | None
    damaged_files: tuple[DamagedFile, ...]
    warnings: tuple[str, ...]
    commits_without_changelog: int
    sorted_runs: int
    silent_millis: int | None
    commit_millis: int | None
    derived: tuple[DerivedState, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            The fields, by name; nested results are dicts.
        """
        return asdict(self)


def inspect_table(table: OpenTable) -> Inspection:
    """Inspect a table as `Table.inspect` does, without derived tables: `derived` is empty."""
    state, committer = table._state(), table._committer
    options, schema = state.options, state.schema
    table_measured = measured(table)
    measures, latest, entries = (
        table_measured.measures,
        table_measured.latest,
        table_measured.entries,
    )
    earliest_id, since = table_measured.earliest_id, table_measured.since
    compaction, backlog, consumers = since.compaction, measures.backlog, measures.consumers
    is_leased = table_measured.is_leased
    lease = table_measured.lease if is_leased else None
    unattended = unattended_by(state.paths.root, options, backlog, since, is_leased=is_leased)
    latest_id = 0 if latest is None else latest.id
    # This lists directories: one request for each bucket that has files.
    damaged = tuple(damage.file for damage in damaged_files(state, entries, latest_id))
    others = () if unattended is not None else _backlog_warnings(state, backlog, is_leased)
    return Inspection(
        path=state.paths.root,
        schema_id=schema.id,
        merge_engine=options.get(opt.MERGE_ENGINE) if schema.has_key else None,
        changelog_producer=options.get(opt.CHANGELOG_PRODUCER),
        write_only=options.get(opt.WRITE_ONLY),
        buckets=schema.num_buckets,
        earliest_snapshot_id=earliest_id,
        latest_snapshot_id=None if latest is None else latest.id,
        latest_kind=None if latest is None else latest.commit_kind,
        latest_time_millis=None if latest is None else latest.time_millis,
        levels=_levels(entries),
        backlog=backlog,
        last_compaction_id=None if compaction is None else compaction.id,
        last_compaction_time_millis=None if compaction is None else compaction.time_millis,
        commits_since_compaction=since.commits,
        tags=tuple(TagStore(state.file_io, state.paths).names()),
        consumers=consumers,
        held_snapshot_ids=tuple(kept_snapshots(state)),
        lease_holder=None if lease is None else lease.owner,
        lease_expires_millis=None if lease is None else lease.expires_millis,
        damaged_files=damaged,
        warnings=(
            *_damage_warnings(state.paths.root, damaged),
            *(() if unattended is None else (coded(WarningCode.NO_MAINTAINER, unattended),)),
            *others,
            *_consumer_warnings(state, consumers, earliest_id),
            *(() if latest is None else _barrier_warnings(barriers_at(state, committer, latest))),
            *(
                coded(WarningCode.FILE_SKIPPED, str(damage))
                for damage in damaged_notes(state.file_io, state.paths)
            ),
        ),
        commits_without_changelog=measures.commits_without_changelog,
        sorted_runs=measures.sorted_runs,
        silent_millis=measures.silent_millis,
        commit_millis=measures.commit_millis,
    )


def _damage_warnings(path: str, damaged: Sequence[DamagedFile]) -> Iterator[str]:
    """Yield a sentence for each of the first files, then one about all."""
    code = WarningCode.FILES_DAMAGED
    yield from (coded(code, str(file)) for file in damaged[:_DAMAGED_NAMED])
    if damaged:
        count, rows = len(damaged), sum(file.rows for file in damaged)
        yield coded(
            code,
            f"{counted(count, 'live file is', 'live files are')} damaged, with {counted(rows, 'key')}; no bucket with "
            f"one is compacted: run widetable doctor {shlex.quote(path)}",
        )


def _levels(entries: Sequence[ManifestEntry]) -> tuple[LevelFiles, ...]:
    by_level: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        by_level.setdefault(entry.file.level, []).append(entry)
    return tuple(
        LevelFiles(
            level,
            len(members),
            sum(entry.file.row_count for entry in members),
            sum(entry.file.file_size for entry in members),
        )
        for level, members in sorted(by_level.items())
    )


def _backlog_warnings(state: TableState, backlog: Backlog, is_leased: bool) -> Iterator[str]:
    """Warn of slow reads, or of files that nobody compacts; and of changelogs that are late."""
    options, path = state.options, shlex.quote(state.paths.root)
    if is_slow(backlog, options):
        who = (
            f"run widetable maintain {path}"
            if options.get(opt.WRITE_ONLY)
            else "compactions after appends fail or lose; see the log of the writers"
        )
        slow = counted(
            backlog.most_in_a_bucket,
            "level-0 file in one bucket makes reads slow",
            "level-0 files in one bucket make reads slow",
        )
        text = f"{slow}: {who}"
        yield coded(WarningCode.SLOW_READS, text)
    elif is_untended(backlog, options, is_leased=is_leased):
        wait = counted(
            backlog.files,
            "level-0 file waits for more than an hour",
            "level-0 files wait for more than an hour",
        )
        text = f"{wait}: run widetable maintain {path}"
        yield coded(WarningCode.FILES_WAIT, text)
    if awaits_changelog(backlog, options):
        wait = counted(
            backlog.files,
            "level-0 file waits for its changelog for more than a minute",
            "level-0 files wait for their changelog for more than a minute",
        )
        yield coded(
            WarningCode.CHANGELOG_WAITS,
            f"{wait}: see the log of the writers, or run widetable maintain {path}",
        )


def _barrier_warnings(advice: Sequence[BarrierAdvice]) -> Iterator[str]:
    for each in advice:
        text = f"writer {each.writer!r} is at {each.found}: {each.concerned}. {each.action}"
        yield coded(WarningCode.WRITER_HOLDS, text)


def _consumer_warnings(
    state: TableState, consumers: Mapping[str, ConsumerLag], earliest_id: int | None
) -> Iterator[str]:
    for name, lag in consumers.items():
        if earliest_id is not None and lag.next_snapshot_id < earliest_id:
            text = f"has not read snapshot {lag.next_snapshot_id}, which has expired: delete it, and restart its reader"
            yield coded(WarningCode.CONSUMER_EXPIRED, f"consumer {name!r} {text}")
        elif is_far_behind(lag, state.options):
            far = counted(
                lag.behind,
                "snapshot behind, and expiry keeps it",
                "snapshots behind, and expiry keeps them",
            )
            text = f"is {far}: start its reader again, or delete it"
            yield coded(WarningCode.CONSUMER_BEHIND, f"consumer {name!r} {text}")
