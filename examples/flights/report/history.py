"""What the tables themselves tell about the run: commits, fill of the column groups, files, changes.

In: the tables and the run of the pipeline. Everything is read back from snapshots, nothing is taken
from the demo's own notes but which commit user was which query. The fill of a group at a snapshot is
counted by reading that snapshot (time travel), at evenly spaced snapshots; the changes of all snapshots
are counted by their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

import widetable as wt
from examples.flights.carrier_hourly import ROW_KIND
from examples.flights.pipeline import PipelineRun
from examples.flights.report.freshness import NO_BATCH
from examples.flights.tables import DemoTables
from examples.flights.weather.weather_first import LOOKUP
from examples.flights.wide_table import (
    COLUMN_GROUPS,
    PARTITION,
    STREAMS,
    TABLE_NAME,
    WIDENER,
    WIDENER_USER,
)

MAINTAINER = "maintainer"
SECOND_LAYER = "second layer"
_SAMPLED_SNAPSHOTS = 20


@dataclass(frozen=True)
class DemoCommit:
    """One snapshot. `seconds` since the first batch; rows and files as written by a stream."""

    snapshot_id: int
    seconds: float
    writer: str
    row_count: int
    file_count: int
    retry_count: int


@dataclass(frozen=True)
class FillPoint:
    """Flights whose group was known at a snapshot, by group; and the live files by level."""

    snapshot_id: int
    seconds: float
    row_count: int
    known: dict[str, int]
    files_by_level: dict[int, int]


@dataclass(frozen=True)
class Bucket:
    """The live files of one month, which is one bucket, at a snapshot: files and rows by level."""

    name: str
    files: dict[int, int]
    rows: dict[int, int]
    size_bytes: int


@dataclass(frozen=True)
class Emitted:
    """The changes of one snapshot: how many of each kind (+I, -U, +U, -D)."""

    snapshot_id: int
    seconds: float
    counts: dict[str, int]


@dataclass(frozen=True)
class History:
    """The run as the tables remember it, oldest first. commits: of the wide table. other_commits: of queries that
    write to the others.
    """

    commits: tuple[DemoCommit, ...]
    other_commits: tuple[DemoCommit, ...]
    told: tuple[Emitted, ...]
    fill: tuple[FillPoint, ...]
    buckets_before: tuple[Bucket, ...]
    buckets_after: tuple[Bucket, ...]

    @property
    def stream_commits(self) -> list[DemoCommit]:
        """In the wide table."""
        return [
            commit for commit in self.commits if commit.writer not in (MAINTAINER, WIDENER.name)
        ]

    @property
    def layer_commits(self) -> list[DemoCommit]:
        return self.of_writer(SECOND_LAYER)

    def of_writer(self, name: str) -> list[DemoCommit]:
        """In all tables."""
        return [each for each in (*self.commits, *self.other_commits) if each.writer == name]


def read_history(tables: DemoTables, run: PipelineRun, months: Sequence[str]) -> History:
    """Read all snapshots, and the wide table at some of them. `months`: all its partitions."""
    table = tables.wide
    commits = _commits(TABLE_NAME, table, run)
    not_streams = (MAINTAINER, WIDENER.name)
    last_of_streams = max(each.snapshot_id for each in commits if each.writer not in not_streams)
    sampled = _evenly_spaced(commits, last_of_streams)
    return History(
        commits=commits,
        other_commits=tuple(
            commit
            for name, other in tables.by_name.items()
            if name != TABLE_NAME
            for commit in _commits(name, other, run)
            if commit.writer != MAINTAINER
        ),
        told=_emitted(table, run),
        fill=tuple(_fill_point(table, commit) for commit in sampled),
        buckets_before=_buckets(table, last_of_streams, months),
        buckets_after=_buckets(table, commits[-1].snapshot_id, months),
    )


def _commits(name: str, table: wt.Table, run: PipelineRun) -> tuple[DemoCommit, ...]:
    """Without those by which a stream says that nothing is to come. Streams of one database are one commit user."""
    tables = {group.name: group.table for group in STREAMS}
    writers = {each.query_id: each.group for each in run.inputs if tables[each.group] == name}
    writers |= {
        run.lookup.query_id: LOOKUP,
        run.layer.query_id: SECOND_LAYER,
        WIDENER_USER: WIDENER.name,
    }
    return tuple(
        DemoCommit(
            snapshot_id=snapshot.id,
            seconds=snapshot.time_millis / 1000 - run.started,
            writer=writers.get(snapshot.commit_user, MAINTAINER),
            row_count=int(snapshot.properties.get("widetable.rows", "0")),
            file_count=int(snapshot.properties.get("widetable.files", "0")),
            retry_count=int(snapshot.properties.get("widetable.retries", "0")),
        )
        for snapshot in table.snapshots()
        if snapshot.commit_identifier != NO_BATCH or snapshot.commit_kind == "COMPACT"
    )


def _emitted(table: wt.Table, run: PipelineRun) -> tuple[Emitted, ...]:
    """Of the snapshots that have changes."""
    return tuple(
        Emitted(
            snapshot_id=snapshot.id,
            seconds=snapshot.time_millis / 1000 - run.started,
            counts=_kinds(table, snapshot.id),
        )
        for snapshot in table.snapshots()
        if snapshot.changelog_record_count
    )


def _kinds(table: wt.Table, snapshot_id: int) -> dict[str, int]:
    changes = table.changes(snapshot_id - 1, snapshot_id, columns=list(PARTITION))
    counts = pc.value_counts(changes[ROW_KIND])
    return {entry["values"]: entry["counts"] for entry in counts.to_pylist()}


def _evenly_spaced(commits: tuple[DemoCommit, ...], last_of_streams: int) -> list[DemoCommit]:
    """About `_SAMPLED_SNAPSHOTS` commits, evenly in time; always the streams' last and the newest."""
    span = commits[-1].seconds - commits[0].seconds
    chosen: list[DemoCommit] = []
    for commit in commits:
        due = not chosen or commit.seconds - chosen[-1].seconds >= span / _SAMPLED_SNAPSHOTS
        if due or commit.snapshot_id in (last_of_streams, commits[-1].snapshot_id):
            chosen.append(commit)
    return chosen


def _fill_point(table: wt.Table, commit: DemoCommit) -> FillPoint:
    columns = [group.sequence for group in COLUMN_GROUPS]
    scan = table.scan(columns=columns, snapshot_id=commit.snapshot_id)
    rows = scan.to_arrow()
    levels = Counter(file.level for split in scan.splits() for file in split.files)
    return FillPoint(
        snapshot_id=commit.snapshot_id,
        seconds=commit.seconds,
        row_count=rows.num_rows,
        known={
            group.name: pc.count(rows[group.sequence], mode="only_valid").as_py()
            for group in COLUMN_GROUPS
        },
        files_by_level=dict(levels),
    )


def _buckets(table: wt.Table, snapshot_id: int, months: Sequence[str]) -> tuple[Bucket, ...]:
    return tuple(_bucket(table, snapshot_id, month) for month in months)


def _bucket(table: wt.Table, snapshot_id: int, month: str) -> Bucket:
    scan = table.scan(filter=pc.field("month") == month, snapshot_id=snapshot_id)
    live = [file for split in scan.splits() for file in split.files]
    rows: Counter[int] = Counter()
    for file in live:
        rows[file.level] += file.row_count
    return Bucket(
        name=month,
        files=dict(Counter(file.level for file in live)),
        rows=dict(rows),
        size_bytes=sum(file.file_size for file in live),
    )
