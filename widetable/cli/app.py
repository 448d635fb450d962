"""The command `widetable`.

    widetable inspect PATH                  what state a table is in, and what to do about it
    widetable audit PATH                    whether it keeps its laws: exit code 0 it does, 1 it does not
    widetable doctor PATH                   all that is wrong with it: exit code 0 nothing, 1 something
    widetable repair PATH                   take damaged files out, keep what can be read, say what is gone
    widetable rollback PATH                 go back to the rows of an older snapshot
    widetable alter PATH                    set and remove options
    widetable maintain PATH                 compact, make changelogs, expire, until SIGTERM
    widetable expire PATH                   let old snapshots go
    widetable orphans PATH                  remove files that nothing names
    widetable changes PATH START END        what the snapshots after START up to END changed

An error is one red line on standard error and the exit code 2; with --debug the traceback follows.
"""

from __future__ import annotations

import logging
import sys
from enum import Enum
from typing import Annotated, Final

import pyarrow as pa
import typer

from widetable.cli.audit_text import audit_lines
from widetable.cli.changes_output import new_file, write_changes
from widetable.cli.command import FAILED, FOUND, Debug, DryRun, Json, Path, told
from widetable.cli.console import (
    logged,
    stand_in_for_closed_streams,
    tell,
    tell_error,
    tell_json,
)
from widetable.cli.duration import millis_of
from widetable.cli.inspection_text import inspection_lines
from widetable.cli.mending import mending
from widetable.cli.stop_signals import stop_on_signals
from widetable.errors import InvalidError
from widetable.operations.audit import FINDINGS_PER_LAW
from widetable.operations.maintenance import MaintenanceResult
from widetable.table import Table

_ID_DIGITS: Final = 19

app = typer.Typer(
    name="widetable",
    help="Wide primary-key tables in Apache Paimon's format: look after them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Format(str, Enum):
    """How changes are written; json is one object per line."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


@app.command()
def inspect(path: Path, json: Json = False, debug: Debug = False) -> None:
    """Tell what state a table is in: snapshots, files, what waits, who reads and compacts, and warnings."""
    with told(debug):
        found = Table.open(path).inspect()
        if json:
            tell_json(found.to_dict())
            return
        for line, style in inspection_lines(found):
            tell(line, style)


@app.command()
def audit(
    path: Path,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Snapshot id or tag onto whose rows the changelog is folded; 0: the empty table. By default the "
            "oldest snapshot.",
        ),
    ] = None,
    findings: Annotated[
        int, typer.Option(min=0, help="How many findings of each law to tell.")
    ] = FINDINGS_PER_LAW,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the laws of the format and of the changelog. Exit code 0: all hold; 1: findings; 2: no audit."""
    with told(debug):
        is_id = start is not None and start.isdecimal() and len(start) <= _ID_DIGITS
        chosen = int(start) if start is not None and is_id else start
        report = Table.open(path).audit(chosen, findings)
        if json:
            tell_json(report.to_dict())
        else:
            for line, style in audit_lines(report):
                tell(line, style)
    if not report.ok:
        raise typer.Exit(FOUND)


@app.command()
def maintain(
    path: Path,
    once: Annotated[bool, typer.Option("--once", help="Do all that is due, then end.")] = False,
    interval: Annotated[str, typer.Option(help="Time between two looks at the table.")] = "1 s",
    full_compaction_interval: Annotated[
        str | None,
        typer.Option(
            help="How often to compact everything when something is new; by default only with "
            "changelog-producer=full-compaction, every minute."
        ),
    ] = None,
    expire: Annotated[bool, typer.Option(help="Let old snapshots go.")] = True,
    orphans_older_than: Annotated[
        str | None,
        typer.Option(help="Remove files that nothing names and that are so old, once a day."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
    debug: Debug = False,
) -> None:
    """Keep a table compacted, with its changelog, and expired: until SIGTERM, or once."""
    level = logging.WARNING if quiet else logging.INFO
    with told(debug), logged(level), stop_on_signals() as stop:
        interval_millis = millis_of(interval, "--interval")
        assert interval_millis is not None
        done = Table.open(path).maintain(
            once=once,
            interval_millis=interval_millis,
            full_compaction_interval_millis=millis_of(
                full_compaction_interval, "--full-compaction-interval"
            ),
            expire=expire,
            orphans_older_than_millis=millis_of(orphans_older_than, "--orphans-older-than"),
            stop=stop,
        )
        tell(_maintained(done))


def _maintained(done: MaintenanceResult) -> str:
    parts = [
        f"{done.compactions} compactions",
        f"{done.expired_snapshots} snapshots expired",
        f"{done.orphan_files} orphans removed",
        f"{done.freed_files} files, {done.freed_bytes} bytes freed",
    ]
    if done.failures:
        parts.append(f"{done.failures} rounds failed")
    if done.damaged_buckets:
        parts.append(f"{done.damaged_buckets} damaged buckets passed by")
    return ", ".join(parts)


@app.command()
def expire(
    path: Path,
    retain_min: Annotated[int | None, typer.Option(help="Snapshots that stay at least.")] = None,
    retain_max: Annotated[int | None, typer.Option(help="Snapshots that stay at most.")] = None,
    time_retained: Annotated[
        str | None, typer.Option(help="How long a snapshot stays after the next one came.")
    ] = None,
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Let old snapshots go, as the table's options say, or as given here."""
    with told(debug):
        done = Table.open(path).expire_snapshots(
            retain_min, retain_max, millis_of(time_retained, "--time-retained"), dry_run=dry_run
        )
        span = f": {done.ids[0]} to {done.ids[-1]}" if done.ids else ""
        if dry_run:
            tell(f"{len(done.ids)} snapshots would go{span}")
            return
        tell(f"{len(done.ids)} snapshots gone{span}; {done.files} files, {done.bytes} bytes")
        for consumer in done.consumers:
            tell(f"consumer {consumer} forgotten")


@app.command()
def orphans(
    path: Path,
    older_than: Annotated[
        str, typer.Option(help="Only files that were last written so long ago.")
    ] = "1 d",
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Remove files that no snapshot, tag or branch names."""
    with told(debug):
        older_than_millis = millis_of(older_than, "--older-than")
        assert older_than_millis is not None
        found = Table.open(path).remove_orphan_files(older_than_millis, dry_run)
        for orphan in found.paths:
            tell(orphan)
        verb = "would go" if dry_run else "gone"
        tell(f"{len(found.paths)} files {verb}, {found.bytes} bytes")


@app.command()
def changes(
    path: Path,
    start: Annotated[int, typer.Argument(help="Snapshot id, exclusive; 0: before the first.")],
    end: Annotated[int, typer.Argument(help="Snapshot id, inclusive.")],
    columns: Annotated[
        str | None, typer.Option(help="Comma-separated columns; by default all.")
    ] = None,
    format: Annotated[Format, typer.Option(help="json: one object per line.")] = Format.json,
    output: Annotated[
        str | None, typer.Option(help="A new file; by default standard output.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the changes of a range of snapshots, with their kind in the column _row_kind."""
    with told(debug):
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        table = Table.open(path)
        schema = table.change_source(names).arrow_schema
        batches = table.change_batches(start, end, names)
        if output is not None:
            with new_file(output) as file:
                rows = write_changes(format.value, batches, schema, file)
            tell(f"{rows} rows in {output}")
            return
        if format is Format.parquet and sys.stdout.isatty():
            raise InvalidError(
                "--format parquet",
                found="a terminal",
                expected="a file",
                action="Give --output, or redirect the output.",
            )
        # Not closed: standard output is not ours.
        write_changes(format.value, batches, schema, pa.PythonFile(sys.stdout.buffer, "w"))
        sys.stdout.flush()


app.add_typer(mending)


def main() -> None:
    """The entry point."""
    stand_in_for_closed_streams()
    try:
        app()
    except OSError as error:  # of what is written before a command begins
        tell_error(error)
        sys.exit(FAILED)
