"""An inspection as lines for people.

      snapshots         1 to 1, the newest APPEND of 2026-11-27 04:15:29 UTC
      level 0           1 files, 2 rows, 1.1 KiB
      waiting           1 level-0 files in 1 buckets, the oldest for 4.459 s, 1 at most in one

Each fact of the table has a line; missing tags, consumers or leases have none. The inspection has all numbers: this
module reads no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from widetable.format.human_units import duration_text, size_text, time_text
from widetable.messages.counted import counted
from widetable.operations.inspection.inspection import DerivedState, Inspection

# Of options that only this package has.
_OWN_PREFIX: Final = "widetable."


def inspection_lines(inspection: Inspection) -> Iterator[tuple[str, str]]:
    """Yield (line, style) for the path and each fact, with the styles of `console`."""
    yield inspection.path, "plain"
    for name, text in _facts(inspection):
        yield fact_line(name, text), "plain"


def warning_lines(inspection: Inspection) -> Iterator[tuple[str, str]]:
    """Yield (line, style) for each warning; they follow all facts."""
    for warning in inspection.warnings:
        yield f"warning: {warning}", "warning"


def fact_line(name: str, text: str) -> str:
    """Return the line of a fact; the texts of all facts are aligned."""
    return f"  {name:<18}{text}"


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    """Yield (name, text), the most important facts for an operator first.

    A name may occur several times: there is one line for each level, consumer and derived table.
    """
    kept = "write-only" if inspection.write_only else "compacted by its writers"
    producer = f"changelog-producer={inspection.changelog_producer}"
    if inspection.merge_engine is None:
        yield "table", f"append table, {kept}, bucket={inspection.buckets}"
    else:
        yield "table", f"{inspection.merge_engine}, {producer}, {kept}, bucket={inspection.buckets}"
    yield "schema", f"{inspection.schema_id}"
    if inspection.latest_snapshot_id is None:
        yield "snapshots", "none"
    else:
        latest = f"{inspection.latest_kind} of {_time(inspection.latest_time_millis)}"
        span = f"{inspection.earliest_snapshot_id} to {inspection.latest_snapshot_id}"
        yield "snapshots", f"{span}, the newest {latest}"
    for level in inspection.levels:
        text = f"{counted(level.files, 'file')}, {counted(level.rows, 'row')}, {size_text(level.bytes)}"
        yield f"level {level.level}", text
    backlog = inspection.backlog
    if backlog.files:
        age = backlog.oldest_age_millis
        oldest = "" if age is None else f", the oldest for at least {duration_text(age)}"
        text = f"{counted(backlog.files, 'level-0 file')} in {counted(backlog.buckets, 'bucket')}{oldest}"
        yield "waiting", f"{text}, {backlog.most_in_a_bucket} at most in one"
    if inspection.last_compaction_id is None:
        yield "last compaction", "none among the existing snapshots"
    else:
        when = _time(inspection.last_compaction_time_millis)
        newer = f"{counted(inspection.commits_since_compaction, 'commit')} since"
        yield "last compaction", f"snapshot {inspection.last_compaction_id} of {when}, {newer}"
    if inspection.tags:
        yield "tags", ", ".join(inspection.tags)
    for name, lag in inspection.consumers.items():
        yield "consumer", f"{name}: next is {lag.next_snapshot_id}, {lag.behind} behind"
    for made in inspection.derived:
        yield made.option.removeprefix(_OWN_PREFIX).partition(".")[0], _derived(made)
    if inspection.held_snapshot_ids:
        yield "readers hold", f"snapshots from {inspection.held_snapshot_ids[0]} on"
    if inspection.lease_holder is not None:
        until = _time(inspection.lease_expires_millis)
        yield "compacting", f"{inspection.lease_holder} has the lease until {until}"


def _derived(made: DerivedState) -> str:
    """Return the lag of derived data behind each of its sources, and its last round."""
    name = made.option.removeprefix(_OWN_PREFIX).partition(".")[2]
    label = f"{name}: " if name else ""
    if made.error is not None:
        return f"{label}cannot be derived"
    lags = [
        f"{name} not read yet"
        if behind is None
        else f"{counted(behind, 'snapshot')} of {name} behind"
        for name, behind in made.behind.items()
    ]
    text = f"{label}{', '.join(lags)}"
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
