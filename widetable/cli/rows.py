"""Commands of rows: write, read, delete."""

from __future__ import annotations

from widetable.cli.changes_output import output_sink, write_changes
from widetable.cli.command import DONE
from widetable.cli.console import write_line
from widetable.cli.option_words import names_of
from widetable.cli.row_files import row_batches
from widetable.table import Table


def write(
    path: str,
    file: list[str],
    format: str | None,
    overwrite: bool,
    row_kind: str,
    user: str | None,
    identifier: int | None,
) -> int:
    """Prints what was committed."""
    table = Table.open(path)
    rows = row_batches(file, format, table.arrow_schema, row_kind)
    call = table.overwrite if overwrite else table.write
    done = call(rows, user, identifier, row_kind)
    where = "nothing was committed" if done.snapshot_id is None else f"snapshot {done.snapshot_id}"
    if not done.committed and done.snapshot_id is not None:
        where += " has this commit already"
    write_line(f"{done.rows} rows in {done.files} files, {where}")
    return DONE


def read(
    path: str,
    filter: str | None,
    limit: int | None,
    snapshot: int | None,
    tag: str | None,
    columns: str | None,
    format: str,
    output: str | None,
) -> int:
    """Writes rows to a new file, or to standard output."""
    names = None if columns is None else names_of(columns)
    scan = Table.open(path).scan(names, filter, snapshot_id=snapshot, tag=tag)
    scan = scan if limit is None else scan.limit(limit)
    with output_sink(format, output) as sink:
        rows = write_changes(format, scan.to_batches(), scan.arrow_schema, sink)
    if output is not None:
        write_line(f"{rows} rows in {output}")
    return DONE


def delete(path: str, condition: str, dry_run: bool) -> int:
    """Prints how many rows went, or would go."""
    done = Table.open(path).delete(condition, dry_run=dry_run)
    verb = "would go" if dry_run else "gone"
    where = f", snapshot {done.snapshot_id}" if done.committed else ""
    write_line(f"{done.rows} rows {verb}{where}")
    return DONE
