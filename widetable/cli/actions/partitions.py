"""The command partition. An option that belongs to another action is refused, never ignored."""

from __future__ import annotations

from dataclasses import asdict

from widetable.cli.actions.past import check_only
from widetable.cli.command import DONE
from widetable.cli.input.key_words import partition_of_words
from widetable.cli.output.console import write_result
from widetable.errors import InvalidError
from widetable.format.human_units import size_text
from widetable.messages.counted import counted
from widetable.table import Table


def partition(
    action: str,
    path: str,
    partition: list[str] | None,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    dry_run: bool,
    format: str,
) -> int:
    """Print the partitions that have files, or the change of one. partition: one word for each of its columns."""
    for_restore = {
        "--snapshot": snapshot is not None,
        "--tag": tag is not None,
        "--timestamp": timestamp is not None,
    }
    check_only("partition", action, ["restore"], for_restore)
    check_only("partition", action, ["drop", "restore"], {"--partition": bool(partition)})
    check_only("partition", action, ["drop", "restore"], {"--dry-run": dry_run})
    table = Table.open(path)
    if action == "list":
        _list(table, format)
        return DONE
    if not partition:
        raise InvalidError(
            f"widetable partition {action}",
            found="no --partition",
            expected="each column of one partition, as in --partition day=2026-11-27",
            action="Name the partition; widetable partition list prints them.",
        )
    if action == "drop":
        _drop(table, partition, format, dry_run=dry_run)
        return DONE
    only = partition_of_words(partition, table.schema)
    done = table.restore_partitions(only, snapshot, timestamp, tag, dry_run=dry_run)
    verb = "would be " if dry_run else ""
    where = "" if done.snapshot_id is None else f", snapshot {done.snapshot_id}"
    text = (
        f"{', '.join(done.partitions)}: {counted(done.restored_files, 'file')} with {counted(done.rows, 'row')} "
        f"{verb}restored from snapshot {done.from_id}, {done.removed_files} {verb}removed{where}"
    )
    write_result(format, {**asdict(done), "dry_run": dry_run}, [text])
    return DONE


def _list(table: Table, format: str) -> None:
    """Print the partitions of `inspect --what partitions`, with fewer columns."""
    rows = table.inspect.partitions().to_pylist()
    listed = [
        {name: row[name] for name in ("partition", "files", "rows", "size_bytes")} for row in rows
    ]
    lines = [
        f"{row['partition'] or 'no partition columns;'}  {counted(row['rows'], 'row')} in "
        f"{counted(row['files'], 'file')} of {size_text(row['size_bytes'])}"
        for row in listed
    ]
    write_result(format, {"partitions": listed}, lines)


def _drop(table: Table, words: list[str], format: str, *, dry_run: bool) -> None:
    only = partition_of_words(words, table.schema)
    done = None if dry_run else table.drop_partitions(only)
    verb = "would be dropped" if dry_run else "dropped"
    where = f", snapshot {done.snapshot_id}" if done is not None and done.committed else ""
    value = {
        "partition": words,
        "snapshot_id": None if done is None else done.snapshot_id,
        "dry_run": dry_run,
    }
    write_result(format, value, [f"partition {' '.join(words)} {verb}{where}"])
