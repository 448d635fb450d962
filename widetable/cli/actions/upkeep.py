"""Commands that maintain a table: maintain, compact, sort, expire, rescale, orphans.

Each calls the operation of its name once, and prints the result; --dry-run makes the same plan and deletes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict

from widetable.cli.command import DONE
from widetable.cli.input.duration import millis_of
from widetable.cli.input.key_words import partition_of_words
from widetable.cli.input.option_words import names_of
from widetable.cli.output.console import write_result
from widetable.cli.output.log_output import logged
from widetable.cli.output.space_text import holder_lines
from widetable.cli.output.stop_signals import stop_on_signals
from widetable.errors import InvalidError
from widetable.format.human_units import size_text
from widetable.messages.counted import counted
from widetable.operations.history.expiry import ExpiryResult
from widetable.operations.maintenance.maintenance_result import MaintenanceResult
from widetable.table import Table


def maintain(
    path: str,
    once: bool,
    interval: str,
    full_compaction_interval: str | None,
    expire: bool,
    orphans_older_than: str | None,
    quiet: bool,
    format: str,
) -> int:
    """Log each step, and print the result at the end; an end by a signal is a success.

    The log goes to standard error, so that standard output has only the result, also as JSON.
    """
    with logged(logging.WARNING if quiet else logging.INFO), stop_on_signals() as stop:
        done = Table.open(path).maintain(
            once=once,
            interval_millis=millis_of(interval, "--interval"),
            full_compaction_interval_millis=millis_of(
                full_compaction_interval, "--full-compaction-interval"
            ),
            expire=expire,
            orphans_older_than_millis=millis_of(orphans_older_than, "--orphans-older-than"),
            stop=stop,
        )
        write_result(format, asdict(done), [_maintenance_text(done)])
    return DONE


def _maintenance_text(done: MaintenanceResult) -> str:
    """Return the result in words: the first four counts always, the others only if they are not 0."""
    parts = [
        counted(done.compactions, "compaction"),
        f"{counted(done.expired_snapshots, 'snapshot')} expired",
        f"{counted(done.orphan_files, 'orphan')} removed",
        f"{counted(done.freed_files, 'file')} of {size_text(done.freed_bytes)} freed",
    ]
    if done.derived_rows:
        parts.append(f"{counted(done.derived_rows, 'row')} of derived tables")
    if done.derived_barriers:
        parts.append(f"{counted(done.derived_barriers, 'barrier')} of widened columns")
    if done.failures:
        parts.append(f"{counted(done.failures, 'round')} failed")
    if done.derived_failures:
        parts.append(f"{counted(done.derived_failures, 'derived table')} failed")
    if done.damaged_buckets:
        parts.append(f"{counted(done.damaged_buckets, 'damaged bucket')} skipped")
    return ", ".join(parts)


def compact(path: str, full: bool, format: str) -> int:
    """Print the result of the compaction. The exit code is 0, too, if nothing was due."""
    done = Table.open(path).compact(full)
    text = (
        f"snapshot {done.snapshot_id}, {counted(done.rows, 'row')} in {counted(done.files, 'file')}"
    )
    write_result(format, asdict(done), [text if done.committed else "nothing was due"])
    return DONE


def sort(path: str, by: str, order: str, partition: list[str] | None, format: str) -> int:
    """Print the result of all partitions together. The exit code is 0, too, if all were sorted already."""
    table = Table.open(path)
    only = None if partition is None else partition_of_words(partition, table.schema)
    done = table.sort_compact(names_of(by), order, partitions=only)
    text = (
        f"snapshot {done.snapshot_id}, {counted(done.rows, 'row')} in {counted(done.files, 'file')}"
    )
    write_result(format, asdict(done), [text if done.committed else "all rows were sorted already"])
    return DONE


def expire(
    path: str,
    retain_min: int | None,
    retain_max: int | None,
    time_retained: str | None,
    partitions: bool,
    dry_run: bool,
    format: str,
) -> int:
    """Print which snapshots or partitions expired, or would expire.

    A call expires one or the other. A commit drops partitions; older snapshots still have their rows, so a later expiry
    of snapshots removes their files.
    """
    if partitions:
        if any(each is not None for each in (retain_min, retain_max, time_retained)):
            raise InvalidError(
                "--partitions",
                found="an option for snapshots with it",
                expected="--dry-run only",
                action="Expire partitions and snapshots in separate calls.",
            )
        old = Table.open(path).expire_partitions(dry_run=dry_run)
        verb = "would expire" if dry_run else "expired"
        last = f"{counted(len(old.partitions), 'partition')} {verb}; {counted(old.rows, 'row')} in their files"
        write_result(format, asdict(old), [*old.partitions, last])
        return DONE
    done = Table.open(path).expire_snapshots(
        retain_min, retain_max, millis_of(time_retained, "--time-retained"), dry_run=dry_run
    )
    write_result(format, asdict(done), _expiry_lines(done, is_dry=dry_run))
    return DONE


def _expiry_lines(done: ExpiryResult, *, is_dry: bool) -> Iterator[str]:
    """Yield what expired; for a dry run also the holders of the remaining bytes."""
    span = f": {done.ids[0]} to {done.ids[-1]}" if done.ids else ""
    verb = "would expire" if is_dry else "expired"
    yield (
        f"{counted(len(done.ids), 'snapshot')} {verb}{span}; {counted(done.files, 'file')} of {size_text(done.bytes)}"
    )
    would_be = "would be " if is_dry else ""
    yield from (f"consumer {consumer} {would_be}deleted" for consumer in done.consumers)
    yield from (f"tag {tag} {would_be}deleted" for tag in done.tags)
    if done.held:
        total = size_text(sum(line.bytes for line in done.held))
        yield f"{total} would stay:"
        yield from (line for line, _ in holder_lines(done.held))


def rescale(path: str, buckets: int, partition: list[str] | None, format: str) -> int:
    """Print what was rewritten. partition: one word for each column of one partition; None: the whole table."""
    table = Table.open(path)
    only = partition_of_words(partition, table.schema) if partition else None
    done = table.rescale(buckets, only)
    records = sum(each.rows for each in done)
    text = f"{counted(len(done), 'partition')} of {counted(records, 'record')} now in {counted(buckets, 'bucket')}"
    write_result(format, {"buckets": buckets, "partitions": len(done), "records": records}, [text])
    return DONE


def orphans(path: str, older_than: str, dry_run: bool, format: str) -> int:
    """Print which files were removed, or would be.

    older_than protects files that a writer has not committed yet: only files that are older than the longest write are
    certainly orphans.
    """
    result = Table.open(path).remove_orphan_files(millis_of(older_than, "--older-than"), dry_run)
    verb = "would be removed" if dry_run else "removed"
    last = f"{counted(len(result.paths), 'file')} {verb}, {size_text(result.bytes)}"
    write_result(format, asdict(result), [*result.paths, last])
    return DONE
