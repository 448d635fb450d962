"""Commands that keep a table up: maintain, compact, expire, rescale, orphans.

Each is one call of the operation of that name, and prints what it did; --dry-run makes the same plan and deletes
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict

from widetable.cli.command import DONE
from widetable.cli.input.duration import millis_of
from widetable.cli.input.key_words import partition_of_words
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
    """Logs what it does; prints what it did when it ends.

    Ended by a signal that counts as done. The log goes to standard error, so that the result alone is
    on standard output, also as JSON.
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
        write_result(format, asdict(done), [_maintained(done)])
    return DONE


def _maintained(done: MaintenanceResult) -> str:
    """The first four always; the others only where there were any."""
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
        parts.append(f"{counted(done.damaged_buckets, 'damaged bucket')} passed by")
    return ", ".join(parts)


def compact(path: str, full: bool, format: str) -> int:
    """Prints what came of it. Nothing due is no error: the exit code is 0 as well."""
    done = Table.open(path).compact(full)
    said = (
        f"snapshot {done.snapshot_id}, {counted(done.rows, 'row')} in {counted(done.files, 'file')}"
    )
    write_result(format, asdict(done), [said if done.committed else "nothing was due"])
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
    """Prints which snapshots or partitions went, or would go.

    One or the other: partitions go by a commit, whose rows older snapshots still have, so their files
    go with a later expiry of snapshots.
    """
    if partitions:
        if any(each is not None for each in (retain_min, retain_max, time_retained)):
            raise InvalidError(
                "--partitions",
                found="an option of snapshots with it",
                expected="--dry-run only",
                action="Let partitions and snapshots expire one after the other.",
            )
        old = Table.open(path).expire_partitions(dry_run=dry_run)
        went = "would go" if dry_run else "gone"
        last = f"{counted(len(old.partitions), 'partition')} {went}; {counted(old.rows, 'row')} in their files"
        write_result(format, asdict(old), [*old.partitions, last])
        return DONE
    done = Table.open(path).expire_snapshots(
        retain_min, retain_max, millis_of(time_retained, "--time-retained"), dry_run=dry_run
    )
    write_result(format, asdict(done), _expired(done, is_dry=dry_run))
    return DONE


def _expired(done: ExpiryResult, *, is_dry: bool) -> Iterator[str]:
    """Of a dry run, who holds the rest as well."""
    span = f": {done.ids[0]} to {done.ids[-1]}" if done.ids else ""
    went = "would go" if is_dry else "gone"
    yield (
        f"{counted(len(done.ids), 'snapshot')} {went}{span}; {counted(done.files, 'file')} of {size_text(done.bytes)}"
    )
    would_be = "would be " if is_dry else ""
    yield from (f"consumer {consumer} {would_be}forgotten" for consumer in done.consumers)
    yield from (f"tag {tag} {would_be}deleted" for tag in done.tags)
    if done.held:
        total = size_text(sum(line.bytes for line in done.held))
        yield f"{total} would stay:"
        yield from (line for line, _ in holder_lines(done.held))


def rescale(path: str, buckets: int, partition: list[str] | None, format: str) -> int:
    """Prints what was rewritten. partition: one word for each column of one partition; none: all of the table."""
    table = Table.open(path)
    only = partition_of_words(partition, table.schema) if partition else None
    done = table.rescale(buckets, only)
    records = sum(each.rows for each in done)
    said = f"{counted(len(done), 'partition')} of {counted(records, 'record')} now in {counted(buckets, 'bucket')}"
    write_result(format, {"buckets": buckets, "partitions": len(done), "records": records}, [said])
    return DONE


def orphans(path: str, older_than: str, dry_run: bool, format: str) -> int:
    """Prints which files went, or would go.

    older_than protects what a writer has written and not committed yet: only files that are older than
    any write can last are certainly nobody's.
    """
    found = Table.open(path).remove_orphan_files(millis_of(older_than, "--older-than"), dry_run)
    verb = "would go" if dry_run else "gone"
    last = f"{counted(len(found.paths), 'file')} {verb}, {size_text(found.bytes)}"
    write_result(format, asdict(found), [*found.paths, last])
    return DONE
