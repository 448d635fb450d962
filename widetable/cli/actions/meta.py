"""The command meta, for tables under barriers and their jobs. It reads the tables, or asks a service.

    widetable meta barriers /warehouse shop.users        this process reads the tables
    widetable meta barriers --uri URL shop.users         the same answer from `widetable meta serve`

An `_Service` hides which of them answers. rebuild and serve need the warehouse itself. Answers of a service are not
compared with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.arguments import whole_number
from widetable.cli.actions.past import check_only
from widetable.cli.actions.tables import warehouse_of
from widetable.cli.command import DONE, FOUND
from widetable.cli.input.option_words import names_of
from widetable.cli.output.console import write_result
from widetable.cli.output.frame_text import frame_lines
from widetable.commit.barriers.writer_registration import Job
from widetable.errors import InvalidError
from widetable.format.human_units import last_seen_text
from widetable.messages.counted import counted
from widetable.operations.barriers.session import REPEATABLE_READ, Session
from widetable.operations.health.barrier_advice import is_lost
from widetable.operations.health.doctor_report import command_line
from widetable.operations.inspection.inspected_frame import frame_schema
from widetable.runtime.extra_package import extra_package
from widetable.topology.meta_service import (
    MetaAnswers,
    ServiceSession,
    service_client,
)
from widetable.topology.revision import RevisionResult
from widetable.topology.table_progress import TableProgress, barrier_without

_Row = dict[str, Any]
_HOST: Final = "127.0.0.1"
_PORT: Final = 9096
# The number of arguments NAME and WRITER that an action takes. 2: both.
_NAMES: Final = {"lineage": 1, "barriers": 1, "read": 1, "leave": 2, "drop-job": 1, "revise": 1}
# The columns of the output for people; `frame_lines` prints them by their types. JSON has all fields.
_JOBS: Final = frame_schema("job string?, kind string?, state string?, sources list?, sinks list?")
_TABLES: Final = frame_schema(
    "table string?, layer int64?, type string?, barrier int64?, common_barrier int64?, freshness_millis int64?, "
    "missing list?"
)
_REVISED: Final = frame_schema(
    "table string?, barrier int64?, to int64?, commits int64?, records int64?"
)
_LINEAGE: Final = frame_schema("direction string?, table string?, written_by list?")
_BARRIERS: Final = frame_schema(
    "barrier int64?, is_complete bool?, is_exact bool?, base_id int64?, extra_files int64?, hidden_files int64?, "
    "snapshot_id int64?, changelog_snapshot_id int64?, missing list?"
)
_NO_JOBS: Final = "no job writes a table of this warehouse that is under barriers"
_NO_BARRIERS: Final = (
    "no table of this warehouse is under barriers (option widetable.barrier-interval, "
    "docs/consistency.md)"
)
_READ: Final = frame_schema("table string?, snapshot_id int64?")


class _Service(NamedTuple):
    """The source of the answers: the tables themselves, or their service.

    topology, revise, session: its interfaces. words: the arguments by which a command line names it.
    """

    topology: MetaAnswers
    revise: Callable[..., RevisionResult]
    session: Callable[..., Session | ServiceSession]
    words: tuple[str, ...]


class _MetaWords(NamedTuple):
    """The arguments of a command line without the answerer's. name, writer: "" if they are not given."""

    action: str
    name: str
    writer: str
    barrier: int | None
    limit: int | None
    force: bool
    to: int | None
    full: bool
    dry_run: bool
    format: str


def meta(
    action: str,
    path: str | None,
    name: str | None,
    writer: str | None,
    uri: list[str] | None,
    barrier: int | None,
    limit: int | None,
    force: bool,
    to: int | None,
    full: bool,
    dry_run: bool,
    host: str | None,
    port: int | None,
    url: str | None,
    format: str,
) -> int:
    """Print the answer, the tables that a writer or job left, or the URL of the service."""
    # First check which arguments belong to the action: an argument without effect is refused.
    check_only("meta", action, tuple(_ANSWERS), {"--uri": uri is not None})
    words = [one for one in (path, name, writer) if one is not None]
    warehouse, table, leaving = _placed(action, words, by_uri=uri is not None)
    check_only("meta", action, ["delay", "read"], {"--barrier": barrier is not None})
    check_only("meta", action, ["barriers", "delay"], {"--limit": limit is not None})
    check_only("meta", action, ["leave", "drop-job"], {"--force": force})
    check_only("meta", action, ["leave", "drop-job", "revise"], {"--dry-run": dry_run})
    check_only("meta", action, ["revise"], {"--to": to is not None, "--full": full})
    for_serve = {"--host": host is not None, "--port": port is not None, "--url": url is not None}
    check_only("meta", action, ["serve"], for_serve)
    if limit is not None:
        whole_number(limit, "--limit", least=0)
    if action in _ANSWERS:
        source = _answerer(warehouse, uri)
        given = _MetaWords(action, table, leaving, barrier, limit, force, to, full, dry_run, format)
        return _ANSWERS[action](source, given) or DONE
    if action == "rebuild":
        _rebuild(warehouse, format)
    else:
        _serve(warehouse, host or _HOST, _PORT if port is None else port, url, format)
    return DONE


# A service chooses the barrier and knows its snapshots. This process then opens no table, so it needs no access to the
# warehouse's storage. Several URLs are instances of one service; any instance that responds is used.
def _answerer(warehouse: str, uris: Sequence[str] | None) -> _Service:
    if uris is not None:
        service = service_client(uris, "--uri")
        words = tuple(word for uri in uris for word in ("--uri", uri))
        return _Service(service, service.revise, service.session, words)
    catalog = warehouse_of(warehouse)
    return _Service(catalog.topology(), catalog.revise, catalog.session, (warehouse,))


def _placed(action: str, words: Sequence[str], *, by_uri: bool) -> tuple[str, str, str]:
    """Return (warehouse, name, writer) of an action, "" for each that it does not take.

        leave /warehouse shop.users crm        "/warehouse", "shop.users", "crm"
        leave --uri URL shop.users crm         "", "shop.users", "crm"
        jobs /warehouse                        "/warehouse", "", ""

    The parser fills path, name and writer from the left, so with --uri they are shifted by one place. words: the given
    ones, in order. Raises InvalidError for too few and for too many.
    """
    names = ("NAME", "WRITER")[: _NAMES.get(action, 0)]
    behind = list(words if by_uri else words[1:])
    if len(behind) == len(names) and (by_uri or words):
        name, writer = (*behind, "", "")[:2]
        return "" if by_uri else words[0], name, writer
    if by_uri and len(behind) == 1 + len(names):
        actual = f"both WAREHOUSE and --uri: {words[0]!r}"
    elif not by_uri and not words:
        actual = "neither WAREHOUSE nor --uri" if action in _ANSWERS else "no WAREHOUSE"
    else:
        actual = ", ".join(map(repr, behind)) or "no NAME"
    forms = ("WAREHOUSE", "--uri URL") if action in _ANSWERS else ("WAREHOUSE",)
    raise InvalidError(
        f"widetable meta {action}",
        found=actual,
        expected=", or ".join(" ".join([form, *names]) for form in forms),
        action="Run widetable meta --help.",
    )


# It returns when the service ends. The warehouse is checked first, because a mistyped path would be served without
# tables. own_url is known once the service listens, because port 0 takes a free port.
def _serve(path: str, host: str, port: int, url: str | None, format: str) -> None:
    warehouse_of(path)
    serving = extra_package("widetable_meta.serving", "widetable meta serve", "meta")

    def print_url(own_url: str) -> None:
        write_result(format, {"url": own_url}, [f"{path} is served at {own_url}"])

    serving.serve(path, host, port, url, print_url)


# It writes: the tables of the database __meta get the facts from the snapshots that they do not have yet.
def _rebuild(path: str, format: str) -> None:
    rows_by_table = warehouse_of(path).topology().rebuild()
    lines = [f"{table}: {counted(rows, 'row')}" for table, rows in rows_by_table.items()]
    write_result(format, {"tables": rows_by_table}, lines)


# show prints jobs, tables and the common barrier; jobs and tables print one of them.
def _write_topology(source: _Service, given: _MetaWords) -> int:
    value: _Row = {}
    lines: list[str] = []
    lost: list[_Row] = []
    if given.action != "tables":
        jobs = source.topology.jobs()
        value["jobs"] = [asdict(job) for job in jobs]
        lines += _lines(_JOBS, map(_job_row, jobs))
        silent = [(table, job.name, job.silent_millis) for job in jobs for table in job.tables]
        lost = _lost(source, silent)
    if given.action != "jobs":
        tables = source.topology.tables()
        value["tables"] = [{**asdict(one), "missing": one.missing} for one in tables]
        rows = [{**asdict(one), **_table_row(one)} for one in tables]
        lost = lost or _lost(
            source,
            [(one.table, each.name, each.silent_millis) for one in tables for each in one.writers],
        )
        lines += ["", *_lines(_TABLES, rows)] if lines else _lines(_TABLES, rows)
    if given.action == "show":
        value["common_barrier"] = source.topology.common_barrier()
        common = "none" if value["common_barrier"] is None else str(value["common_barrier"])
        lines += ["", f"complete in all tables: {common}"]
    if not any(value.get(rows) for rows in ("jobs", "tables")):
        lines = [_NO_JOBS if given.action == "jobs" else _NO_BARRIERS]
    value["lost"] = lost
    lines += [
        f"{one['writer']} of {one['table']}: {last_seen_text(one['silent_millis'])}. Start it again, or, if it does "
        f"not come back: {one['command']}"
        for one in lost
    ]
    write_result(given.format, value, lines)
    return FOUND if lost else DONE


def _lost(source: _Service, silent: Iterable[tuple[str, str, int | None]]) -> list[_Row]:
    """Return the writers that a table waits for and that were silent for long, with the command that removes each."""
    return [
        {
            "table": table,
            "writer": name,
            "silent_millis": millis,
            "command": command_line("meta", "leave", *source.words, table, name),
        }
        for table, name, millis in silent
        if is_lost(millis)
    ]


def _table_row(one: TableProgress) -> _Row:
    """Return the type and the missing writers of a table; a silent writer has the time since it was last heard of."""
    missing = [
        each.name
        if each.silent_millis is None
        else f"{each.name} ({last_seen_text(each.silent_millis)})"
        for each in one.writers
        if each.is_missing
    ]
    return {"type": one.table_type, "missing": missing}


def _job_row(job: Job) -> _Row:
    """Return the row of a job; a sink of which it writes only some columns is `db.table(a, b)`."""
    sinks = [
        sink.table if sink.columns is None else f"{sink.table}({', '.join(sink.columns)})"
        for sink in job.sinks
    ]
    state = job.state if job.silent_millis is None else last_seen_text(job.silent_millis)
    return {**asdict(job), "job": job.name, "state": state, "sinks": sinks}


# The output has the tables upstream of a table, the table, and those downstream, each with the jobs that write it.
def _write_lineage(source: _Service, given: _MetaWords) -> None:
    topology, table = source.topology, given.name
    jobs = topology.jobs()
    lineage = {
        direction: [{"table": one, "written_by": _writers(one, jobs)} for one in tables]
        for direction, tables in (
            ("upstream", topology.upstream(table)),
            ("table", [table]),
            ("downstream", topology.downstream(table)),
        )
    }
    rows = ({"direction": direction, **row} for direction in lineage for row in lineage[direction])
    value = {**lineage, "table": lineage["table"][0]}
    write_result(given.format, value, _lines(_LINEAGE, rows))


def _writers(table: str, jobs: Iterable[Job]) -> list[str]:
    return [job.name for job in jobs if table in job.tables]


# The output has the barriers of one table, at most `--limit`, with the snapshots by which each is read.
def _write_barriers(source: _Service, given: _MetaWords) -> None:
    rows = [asdict(one) for one in source.topology.barriers(given.name, given.limit)]
    write_result(given.format, {"table": given.name, "barriers": rows}, _lines(_BARRIERS, rows))


# The tables are one comma-separated word, in the place of the NAME of other actions.
def _write_read(source: _Service, given: _MetaWords) -> None:
    tables = names_of(given.name)
    # The session is closed at once: the printed snapshots are not held from expiry.
    with source.session(tables, consistency=REPEATABLE_READ, as_of=given.barrier) as session:
        ids = session.snapshot_ids() if isinstance(session, Session) else session.snapshot_ids
        rows = [{"table": table, "snapshot_id": id} for table, id in ids.items()]
        value = {"barrier": session.barrier, "revision": session.revision, "tables": rows}
    text = f"at barrier {session.barrier}; read a table without a snapshot by the barrier"
    write_result(given.format, value, [*_lines(_READ, rows), "", text])


# The output has two frames, one of tables and one of jobs; JSON has both in one object.
def _write_delays(source: _Service, given: _MetaWords) -> None:
    delays = source.topology.delays(given.barrier, given.limit)
    lines = [*frame_lines(delays.tables_to_arrow()), "", *frame_lines(delays.jobs_to_arrow())]
    write_result(given.format, asdict(delays), lines)


# One table, or all tables of a job, remove a writer: barriers no longer wait for it. Both are refused for a writer that
# still runs, unless --force is given.
def _leave(source: _Service, given: _MetaWords) -> None:
    before = source.topology.tables()
    source.topology.leave(given.name, given.writer, force=given.force, dry_run=given.dry_run)
    _write_left(source, given.writer, [given.name], before, given)


def _drop(source: _Service, given: _MetaWords) -> None:
    before = source.topology.tables()
    left = source.topology.drop(given.name, force=given.force, dry_run=given.dry_run)
    _write_left(source, given.name, left, before, given)


def _write_left(
    source: _Service,
    name: str,
    tables: Sequence[str],
    before: Sequence[TableProgress],
    given: _MetaWords,
) -> None:
    """Print the tables that a writer or job left, and the barriers of these tables afterwards."""
    text = f"{name} {'would leave' if given.dry_run else 'has left'} {', '.join(tables)}"
    was = {one.table: one for one in before if one.table in tables}
    now = {one.table: one for one in source.topology.tables() if one.table in was}
    after = (
        {table: barrier_without(one, name) for table, one in was.items()}
        if given.dry_run
        else {table: one.barrier for table, one in now.items()}
    )
    rows = [
        {
            "table": table,
            "barrier_before": was[table].barrier,
            "barrier": barrier,
            "common_barrier_before": was[table].common_barrier,
            "common_barrier": None if given.dry_run else now[table].common_barrier,
            "writers": sum(each.name != name for each in was[table].writers),
        }
        for table, barrier in after.items()
    ]
    value = {"left": name, "tables": tables, "dry_run": given.dry_run, "barriers": rows}
    write_result(given.format, value, [text, *(_after_leave(row, given) for row in rows)])


def _after_leave(row: _Row, given: _MetaWords) -> str:
    """Return, in words, the barrier of the table after the writer has left."""

    def moved(before: int | None, after: int | None) -> str:
        words = "none" if after is None else str(after)
        return (
            words if before == after else f"{words}, before {'none' if before is None else before}"
        )

    barrier = moved(row["barrier_before"], row["barrier"])
    verb = "would be" if given.dry_run else "is"
    text = f"{row['table']} {verb} complete up to {barrier}"
    if not given.dry_run:
        common = moved(row["common_barrier_before"], row["common_barrier"])
        text += f"; in common with the tables that jobs connect with it: {common}"
    if not row["writers"]:
        text += (
            "; it has no writer any more: it stays at this barrier, and keeps sessions over several tables there, "
            "until a writer joins"
        )
    return text


# `--full` is to=None, the beginning. The result of a dry run has no number.
def _revise(source: _Service, given: _MetaWords) -> None:
    if given.full == (given.to is not None):
        raise InvalidError(
            "widetable meta revise",
            found="both --to and --full" if given.full else "neither --to nor --full",
            expected="one of them",
            action="Pass --to with the barrier to go back to, or --full to begin from the start.",
        )
    result = source.revise(given.name, to=given.to, dry_run=given.dry_run)
    rows = [asdict(one) for one in result.tables]
    jobs = ", ".join(result.jobs)
    text = (
        f"jobs that would restart: {jobs}"
        if result.number is None
        else f"jobs that restart: {jobs}"
    )
    write_result(given.format, result.to_dict(), [*_lines(_REVISED, rows), "", text])


def _lines(columns: pa.Schema, rows: Iterable[_Row]) -> list[str]:
    """Return the lines of `frame_lines` for these columns; rows may have further fields."""
    shown = [{name: row[name] for name in columns.names} for row in rows]
    return list(frame_lines(pa.Table.from_pylist(shown, columns)))


# The actions that a service can answer, too.
_ANSWERS: Final[Mapping[str, Callable[[_Service, _MetaWords], int | None]]] = {
    "show": _write_topology,
    "jobs": _write_topology,
    "tables": _write_topology,
    "lineage": _write_lineage,
    "barriers": _write_barriers,
    "read": _write_read,
    "delay": _write_delays,
    "leave": _leave,
    "drop-job": _drop,
    "revise": _revise,
}
