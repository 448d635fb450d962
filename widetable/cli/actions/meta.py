"""The command of tables under barriers and their jobs: meta. The tables answer, or a service that is asked.

    widetable meta barriers /warehouse shop.users        the tables, read by this process
    widetable meta barriers --uri URL shop.users         the same answer from `widetable meta serve`

Who answers is an `_Answerer`: the functions below do not know which. rebuild and serve are for who has the
warehouse at hand. What a service says is not looked up in the tables again.
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
from widetable.topology.meta_service import (
    MetaAnswers,
    ServiceSession,
    meta_package,
    service_client,
)
from widetable.topology.revision import RevisionResult
from widetable.topology.table_progress import TableProgress, barrier_without

_Row = dict[str, Any]
_HOST: Final = "127.0.0.1"
_PORT: Final = 9096
# How many of NAME and WRITER stand with an action. 2: both.
_NAMES: Final = {"lineage": 1, "barriers": 1, "read": 1, "leave": 2, "drop-job": 1, "revise": 1}
# Columns of what people see: `frame_lines` prints by their types. JSON has more: all fields.
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


class _Answerer(NamedTuple):
    """Who is asked: the tables themselves, or their service.

    topology: what there is. revise, session: of either. words: of a command line that asks the same.
    """

    topology: MetaAnswers
    revise: Callable[..., RevisionResult]
    session: Callable[..., Session | ServiceSession]
    words: tuple[str, ...]


class _MetaWords(NamedTuple):
    """What a command line says, besides of whom it is asked. name, writer: "" where there is none."""

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
    """Prints what is asked for, or the tables that were left, or where it is served."""
    # First what stands with which action: a word that would have no effect is a mistake, and must not
    # pass for one that had.
    check_only("meta", action, tuple(_ANSWERS), {"--uri": uri is not None})
    words = [one for one in (path, name, writer) if one is not None]
    warehouse, named, leaving = _placed(action, words, by_uri=uri is not None)
    check_only("meta", action, ["delay", "read"], {"--barrier": barrier is not None})
    check_only("meta", action, ["barriers", "delay"], {"--limit": limit is not None})
    check_only("meta", action, ["leave", "drop-job"], {"--force": force})
    check_only("meta", action, ["leave", "drop-job", "revise"], {"--dry-run": dry_run})
    check_only("meta", action, ["revise"], {"--to": to is not None, "--full": full})
    of_serve = {"--host": host is not None, "--port": port is not None, "--url": url is not None}
    check_only("meta", action, ["serve"], of_serve)
    if limit is not None:
        whole_number(limit, "--limit", least=0)
    if action in _ANSWERS:
        asked = _answerer(warehouse, uri)
        given = _MetaWords(action, named, leaving, barrier, limit, force, to, full, dry_run, format)
        return _ANSWERS[action](asked, given) or DONE
    if action == "rebuild":
        _rebuild(warehouse, format)
    else:
        _serve(warehouse, host or _HOST, _PORT if port is None else port, url, format)
    return DONE


# A service chooses the barrier and knows its snapshots; no table is opened here, so this needs no way to
# the warehouse's storage. Several URLs are instances of one service: one that answers is asked.
def _answerer(warehouse: str, uris: Sequence[str] | None) -> _Answerer:
    if uris is not None:
        service = service_client(uris, "--uri")
        words = tuple(word for uri in uris for word in ("--uri", uri))
        return _Answerer(service, service.revise, service.session, words)
    catalog = warehouse_of(warehouse)
    return _Answerer(catalog.topology(), catalog.revise, catalog.session, (warehouse,))


def _placed(action: str, words: Sequence[str], *, by_uri: bool) -> tuple[str, str, str]:
    """The warehouse and the names that stand with an action, "" for those that do not.

        leave /warehouse shop.users crm        "/warehouse", "shop.users", "crm"
        leave --uri URL shop.users crm         "", "shop.users", "crm"
        jobs /warehouse                        "/warehouse", "", ""

    The parser fills path, name and writer from the left, so with --uri they are one place off:
    words are what it was given, in order. Raises InvalidError for too few and for too many.
    """
    names = ("NAME", "WRITER")[: _NAMES.get(action, 0)]
    behind = list(words if by_uri else words[1:])
    if len(behind) == len(names) and (by_uri or words):
        name, writer = (*behind, "", "")[:2]
        return "" if by_uri else words[0], name, writer
    if by_uri and len(behind) == 1 + len(names):
        found = f"both WAREHOUSE and --uri: {words[0]!r}"
    elif not by_uri and not words:
        found = "neither WAREHOUSE nor --uri" if action in _ANSWERS else "no WAREHOUSE"
    else:
        found = ", ".join(map(repr, behind)) or "no NAME"
    forms = ("WAREHOUSE", "--uri URL") if action in _ANSWERS else ("WAREHOUSE",)
    raise InvalidError(
        f"widetable meta {action}",
        found=found,
        expected=", or ".join(" ".join([form, *names]) for form in forms),
        action="Run widetable meta --help.",
    )


# Does not return before the service ends. The look at the warehouse comes first: a mistyped path would
# be served without a table. own_url is known when it listens, as port 0 takes a free one.
def _serve(path: str, host: str, port: int, url: str | None, format: str) -> None:
    warehouse_of(path)
    serving = meta_package("widetable_meta.serving", "widetable meta serve")

    def said(own_url: str) -> None:
        write_result(format, {"url": own_url}, [f"{path} is served at {own_url}"])

    serving.serve(path, host, port, url, said)


# Writes: the tables of the database __meta get what the snapshots say and they do not have yet.
def _rebuild(path: str, format: str) -> None:
    rows_of = warehouse_of(path).topology().rebuild()
    lines = [f"{table}: {counted(rows, 'row')}" for table, rows in rows_of.items()]
    write_result(format, {"tables": rows_of}, lines)


# show: both, and the barrier that all have; jobs and tables: one of them.
def _write_topology(asked: _Answerer, given: _MetaWords) -> int:
    found: _Row = {}
    lines: list[str] = []
    lost: list[_Row] = []
    if given.action != "tables":
        jobs = asked.topology.jobs()
        found["jobs"] = [asdict(job) for job in jobs]
        lines += _lines(_JOBS, map(_job_row, jobs))
        silent = [(table, job.name, job.silent_millis) for job in jobs for table in job.tables]
        lost = _lost(asked, silent)
    if given.action != "jobs":
        tables = asked.topology.tables()
        found["tables"] = [{**asdict(one), "missing": one.missing} for one in tables]
        rows = [{**asdict(one), **_table_row(one)} for one in tables]
        lost = lost or _lost(
            asked,
            [(one.table, each.name, each.silent_millis) for one in tables for each in one.writers],
        )
        lines += ["", *_lines(_TABLES, rows)] if lines else _lines(_TABLES, rows)
    if given.action == "show":
        found["common_barrier"] = asked.topology.common_barrier()
        common = "none" if found["common_barrier"] is None else str(found["common_barrier"])
        lines += ["", f"complete in all tables: {common}"]
    if not any(found.get(rows) for rows in ("jobs", "tables")):
        lines = [_NO_JOBS if given.action == "jobs" else _NO_BARRIERS]
    found["lost"] = lost
    lines += [
        f"{one['writer']} of {one['table']}: {last_seen_text(one['silent_millis'])}. Start it again, or, if it does "
        f"not come back: {one['command']}"
        for one in lost
    ]
    write_result(given.format, found, lines)
    return FOUND if lost else DONE


def _lost(asked: _Answerer, silent: Iterable[tuple[str, str, int | None]]) -> list[_Row]:
    """Writers that a table waits for and that have not been heard of for long, with the command that lets them go."""
    return [
        {
            "table": table,
            "writer": name,
            "silent_millis": millis,
            "command": command_line("meta", "leave", *asked.words, table, name),
        }
        for table, name, millis in silent
        if is_lost(millis)
    ]


def _table_row(one: TableProgress) -> _Row:
    """Of a writer that is missing, and not heard of, it says so."""
    missing = [
        each.name
        if each.silent_millis is None
        else f"{each.name} ({last_seen_text(each.silent_millis)})"
        for each in one.writers
        if each.is_missing
    ]
    return {"type": one.table_type, "missing": missing}


def _job_row(job: Job) -> _Row:
    """A sink of which a job writes some columns is shown as `db.table(a, b)`."""
    sinks = [
        sink.table if sink.columns is None else f"{sink.table}({', '.join(sink.columns)})"
        for sink in job.sinks
    ]
    state = job.state if job.silent_millis is None else last_seen_text(job.silent_millis)
    return {**asdict(job), "job": job.name, "state": state, "sinks": sinks}


# The tables that one is made of, itself, and those that are made of it, each with the jobs that write it.
def _write_lineage(asked: _Answerer, given: _MetaWords) -> None:
    topology, table = asked.topology, given.name
    jobs = topology.jobs()
    found = {
        direction: [{"table": one, "written_by": _writers(one, jobs)} for one in tables]
        for direction, tables in (
            ("upstream", topology.upstream(table)),
            ("table", [table]),
            ("downstream", topology.downstream(table)),
        )
    }
    rows = ({"direction": direction, **row} for direction in found for row in found[direction])
    value = {**found, "table": found["table"][0]}
    write_result(given.format, value, _lines(_LINEAGE, rows))


def _writers(table: str, jobs: Iterable[Job]) -> list[str]:
    return [job.name for job in jobs if table in job.tables]


# Of one table, as many as `--limit`, by default all that are kept: by which snapshots each is read.
def _write_barriers(asked: _Answerer, given: _MetaWords) -> None:
    rows = [asdict(one) for one in asked.topology.barriers(given.name, given.limit)]
    write_result(given.format, {"table": given.name, "barriers": rows}, _lines(_BARRIERS, rows))


# One comma-separated word of tables, so that it stands where the others have one NAME.
def _write_read(asked: _Answerer, given: _MetaWords) -> None:
    tables = names_of(given.name)
    # Closed at once: what is printed is not held from expiry.
    with asked.session(tables, consistency=REPEATABLE_READ, as_of=given.barrier) as found:
        ids = found.snapshot_ids() if isinstance(found, Session) else found.snapshot_ids
        rows = [{"table": table, "snapshot_id": id} for table, id in ids.items()]
        value = {"barrier": found.barrier, "revision": found.revision, "tables": rows}
    said = f"at barrier {found.barrier}; a table without a snapshot is read by the barrier"
    write_result(given.format, value, [*_lines(_READ, rows), "", said])


# Two frames, one of tables and one of jobs; for programs both in one object.
def _write_delays(asked: _Answerer, given: _MetaWords) -> None:
    found = asked.topology.delays(given.barrier, given.limit)
    lines = [*frame_lines(found.tables_to_arrow()), "", *frame_lines(found.jobs_to_arrow())]
    write_result(given.format, asdict(found), lines)


# One table forgets a writer, or all tables of a job forget it: barriers wait for it no more. Both are
# refused for one that still goes on, unless --force says that it does not.
def _leave(asked: _Answerer, given: _MetaWords) -> None:
    before = asked.topology.tables()
    asked.topology.leave(given.name, given.writer, force=given.force, dry_run=given.dry_run)
    _write_left(asked, given.writer, [given.name], before, given)


def _drop(asked: _Answerer, given: _MetaWords) -> None:
    before = asked.topology.tables()
    left = asked.topology.drop(given.name, force=given.force, dry_run=given.dry_run)
    _write_left(asked, given.name, left, before, given)


def _write_left(
    asked: _Answerer,
    name: str,
    tables: Sequence[str],
    before: Sequence[TableProgress],
    given: _MetaWords,
) -> None:
    """And what becomes of the barriers of these tables."""
    said = f"{name} {'would leave' if given.dry_run else 'has left'} {', '.join(tables)}"
    was = {one.table: one for one in before if one.table in tables}
    now = {one.table: one for one in asked.topology.tables() if one.table in was}
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
    write_result(given.format, value, [said, *(_after_leave(row, given) for row in rows)])


def _after_leave(row: _Row, given: _MetaWords) -> str:
    """What the table shows at barriers from now on, in words."""

    def moved(before: int | None, after: int | None) -> str:
        words = "none" if after is None else str(after)
        return (
            words if before == after else f"{words}, before {'none' if before is None else before}"
        )

    barrier = moved(row["barrier_before"], row["barrier"])
    would = "would be" if given.dry_run else "is"
    said = f"{row['table']} {would} complete up to {barrier}"
    if not given.dry_run:
        common = moved(row["common_barrier_before"], row["common_barrier"])
        said += f"; in common with the tables that jobs connect with it: {common}"
    if not row["writers"]:
        said += (
            "; nobody writes it any more: it stays there, and holds sessions over several tables, until somebody "
            "joins"
        )
    return said


# `--full` is to=None, the beginning. A number is there when it was done: None means that it was a dry run.
def _revise(asked: _Answerer, given: _MetaWords) -> None:
    if given.full == (given.to is not None):
        raise InvalidError(
            "widetable meta revise",
            found="both --to and --full" if given.full else "neither --to nor --full",
            expected="one of them",
            action="Say to which barrier the table is to go back, or that it is to be made from the beginning.",
        )
    found = asked.revise(given.name, to=given.to, dry_run=given.dry_run)
    rows = [asdict(one) for one in found.tables]
    jobs = ", ".join(found.jobs)
    said = f"would begin anew: {jobs}" if found.number is None else f"begin anew: {jobs}"
    write_result(given.format, found.to_dict(), [*_lines(_REVISED, rows), "", said])


def _lines(columns: pa.Schema, rows: Iterable[_Row]) -> list[str]:
    """As `frame_lines`; rows may have more than the columns."""
    shown = [{name: row[name] for name in columns.names} for row in rows]
    return list(frame_lines(pa.Table.from_pylist(shown, columns)))


# Those that a service answers, too.
_ANSWERS: Final[Mapping[str, Callable[[_Answerer, _MetaWords], int | None]]] = {
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
