"""The tables of FLIP-276 about jobs and tables, in the database `__meta` of a warehouse; any client reads them.

    __META_ETL_SOURCE     job_id STRING, table_name STRING             key both            what each job reads
    __META_ETL_SINK       table_name STRING, job_id STRING             key both            what each job writes
    __META_TABLE_VERSION  table_name STRING, version INT,              key table_name      tables under barriers
                          table_type STRING: Root or Intermediate

They repeat what registrations and snapshots say, so they may be dropped at any time and are made anew. One is changed
in one commit, by what differs, so that readers of its changes see just that; one that is as it should be gets none.
They are not under barriers. Source: F20 to F22 of FLIP-276; a table has several sinks, so the key of these is longer.
Raises InvalidError where a table of that name has other columns, and what reading and writing tables raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from widetable.commit.writer_registration import Job
from widetable.errors import InvalidError
from widetable.meta.table_progress import TableProgress
from widetable.meta.warehouse import Warehouse
from widetable.operations.open_table import OpenTable
from widetable.operations.table_read import scan
from widetable.operations.table_write import write
from widetable.paths import META_DATABASE
from widetable.write.write_batch import ROW_KIND_COLUMN

DATABASE: Final = META_DATABASE
SOURCES: Final = f"{DATABASE}.__META_ETL_SOURCE"
SINKS: Final = f"{DATABASE}.__META_ETL_SINK"
VERSIONS: Final = f"{DATABASE}.__META_TABLE_VERSION"
_Row = tuple[str | int, ...]


class _Form(NamedTuple):
    columns: Mapping[str, str]
    key: Sequence[str]


_FORMS: Final = {
    SOURCES: _Form({"job_id": "STRING", "table_name": "STRING"}, ("job_id", "table_name")),
    SINKS: _Form({"table_name": "STRING", "job_id": "STRING"}, ("table_name", "job_id")),
    VERSIONS: _Form(
        {"table_name": "STRING", "version": "INT", "table_type": "STRING"}, ("table_name",)
    ),
}


def system_rows(jobs: Iterable[Job], tables: Iterable[TableProgress]) -> dict[str, set[_Row]]:
    """Table to its rows. jobs: that run. Pure."""
    known = list(jobs)
    return {
        SOURCES: {(job.name, table) for job in known for table in job.sources},
        SINKS: {(table, job.name) for job in known for table in job.tables},
        VERSIONS: {(one.table, one.version, one.table_type) for one in tables},
    }


def bring_up_to_date(warehouse: Warehouse, rows: Mapping[str, set[_Row]]) -> dict[str, int]:
    """Make the tables that are not there, and give each its rows. Table to how many it has then."""
    for name, form in _FORMS.items():
        table = warehouse.create_table(
            name,
            form.columns,
            primary_key=form.key,
            options={"bucket": "1"},
            if_not_exists=True,
        )
        _check_form(table, form)
        _bring(table, form, rows[name])
    return {name: len(rows[name]) for name in _FORMS}


def _bring(table: OpenTable, form: _Form, rows: set[_Row]) -> None:
    """By one commit, or none."""
    there = {tuple(row.values()) for row in scan(table).to_arrow().to_pylist()}
    staying = {_key_of(row, form) for row in rows}
    gone = {row for row in there if _key_of(row, form) not in staying}
    changed = [(*row, "+I") for row in sorted(rows - there)]
    changed += [(*row, "-D") for row in sorted(gone)]
    if changed:
        names = [*form.columns, ROW_KIND_COLUMN]
        write(table, dict(zip(names, map(list, zip(*changed, strict=True)), strict=True)))


def _key_of(row: _Row, form: _Form) -> _Row:
    named = dict(zip(form.columns, row, strict=True))
    return tuple(named[column] for column in form.key)


def _check_form(table: OpenTable, form: _Form) -> None:
    found = (table.schema.names, tuple(table.schema.primary_keys))
    if found != (tuple(form.columns), tuple(form.key)):
        raise InvalidError(
            table.path,
            found=f"the columns {', '.join(found[0])}, key {', '.join(found[1])}",
            expected=f"the columns {', '.join(form.columns)}, key {', '.join(form.key)}",
            action="Drop the table, or give it another name: it is made anew.",
        )
