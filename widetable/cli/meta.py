"""The command of tables under barriers and their jobs: meta."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import whole_number
from widetable.catalog import Catalog
from widetable.cli.command import DONE
from widetable.cli.console import write_result
from widetable.cli.frame_text import frame_lines
from widetable.cli.past import check_only
from widetable.cli.tables import warehouse_of
from widetable.commit.writer_registration import Job
from widetable.errors import InvalidError, UnsupportedError
from widetable.meta.delays import Delays
from widetable.meta.revision import RevisionResult
from widetable.meta.topology import Topology

_Row = dict[str, Any]
_HOST: Final = "127.0.0.1"
_PORT: Final = 9096
# How many of NAME and WRITER stand with an action.
_NAMES: Final = {"lineage": 1, "barriers": 1, "leave": 2, "drop-job": 1, "revise": 1}
_TEXTS: Final = pa.list_(pa.string())
_JOBS: Final = {
    "job": pa.string(),
    "kind": pa.string(),
    "state": pa.string(),
    "sources": _TEXTS,
    "sinks": _TEXTS,
}
_TABLES: Final = {
    "table": pa.string(),
    "layer": pa.int64(),
    "type": pa.string(),
    "barrier": pa.int64(),
    "common_barrier": pa.int64(),
    "freshness_millis": pa.int64(),
    "missing": _TEXTS,
}
_REVISED: Final = {
    "table": pa.string(),
    "barrier": pa.int64(),
    "to": pa.int64(),
    "commits": pa.int64(),
    "records": pa.int64(),
}
_LINEAGE: Final = {"direction": pa.string(), "table": pa.string(), "written_by": _TEXTS}
_BARRIERS: Final = {
    "barrier": pa.int64(),
    "is_complete": pa.bool_(),
    "is_exact": pa.bool_(),
    "base_id": pa.int64(),
    "extra_files": pa.int64(),
    "hidden_files": pa.int64(),
    "snapshot_id": pa.int64(),
    "changelog_snapshot_id": pa.int64(),
    "missing": _TEXTS,
}


def meta(
    action: str,
    path: str,
    name: str | None,
    writer: str | None,
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
    _check_names(action, [one for one in (name, writer) if one is not None])
    check_only("meta", action, ["delay"], {"--barrier": barrier is not None})
    check_only("meta", action, ["barriers", "delay"], {"--limit": limit is not None})
    check_only("meta", action, ["leave", "drop-job"], {"--force": force})
    check_only("meta", action, ["leave", "drop-job", "revise"], {"--dry-run": dry_run})
    check_only("meta", action, ["revise"], {"--to": to is not None, "--full": full})
    of_serve = {"--host": host is not None, "--port": port is not None, "--url": url is not None}
    check_only("meta", action, ["serve"], of_serve)
    if limit is not None:
        whole_number(limit, "--limit", least=0)
    catalog, named = warehouse_of(path), name or ""
    topology = catalog.topology()
    if action == "serve":
        _serve(path, host or _HOST, _PORT if port is None else port, url, format)
    elif action == "revise":
        _write_revision(_revised(catalog, named, to, is_full=full, is_dry=dry_run), format)
    elif action == "leave":
        topology.leave(named, writer or "", force=force, dry_run=dry_run)
        _write_left(writer or "", [named], format, is_dry=dry_run)
    elif action == "drop-job":
        left = topology.drop(named, force=force, dry_run=dry_run)
        _write_left(named, left, format, is_dry=dry_run)
    elif action == "barriers":
        rows = [asdict(one) for one in topology.barriers(named, limit)]
        write_result(format, {"table": named, "barriers": rows}, _lines(_BARRIERS, rows))
    elif action == "lineage":
        _write_lineage(topology, named, format)
    elif action == "delay":
        _write_delays(topology.delays(barrier, limit), format)
    elif action == "rebuild":
        rows_of = topology.rebuild()
        lines = [f"{table}: {rows} rows" for table, rows in rows_of.items()]
        write_result(format, {"tables": rows_of}, lines)
    else:
        _write_topology(topology, action, format)
    return DONE


def _serve(path: str, host: str, port: int, url: str | None, format: str) -> None:
    try:
        serving = import_module("widetable_meta.serving")
    except ModuleNotFoundError as missing:
        raise UnsupportedError(
            "widetable meta serve",
            found=f"an installation without its packages: {missing}",
            expected="those of the extra meta",
            action="pip install 'widetable[meta]'",
        ) from missing

    def said(own_url: str) -> None:
        write_result(format, {"url": own_url}, [f"{path} is served at {own_url}"])

    serving.serve(path, host, port, url, said)


def _write_topology(topology: Topology, action: str, format: str) -> None:
    found: _Row = {}
    lines: list[str] = []
    if action != "tables":
        jobs = topology.jobs()
        found["jobs"] = [asdict(job) for job in jobs]
        lines += _lines(_JOBS, map(_job_row, jobs))
    if action != "jobs":
        tables = topology.tables()
        found["tables"] = [{**asdict(one), "missing": one.missing} for one in tables]
        rows = [{**row, "type": row["table_type"]} for row in found["tables"]]
        lines += ["", *_lines(_TABLES, rows)] if lines else _lines(_TABLES, rows)
    if action == "show":
        found["common_barrier"] = topology.common_barrier()
        common = "none" if found["common_barrier"] is None else str(found["common_barrier"])
        lines += ["", f"complete in all tables: {common}"]
    write_result(format, found, lines)


def _job_row(job: Job) -> _Row:
    sinks = [
        sink.table if sink.columns is None else f"{sink.table}({', '.join(sink.columns)})"
        for sink in job.sinks
    ]
    return {**asdict(job), "job": job.name, "sinks": sinks}


def _write_lineage(topology: Topology, table: str, format: str) -> None:
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
    write_result(format, value, _lines(_LINEAGE, rows))


def _writers(table: str, jobs: Iterable[Job]) -> list[str]:
    return [job.name for job in jobs if table in job.tables]


def _write_delays(found: Delays, format: str) -> None:
    lines = [*frame_lines(found.tables_to_arrow()), "", *frame_lines(found.jobs_to_arrow())]
    write_result(format, asdict(found), lines)


def _revised(
    catalog: Catalog, table: str, to: int | None, *, is_full: bool, is_dry: bool
) -> RevisionResult:
    if is_full == (to is not None):
        raise InvalidError(
            "widetable meta revise",
            found="both --to and --full" if is_full else "neither --to nor --full",
            expected="one of them",
            action="Say to which barrier the table is to go back, or that it is to be made from the beginning.",
        )
    return catalog.revise(table, to=to, dry_run=is_dry)


def _write_revision(found: RevisionResult, format: str) -> None:
    rows = [asdict(one) for one in found.tables]
    jobs = ", ".join(found.jobs)
    said = f"would begin anew: {jobs}" if found.number is None else f"begin anew: {jobs}"
    write_result(format, found.to_dict(), [*_lines(_REVISED, rows), "", said])


def _write_left(name: str, tables: Sequence[str], format: str, *, is_dry: bool) -> None:
    said = f"{name} {'would leave' if is_dry else 'has left'} {', '.join(tables)}"
    write_result(format, {"left": name, "tables": tables, "dry_run": is_dry}, [said])


def _lines(columns: dict[str, pa.DataType], rows: Iterable[_Row]) -> list[str]:
    """As `frame_lines`; rows may have more than the columns."""
    given = list(rows)
    arrays = [pa.array([row[name] for row in given], kind) for name, kind in columns.items()]
    return list(frame_lines(pa.Table.from_arrays(arrays, names=list(columns))))


def _check_names(action: str, given: Sequence[str]) -> None:
    expected = ("NAME", "WRITER")[: _NAMES.get(action, 0)]
    if len(given) != len(expected):
        raise InvalidError(
            f"widetable meta {action}",
            found=", ".join(map(repr, given)) or "no NAME",
            expected=f"WAREHOUSE {' '.join(expected)}".strip(),
            action="Run widetable meta --help.",
        )
