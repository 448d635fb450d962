"""What a person should do something about, of tables and jobs: the line on top of the page. Pure.

    a writer that a table waits for and that has not been heard of for ten minutes, as `widetable meta show` says it
    a revision that has not ended: some of its tables may have gone back, and readers do not go by it yet
    no instance leads: what changes something is refused by all

A table that is only behind is none: barriers may be those of years ago, which a job goes through again. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from widetable import NotedRevision, TableProgress
from widetable.connector import command_line, is_lost, last_seen_text


@dataclass(frozen=True)
class Alarm:
    """found: what is wrong. action: what to do, with command: what a shell takes, empty where no command helps."""

    found: str
    action: str
    command: str = ""


def alarms_of(
    warehouse: str,
    tables: Iterable[TableProgress],
    revisions: Iterable[NotedRevision],
    has_leader: bool,
) -> list[Alarm]:
    """In this order: the leader, revisions, then writers by table and name. has_leader: some instance leads."""
    return [
        *_of_leader(has_leader),
        *_of_revisions(warehouse, revisions),
        *_of_writers(warehouse, tables),
    ]


def _of_leader(has_leader: bool) -> Iterator[Alarm]:
    if not has_leader:
        yield Alarm(
            "No instance leads, so jobs cannot register and nothing can be revised",
            "It takes some seconds where a leader has gone; if it lasts, the log of the instances says why.",
        )


def _of_revisions(warehouse: str, revisions: Iterable[NotedRevision]) -> Iterator[Alarm]:
    for one in revisions:
        if not one.is_active:
            to = ("--full",) if one.to is None else ("--to", str(one.to))
            yield Alarm(
                f"Revision {one.number} of {one.table} has not ended",
                "If nobody revises now, it was broken off; this ends it:",
                command_line("meta", "revise", warehouse, one.table, *to),
            )


def _of_writers(warehouse: str, tables: Iterable[TableProgress]) -> Iterator[Alarm]:
    for table in tables:
        for writer in table.writers:
            if is_lost(writer.silent_millis) and writer.silent_millis is not None:
                yield Alarm(
                    f"{table.table} waits for {writer.name}, {last_seen_text(writer.silent_millis)}",
                    "Start it again, or, if it does not come back:",
                    command_line("meta", "leave", warehouse, table.table, writer.name),
                )
