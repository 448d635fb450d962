"""What a person should act on, for tables and jobs: the line at the top of the page. Pure.

    a writer that a table waits for and that has been silent for ten minutes, in the words of `widetable meta show`
    a revision that has not ended: some of its tables may have gone back, and readers do not follow it yet
    no instance leads: all instances refuse requests that change something

A table that is only behind raises no alarm: its barriers may be years old, when a job processes them again. Raises
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from widetable import NotedRevision, TableProgress
from widetable.connector import command_line, is_lost, last_seen_text


@dataclass(frozen=True)
class Alarm:
    """One thing to act on. found: what is wrong. action: what to do. command: the shell command that does it; "" where
    no command does.
    """

    found: str
    action: str
    command: str = ""


def alarms_of(
    warehouse: str,
    tables: Iterable[TableProgress],
    revisions: Iterable[NotedRevision],
    has_leader: bool,
) -> list[Alarm]:
    """Return the alarms in this order: the leader, revisions, then writers by table and name. has_leader: some instance
    leads.
    """
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
