"""What must hold before a job applies a change: of the server, its slot, the tables and what the publication sends.

`server_facts` asks the server; all else is pure over values. A check raises InvalidError that names what was found and
the way on, or returns sentences for a job that goes on: a warning, or why one table cannot be followed while others
can. Nothing here changes the source. A table that fails `table_problem` must not get into a publication: the server
would refuse the updates and deletes of its users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from widetable import InvalidError
from widetable.connector import counted
from widetable_cdc.source.lsn import lsn_of, lsn_text
from widetable_cdc.source.publication import PublishedTable
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import Connection
from widetable_cdc.source.slot import LOST, PLUGIN, SERVER_LSN, UNRESERVED, Slot, SlotStatus
from widetable_cdc.source.source_table import SourceTable

OLDEST_VERSION: Final = 140000
_FACTS: Final = f"""
SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery(),
       (SELECT system_identifier FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END,
       {SERVER_LSN}::text, current_database()
"""
_REFUSED: Final = "the server would refuse updates and deletes of its users once it is published"


@dataclass(frozen=True)
class ServerFacts:
    """A server. system_identifier: of its cluster, which a restored copy shares. timeline: another one after a
    fail-over or a restore. server_lsn: up to where its log is flushed.
    """

    version: int
    wal_level: str
    is_in_recovery: bool
    system_identifier: int
    timeline: int
    server_lsn: int
    database: str


def server_facts(connection: Connection) -> ServerFacts:
    """Ask the server."""
    with server_errors("the source"):
        row = connection.execute(_FACTS).fetchone()
    assert row is not None
    version, wal_level, is_in_recovery, identifier, timeline, lsn, database = row
    return ServerFacts(
        version, wal_level, is_in_recovery, identifier, timeline, lsn_of(lsn), database
    )


def check_server(connection: Connection, slot: str) -> ServerFacts:
    """Check the server, and the slot if there is one. Returns the facts, for `check_same_server`."""
    facts = server_facts(connection)
    check_facts(facts)
    status = Slot(connection, slot).status()
    if status is not None:
        check_slot(status, facts.database)
    return facts


def check_facts(facts: ServerFacts) -> None:
    """Check that the server can send changes at all."""
    if facts.version < OLDEST_VERSION:
        raise InvalidError(
            "the source",
            found=f"PostgreSQL {facts.version // 10000}",
            expected=f"PostgreSQL {OLDEST_VERSION // 10000} or newer",
            action="Upgrade the server.",
        )
    if facts.wal_level != "logical":
        raise InvalidError(
            "the setting wal_level of the source",
            found=repr(facts.wal_level),
            expected="'logical'",
            action="Run ALTER SYSTEM SET wal_level = logical, and restart the server.",
        )


def check_slot(status: SlotStatus, database: str) -> None:
    """Check that a slot that is there is the job's, that nobody reads it, and that its log is kept."""
    subject = f"the replication slot {status.name!r}"
    if status.plugin != PLUGIN or status.database != database:
        raise InvalidError(
            subject,
            found=f"a slot of the plugin {status.plugin} for the database {status.database}",
            expected=f"one of the plugin {PLUGIN} for the database {database}",
            action="Give the job another slot's name; it makes the slot.",
        )
    if status.wal_status == LOST or status.confirmed_lsn is None:
        raise lost_slot(status)
    if status.active_pid is not None:
        raise InvalidError(
            subject,
            found=f"the session with pid {status.active_pid} reads it",
            expected="one reader of a slot",
            action="Stop the other reader, or give this job its own slot.",
        )


def lost_slot(status: SlotStatus) -> InvalidError:
    """Return the error of a slot whose log the server has removed."""
    reason = f" ({status.reason})" if status.reason else ""
    return InvalidError(
        f"the replication slot {status.name!r}",
        found=f"a lost slot{reason}: the server has removed its log",
        expected="a slot whose log is kept (max_slot_wal_keep_size, idle_replication_slot_timeout)",
        action="Run `widetable cdc drop-slot FILE`, then run the job again: it copies the tables again.",
    )


def slot_warning(status: SlotStatus, max_held_bytes: int | None = None) -> str | None:
    """Return what a person should know of the slot; None if it is well."""
    slot_holds = (
        f"The replication slot {status.name!r} holds {counted(status.held_bytes, 'byte')} of log"
    )
    if status.wal_status == UNRESERVED:
        return (
            f"{slot_holds}, more than the server keeps (max_slot_wal_keep_size): the next checkpoint may "
            "remove it. Let the job catch up at once, or raise the limit."
        )
    if max_held_bytes is not None and status.held_bytes > max_held_bytes:
        return f"{slot_holds}, more than {counted(max_held_bytes, 'byte')}: the server's disk may fill."
    return None


def check_same_server(before: ServerFacts, now: ServerFacts, status: SlotStatus | None) -> None:
    """Check that positions still mean what they meant. before: as of the job's last run. status: of its slot.

    Where another timeline began `fail_over.py` knows how far they do.
    """
    check_same_cluster(before, now)
    if now.timeline == before.timeline and now.server_lsn < before.server_lsn:
        raise _another_server(
            f"a log that ends at {lsn_text(now.server_lsn)}",
            f"one that goes on behind {lsn_text(before.server_lsn)}",
        )
    confirmed = None if status is None else status.confirmed_lsn
    if confirmed is not None and confirmed > now.server_lsn:
        raise _another_server(
            f"a slot at {lsn_text(confirmed)}, behind the end of the log",
            f"one up to {lsn_text(now.server_lsn)}",
        )


def check_same_cluster(before: ServerFacts, now: ServerFacts) -> None:
    """Check that it is the database that the job followed, perhaps on another server of its cluster."""
    if (before.system_identifier, before.database) != (now.system_identifier, now.database):
        raise _another_server(
            f"the database {now.database} of the cluster {now.system_identifier}",
            f"the database {before.database} of the cluster {before.system_identifier}",
        )


def check_position(status: SlotStatus, position: int) -> None:
    """Check that the slot has not gone beyond what the job confirmed. position: that of the job's last `confirm`.

    A slot that is a little behind is well: a server that crashed sends again what was confirmed since its last
    checkpoint, and tables skip what they have.
    """
    if status.confirmed_lsn is not None and status.confirmed_lsn > position:
        raise InvalidError(
            f"the replication slot {status.name!r}",
            found=f"a slot at {lsn_text(status.confirmed_lsn)}, ahead of the job",
            expected=f"one that is at most at {lsn_text(position)}",
            action="Changes between the two were taken by another reader, or the slot was made anew. Run "
            "`widetable cdc drop-slot FILE`, then run the job again: it copies the tables again.",
        )


def table_problem(table: SourceTable) -> str | None:
    """Return why a table cannot be followed; None if it can."""
    if table.identity == "n":
        return f"its replica identity is NOTHING, so {_REFUSED}"
    if not table.key:
        if table.identity == "f":
            return "it has no primary key, so its rows have no identity in the target"
        return f"it has no primary key that is checked at once (a deferrable one is not), so {_REFUSED}"
    generated = [each.name for each in table.columns if each.is_generated]
    if table.identity == "f" and generated:
        named = ", ".join(generated)
        return f"its replica identity is FULL and its generated columns ({named}) are not sent, so {_REFUSED}"
    missing = [each for each in table.key if each in generated]
    if missing:
        return f"its key has the generated columns {', '.join(missing)}, which are not sent, so {_REFUSED}"
    return None


def check_tables(tables: Iterable[SourceTable]) -> None:
    """Check that all tables can be followed; the error names each that cannot."""
    problems = [
        f"{table.schema}.{table.name}: {problem}"
        for table in tables
        if (problem := table_problem(table)) is not None
    ]
    if problems:
        raise InvalidError(
            counted(len(problems), "table") + " of the source",
            found="; ".join(problems),
            expected="tables with a primary key, or with a replica identity by an index",
            action="Give them a primary key or REPLICA IDENTITY USING INDEX, or exclude them.",
        )


def unsent_parts(
    tables: Iterable[SourceTable], members: Mapping[tuple[str, str], PublishedTable]
) -> dict[tuple[str, str], str]:
    """Return for each table of which the publication leaves something out what that is, by schema and name."""
    unsent = {}
    for table in tables:
        member = members.get((table.schema, table.name))
        if member is None:
            unsent[table.schema, table.name] = "it is not in the publication"
            continue
        parts = []
        if member.row_filter is not None:
            parts.append(f"rows that do not meet {member.row_filter}")
        columns = {each.name for each in table.columns if not each.is_generated}
        lacking = sorted(columns - set(member.columns))
        if lacking:
            parts.append(f"the columns {', '.join(lacking)}")
        if parts:
            unsent[table.schema, table.name] = f"the publication leaves out {' and '.join(parts)}"
    return unsent


def changed_members(
    before: Mapping[tuple[str, str], PublishedTable],
    now: Mapping[tuple[str, str], PublishedTable],
) -> frozenset[tuple[str, str]]:
    """Return the tables of both that were out of the publication meanwhile, or whose columns or filter were changed
    there: changes of them may lack, so they are to be copied again.
    """
    return frozenset(
        name
        for name in before.keys() & now.keys()
        if before[name].membership != now[name].membership
    )


def _another_server(found: str, expected: str) -> InvalidError:
    return InvalidError(
        "the server of the source",
        found=found,
        expected=expected,
        action="Let the dsn name the server of the last run; or drop the slot, start the job anew, and let it copy the "
        "tables again.",
    )
