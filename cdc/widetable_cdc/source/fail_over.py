"""Whether a job may follow a server that took over from the one that it followed.

    timeline 1 ─────────────────┬─ P ── what the old server wrote last, and the new one never got
                                └────── timeline 2: the standby was promoted at P
    the job has applied up to  R

Positions mean the same on both up to P. A job goes on if R lies up to P, and if its slot on the new server was made by
the server itself from the one on the old server: such a slot is never ahead of what the job has confirmed. One that is
behind sends some transactions again, which the targets have and skip.

The history of timelines is asked for by the protocol of replication, which needs no more than the job has. Raises
InvalidError that names what lacks, and what `server_errors` raises.
"""

from __future__ import annotations

import re
from typing import Final

from psycopg.conninfo import make_conninfo

from widetable import InvalidError
from widetable_cdc.source.lsn import lsn_of, lsn_text
from widetable_cdc.source.server_checks import ServerFacts
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import SlotStatus

_LINE: Final = re.compile(r"^\s*(\d+)\s+([0-9A-F]+/[0-9A-F]+)", re.MULTILINE)
_AGAIN: Final = (
    "Run `widetable cdc drop-slot FILE`, then run the job again: it copies the tables again."
)


def left_at(dsn: str, name: str, before: ServerFacts, now: ServerFacts) -> int | None:
    """Return the position at which the timeline of `before` was left for that of `now`; None if it is no part of its
    history.
    """
    subject = "the history of the source's timelines"
    with (
        server_errors(subject),
        session(make_conninfo(dsn, replication="database"), name) as connection,
    ):
        row = connection.execute(f"TIMELINE_HISTORY {int(now.timeline)}".encode()).fetchone()
    return None if row is None else switch_of(_text(row[1]), before.timeline)


def switch_of(history: str, timeline: int) -> int | None:
    """Return where a timeline ends by the text of a history file; None if it is not in it. Pure."""
    ends = {int(each[1]): lsn_of(each[2]) for each in _LINE.finditer(history)}
    return ends.get(timeline)


def check_fail_over(
    before: ServerFacts, now: ServerFacts, slot: SlotStatus | None, end: int | None, applied: int
) -> None:
    """Check that a job may follow the new server. Pure.

    end: by `left_at`. applied: the highest position of a target.
    """
    if end is None or applied > end:
        at = "no part of its history" if end is None else f"left at {lsn_text(end)}"
        raise InvalidError(
            "the server of the source",
            found=f"timeline {now.timeline}, for which timeline {before.timeline} is {at}; the tables have changes up "
            f"to {lsn_text(applied)}",
            expected="a server that took over with all changes that the tables have",
            action="What the old server sent last is lost at the new one. Drop the tables that are ahead. "
            + _AGAIN,
        )
    if slot is None or not slot.is_synced:
        raise InvalidError(
            "the server of the source",
            found=f"timeline {now.timeline}, made by a fail-over, "
            + ("without the job's slot" if slot is None else "with a slot that was made there"),
            expected="the slot that the standby had synchronised (sync_replication_slots = on, PostgreSQL 17 or newer)",
            action=f"Changes may lie before it. {_AGAIN}",
        )


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
