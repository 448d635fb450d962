"""An inspection as lines for people.

      snapshots         1 to 1, the newest APPEND of 2026-11-27 04:15:29 UTC
      level 0           1 files, 2 rows, 1.1 KiB
      waiting           1 level-0 files in 1 buckets, the oldest for 4.459 s, 1 at most in one

A line for each fact that the table has; what it has not (tags, consumers, a lease) has no line. All numbers are in the
inspection: nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterator

from widetable.format.human_units import duration_text, size_text, time_text
from widetable.messages.counted import counted
from widetable.operations.inspection.inspection import DerivedState, Inspection


def inspection_lines(found: Inspection) -> Iterator[tuple[str, str]]:
    """(line, style), styles of `console`."""
    yield found.path, "plain"
    for name, text in _facts(found):
        yield fact_line(name, text), "plain"


def warning_lines(found: Inspection) -> Iterator[tuple[str, str]]:
    """Behind all facts."""
    for warning in found.warnings:
        yield f"warning: {warning}", "warning"


def fact_line(name: str, text: str) -> str:
    """Names above each other, texts above each other."""
    return f"  {name:<18}{text}"


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    """(name, what there is to say), in the order of their importance for who looks after the table.

    A name may come several times: one line for each level, consumer and derived table.
    """
    kept = "write-only" if found.write_only else "compacted by its writers"
    producer = f"changelog-producer={found.changelog_producer}"
    yield "table", f"{found.merge_engine}, {producer}, {kept}, bucket={found.buckets}"
    yield "schema", f"{found.schema_id}"
    if found.latest_snapshot_id is None:
        yield "snapshots", "none"
    else:
        latest = f"{found.latest_kind} of {_time(found.latest_time_millis)}"
        span = f"{found.earliest_snapshot_id} to {found.latest_snapshot_id}"
        yield "snapshots", f"{span}, the newest {latest}"
    for level in found.levels:
        text = f"{counted(level.files, 'file')}, {counted(level.rows, 'row')}, {size_text(level.bytes)}"
        yield f"level {level.level}", text
    backlog = found.backlog
    if backlog.files:
        age = backlog.oldest_age_millis
        oldest = "" if age is None else f", the oldest for at least {duration_text(age)}"
        text = f"{counted(backlog.files, 'level-0 file')} in {counted(backlog.buckets, 'bucket')}{oldest}"
        yield "waiting", f"{text}, {backlog.most_in_a_bucket} at most in one"
    if found.last_compaction_id is None:
        yield "last compaction", "none that is kept"
    else:
        when = _time(found.last_compaction_time_millis)
        newer = f"{counted(found.commits_since_compaction, 'commit')} since"
        yield "last compaction", f"snapshot {found.last_compaction_id} of {when}, {newer}"
    if found.tags:
        yield "tags", ", ".join(found.tags)
    for name, lag in found.consumers.items():
        yield "consumer", f"{name}: next is {lag.next_snapshot_id}, {lag.behind} behind"
    for made in found.derived:
        yield made.option.partition(".")[0], _derived(made)
    if found.held_snapshot_ids:
        yield "readers hold", f"snapshots from {found.held_snapshot_ids[0]} on"
    if found.lease_holder is not None:
        until = _time(found.lease_expires_millis)
        yield "compacting", f"{found.lease_holder} has the lease until {until}"


def _derived(made: DerivedState) -> str:
    """Of an index, a widening or a join: how far it is behind each of its sources, and its last round."""
    name = made.option.partition(".")[2]
    if made.error is not None:
        return f"{name}: cannot be made"
    lags = [
        f"{name} never worked in"
        if behind is None
        else f"{counted(behind, 'snapshot')} of {name} behind"
        for name, behind in made.behind.items()
    ]
    text = f"{name}: {', '.join(lags)}"
    if made.round is not None:
        text += f", round {made.round}"
    if made.rows is not None and made.duration_millis is not None:
        seconds = made.duration_millis / 1000
        text += (
            f" of {_time(made.ended_millis)} wrote {counted(made.rows, 'row')} in {seconds:.1f} s"
        )
    return text


def _time(millis: int | None) -> str:
    return "?" if millis is None else time_text(millis)
