"""Commands that keep a table up: maintain, compact, expire, orphans."""

from __future__ import annotations

import logging

from widetable.cli.command import DONE
from widetable.cli.console import write_line
from widetable.cli.duration import millis_of
from widetable.cli.log_output import logged
from widetable.cli.stop_signals import stop_on_signals
from widetable.errors import InvalidError
from widetable.operations.maintenance import MaintenanceResult
from widetable.table import Table


def maintain(
    path: str,
    once: bool,
    interval: str,
    full_compaction_interval: str | None,
    expire: bool,
    orphans_older_than: str | None,
    quiet: bool,
) -> int:
    """Logs what it does; prints what it did when it ends."""
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
        write_line(_maintained(done))
    return DONE


def _maintained(done: MaintenanceResult) -> str:
    parts = [
        f"{done.compactions} compactions",
        f"{done.expired_snapshots} snapshots expired",
        f"{done.orphan_files} orphans removed",
        f"{done.freed_files} files, {done.freed_bytes} bytes freed",
    ]
    if done.derived_rows:
        parts.append(f"{done.derived_rows} rows of derived tables")
    if done.failures:
        parts.append(f"{done.failures} rounds failed")
    if done.derived_failures:
        parts.append(f"{done.derived_failures} derived tables failed")
    if done.damaged_buckets:
        parts.append(f"{done.damaged_buckets} damaged buckets passed by")
    return ", ".join(parts)


def compact(path: str, full: bool) -> int:
    """Prints what came of it."""
    done = Table.open(path).compact(full)
    said = f"snapshot {done.snapshot_id}, {done.rows} rows in {done.files} files"
    write_line(said if done.committed else "nothing was due")
    return DONE


def expire(
    path: str,
    retain_min: int | None,
    retain_max: int | None,
    time_retained: str | None,
    partitions: bool,
    dry_run: bool,
) -> int:
    """Prints which snapshots or partitions went, or would go."""
    if partitions:
        if any(each is not None for each in (retain_min, retain_max, time_retained)):
            raise InvalidError(
                "--partitions",
                found="an option of snapshots with it",
                expected="--dry-run only",
                action="Let partitions and snapshots expire one after the other.",
            )
        old = Table.open(path).expire_partitions(dry_run=dry_run)
        for name in old.partitions:
            write_line(name)
        went = "would go" if dry_run else "gone"
        write_line(f"{len(old.partitions)} partitions {went}; {old.rows} rows in their files")
        return DONE
    done = Table.open(path).expire_snapshots(
        retain_min, retain_max, millis_of(time_retained, "--time-retained"), dry_run=dry_run
    )
    span = f": {done.ids[0]} to {done.ids[-1]}" if done.ids else ""
    if dry_run:
        write_line(f"{len(done.ids)} snapshots would go{span}")
    else:
        write_line(f"{len(done.ids)} snapshots gone{span}; {done.files} files, {done.bytes} bytes")
    would_be = "would be " if dry_run else ""
    for consumer in done.consumers:
        write_line(f"consumer {consumer} {would_be}forgotten")
    for tag in done.tags:
        write_line(f"tag {tag} {would_be}deleted")
    return DONE


def rescale(path: str, buckets: int) -> int:
    """Prints what was rewritten."""
    done = Table.open(path).rescale(buckets)
    rows = sum(each.rows for each in done)
    write_line(f"{len(done)} partitions of {rows} rows now have {buckets} buckets")
    return DONE


def orphans(path: str, older_than: str, dry_run: bool) -> int:
    """Prints which files went, or would go."""
    found = Table.open(path).remove_orphan_files(millis_of(older_than, "--older-than"), dry_run)
    for orphan in found.paths:
        write_line(orphan)
    verb = "would go" if dry_run else "gone"
    write_line(f"{len(found.paths)} files {verb}, {found.bytes} bytes")
    return DONE
