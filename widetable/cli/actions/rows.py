"""Commands of rows: write, read, delete, update.

    write     files ─► batches, and the columns of each row (row_files) ─► Table.write ─► one commit
    read      Table.scan ─► batches ─► bytes (changes_output)

Both are streams, which never hold all rows. If rows go to standard output, nothing else does; for a file the number of
rows is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain

import pyarrow as pa

from widetable.cli.command import DONE
from widetable.cli.input.key_words import values_of_words
from widetable.cli.input.option_words import names_of, pairs_of
from widetable.cli.input.row_files import names_column, row_batches
from widetable.cli.output.changes_output import write_rows
from widetable.cli.output.console import write_result
from widetable.errors import InvalidError
from widetable.messages.counted import counted
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.table import Table


def write(
    path: str,
    file: list[str],
    format: str | None,
    overwrite: bool,
    row_kind: str | None,
    user: str | None,
    identifier: int | None,
    is_json: bool,
) -> int:
    """Print what was committed.

    With a user and an identifier a script may repeat a commit whose outcome it does not know: a commit that was
    published before is reported, and nothing is written. Without them each call is a new commit.
    """
    table = Table.open(path)
    call = table.overwrite if overwrite else table.write
    with row_batches(file, format, table.schema, row_kind) as rows:
        # An empty write commits nothing; an empty overwrite of a table without partitions would delete all rows.
        batches = _at_least_one_row(rows) if overwrite else rows
        done = call(
            batches,
            user,
            identifier,
            ROW_KIND_COLUMN if row_kind is None else row_kind,
            written_columns=names_column(table.schema, row_kind),
        )
    where = "nothing was committed" if done.snapshot_id is None else f"snapshot {done.snapshot_id}"
    if not done.committed and done.snapshot_id is not None:
        where += " already has this commit"
    text = f"{counted(done.rows, 'row')} in {counted(done.files, 'file')}, {where}"
    write_result("json" if is_json else "table", asdict(done), [text])
    return DONE


def _at_least_one_row(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows. Raises InvalidError if there is none: the program that writes the pipe may have failed."""
    for batch in rows:
        if batch.num_rows:
            return chain((batch,), rows)
    raise InvalidError(
        "--overwrite",
        found="no rows",
        expected="the rows that replace the old ones",
        action="Check the program that writes the files; to delete rows, use widetable delete.",
    )


def read(
    path: str,
    filter: str | None,
    limit: int | None,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    barrier: int | None,
    columns: str | None,
    format: str,
    output: str | None,
) -> int:
    """Write rows to a new file, or to standard output.

    At most one of snapshot, tag, timestamp and barrier may be given. A read that fails leaves no file. Standard output
    may then have some of the rows: the exit code shows the failure.
    """
    names = None if columns is None else names_of(columns)
    scan = Table.open(path).scan(
        names, filter, snapshot_id=snapshot, timestamp=timestamp, tag=tag, barrier=barrier
    )
    scan = scan if limit is None else scan.limit(limit)
    write_rows(format, output, scan.to_batches(), scan.arrow_schema)
    return DONE


def delete(path: str, condition: str, rewrite: bool, dry_run: bool, format: str) -> int:
    """Print the number of rows that were deleted, or would be. condition: like the filter of read."""
    done = Table.open(path).delete(condition, dry_run=dry_run, rewrite=rewrite)
    verb = "would be deleted" if dry_run else "deleted"
    where = f", snapshot {done.snapshot_id}" if done.committed else ""
    write_result(format, asdict(done), [f"{counted(done.rows, 'row')} {verb}{where}"])
    return DONE


def update(
    path: str,
    condition: str,
    set: list[str] | None,
    null: list[str] | None,
    dry_run: bool,
    format: str,
) -> int:
    """Print the number of rows that were changed, or would be. condition: like the filter of read."""
    table = Table.open(path)
    pairs = pairs_of(set, "--set", "COLUMN=VALUE")
    values = dict.fromkeys(null or ()) | values_of_words(pairs, table.schema)
    done = table.update(condition, values, dry_run=dry_run)
    verb = "would be changed" if dry_run else "changed"
    where = f", snapshot {done.snapshot_id}" if done.committed else ""
    write_result(format, asdict(done), [f"{counted(done.rows, 'row')} {verb}{where}"])
    return DONE
