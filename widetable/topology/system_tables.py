"""The tables about jobs, tables and barriers in the database `__meta` of a warehouse; any client reads them.

    __META_ETL_SOURCE     job_id STRING, table_name STRING             key both            what each job reads
    __META_ETL_SINK       table_name STRING, job_id STRING             key both            what each job writes
    __META_TABLE_VERSION  table_name STRING, version INT,              key table_name      tables under barriers
                          table_type STRING: Root or Intermediate
    __META_JOB            job_id STRING, kind, state STRING,           key job_id          all jobs; null: it has no
                          barrier BIGINT: in all of its tables                             barrier in one of its tables
    __META_BARRIER        `BarrierRow`                                 key the first three barriers of each table
    __META_JOB_BARRIER    `JobBarrierRow`                              key the first four  those that jobs completed
    __META_REVISION       revision INT, table_name STRING,             key the first two   null: it was cleared
                          barrier BIGINT, state STRING: noted or active
    __META_SETTING        table_name, setting, value STRING            key the first two   options of barriers, with
                                                                                           those that have defaults

They repeat registrations, snapshots and notes, so they may be dropped at any time and are made again; except for
barriers whose snapshots have expired, which are stored nowhere else (0047). Each table is changed in one commit that
writes only the differences, so that readers of its changes see just these; without differences there is no commit.
They are not under barriers. Source: F20 to F22 of FLIP-276; a table has several sinks, so the key of these is longer.
Raises InvalidError if a table of that name has other columns, and what reading and writing tables raises.

    stored         (j1, a)  (j2, a)
    required       (j1, a)           (j3, b)
    one commit     -D (j2, a), +I (j3, b)

A row whose value changed is only a +I, because its key stays. If two calls run at once, the later one wins row by row,
and the next call corrects the rest. Each table is consistent by itself; they need not show the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.commit.barriers.writer_registration import RUNNING, Job
from widetable.commit.notes.revision_notes import RevisionNote
from widetable.errors import InvalidError
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_read import scan
from widetable.operations.writes.table_write import write
from widetable.schema.barrier_options import BARRIER_OPTIONS
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.storage.paths import META_DATABASE
from widetable.topology.barrier_history import (
    BarrierRow,
    JobBarrierRow,
    barrier_rows,
    job_barrier_rows,
    reach_of,
    with_expired_barriers,
    with_expired_job_barriers,
)
from widetable.topology.barrier_times import KeptBarriers
from widetable.topology.registered_jobs import JobsOfTable, leads_of, merged
from widetable.topology.table_progress import TableProgress
from widetable.topology.warehouse import Warehouse

DATABASE: Final = META_DATABASE
SOURCES: Final = f"{DATABASE}.__META_ETL_SOURCE"
SINKS: Final = f"{DATABASE}.__META_ETL_SINK"
VERSIONS: Final = f"{DATABASE}.__META_TABLE_VERSION"
JOBS: Final = f"{DATABASE}.__META_JOB"
BARRIERS: Final = f"{DATABASE}.__META_BARRIER"
JOB_BARRIERS: Final = f"{DATABASE}.__META_JOB_BARRIER"
REVISIONS: Final = f"{DATABASE}.__META_REVISION"
SETTINGS: Final = f"{DATABASE}.__META_SETTING"
NOTED: Final = "noted"
ACTIVE: Final = "active"
_Row = tuple[str | int | None, ...]


class _Form(NamedTuple):
    """Holds the form of a table. columns: name to type in SQL, those of the key first. key: their names."""

    columns: Mapping[str, str]
    key: Sequence[str]


def _form(columns: str, key: int) -> _Form:
    """Parse a form. columns: as in SQL; key: how many of them are the key."""
    types = dict(column.split(" ") for column in columns.split(", "))
    return _Form(types, tuple(types)[:key])


# On disk: never change.
_FORMS: Final = {
    SOURCES: _form("job_id STRING, table_name STRING", key=2),
    SINKS: _form("table_name STRING, job_id STRING", key=2),
    VERSIONS: _form("table_name STRING, version INT, table_type STRING", key=1),
    JOBS: _form("job_id STRING, kind STRING, state STRING, barrier BIGINT", key=1),
    BARRIERS: _form(
        "table_name STRING, revision INT, barrier BIGINT, is_exact BOOLEAN, base_id BIGINT, extra_commits INT, "
        "snapshot_id BIGINT, changelog_snapshot_id BIGINT, written_time_millis BIGINT, changes_time_millis BIGINT",
        key=3,
    ),
    JOB_BARRIERS: _form(
        "job_id STRING, table_name STRING, revision INT, barrier BIGINT, begin_time_millis BIGINT, "
        "end_time_millis BIGINT, row_count BIGINT",
        key=4,
    ),
    REVISIONS: _form("revision INT, table_name STRING, barrier BIGINT, state STRING", key=2),
    SETTINGS: _form("table_name STRING, setting STRING, value STRING", key=2),
}
# How the value of an option is written, by the kind of the option.
_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "duration": lambda millis: f"{millis} ms",
    "integer": str,
    "boolean": lambda value: str(value).lower(),
}


class SystemTables:
    """Holds the rows of the system tables of one warehouse, and writes them."""

    def __init__(
        self,
        tables: Sequence[JobsOfTable],
        progress: Iterable[TableProgress],
        kept: Mapping[str, KeptBarriers],
        revisions: Iterable[tuple[RevisionNote, bool]],
        options: Mapping[str, TableOptions],
    ) -> None:
        """Compute the rows. tables, kept, options: of all tables under barriers. revisions: each with whether it is
        active.
        """
        self._kept = kept
        live = merged((job for table in tables for job in table.live()), leads_of(tables))
        running = [job for job in live if job.state == RUNNING]
        states = {table.name: table.state for table in tables}
        self._rows: dict[str, set[_Row]] = {
            SOURCES: {(job.name, table) for job in running for table in job.sources},
            SINKS: {(table, job.name) for job in running for table in job.tables},
            VERSIONS: {(one.table, one.version, one.table_type) for one in progress},
            JOBS: {(job.name, job.kind, job.state, _barrier_of(job, states)) for job in live},
            REVISIONS: {
                (note.number, table, barrier or None, ACTIVE if is_active else NOTED)
                for note, is_active in revisions
                for table, barrier in note.tables.items()
            },
            SETTINGS: {
                (table, option.key, _TEXTS[option.kind](values.get(option)))
                for table, values in options.items()
                for option in BARRIER_OPTIONS
            },
        }

    def bring_up_to_date(self, warehouse: Warehouse) -> dict[str, int]:
        """Make missing tables, and write the rows of each. Return how many rows each table has then."""
        counts = {}
        for name, form in _FORMS.items():
            table = warehouse.create_table(
                name,
                form.columns,
                primary_key=form.key,
                options={"bucket": "1"},
                if_not_exists=True,
            )
            _check_form(table, form)
            stored = {tuple(row.values()) for row in scan(table).to_arrow().to_pylist()}
            rows = self._rows_of(name, stored)
            _write_differences(table, form, stored, rows)
            counts[name] = len(rows)
        return counts

    def _rows_of(self, name: str, stored: Iterable[_Row]) -> Set[_Row]:
        """Return the rows that a table should have. stored: its current rows."""
        reach = reach_of(self._kept)
        if name == BARRIERS:
            barriers = map(BarrierRow._make, stored)
            return with_expired_barriers(barrier_rows(self._kept), barriers, reach)
        if name == JOB_BARRIERS:
            completed = map(JobBarrierRow._make, stored)
            return with_expired_job_barriers(job_barrier_rows(self._kept), completed, reach)
        return self._rows[name]


def _barrier_of(job: Job, states: Mapping[str, BarrierState]) -> int | None:
    """Return the barrier that the job has completed in all of its tables; None if it has none in one of them. A table
    that is no longer under barriers does not count.
    """
    members = [states[table].members.get(job.name) for table in job.tables if table in states]
    return min((0 if one is None else one.frontier for one in members), default=0) or None


def _write_differences(table: OpenTable, form: _Form, stored: Set[_Row], rows: Set[_Row]) -> None:
    """Write the differences between stored and required rows in one commit, or none."""

    def key_of(row: _Row) -> _Row:
        return row[: len(form.key)]

    staying = set(map(key_of, rows))
    gone = [row for row in stored if key_of(row) not in staying]
    changed = [(*row, "+I") for row in sorted(rows - stored, key=key_of)]
    changed += [(*row, "-D") for row in sorted(gone, key=key_of)]
    if changed:
        columns = list(zip(*changed, strict=True))
        fields = [*table.schema.arrow_schema(), pa.field(ROW_KIND_COLUMN, pa.string())]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, fields, strict=True)]
        write(table, pa.table(arrays, pa.schema(fields)))


def _check_form(table: OpenTable, form: _Form) -> None:
    columns, key = table.schema.names, tuple(table.schema.primary_keys)
    if (columns, key) != (tuple(form.columns), tuple(form.key)):
        raise InvalidError(
            table.path,
            found=f"the columns {', '.join(columns)}, key {', '.join(key)}",
            expected=f"the columns {', '.join(form.columns)}, key {', '.join(form.key)}",
            action="Drop or rename the table: the next call makes it again.",
        )
