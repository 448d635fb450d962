"""The log of a server as COPY gives it, and as the plugin test_decoding tells it."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import sql

from widetable_cdc.values.session_settings import SESSION_SETTINGS

_PEEK = (
    "copy (select lsn, xid, data from pg_logical_slot_peek_binary_changes({slot}, null, {changes},"
    " 'proto_version', '1', 'publication_names', {publication})) to stdout (format binary)"
)
_TOLD = re.compile(r"table (.+?): (INSERT|UPDATE|DELETE|TRUNCATE):")


def new_slot(connection: psycopg.Connection[Any], slot: str, plugin: str = "pgoutput") -> None:
    connection.execute("select pg_create_logical_replication_slot(%s, %s)", (slot, plugin))


def peeked(
    dsn: str, slot: str, publication: str, changes: int | None = None, **settings: str
) -> bytes:
    """What waits in the slot. settings: of the session, instead of those that a job sets."""
    with psycopg.connect(dsn) as connection:
        for name, value in ({**SESSION_SETTINGS, **settings}).items():
            connection.execute("select set_config(%s, %s, false)", (name, value))
        statement = sql.SQL(_PEEK).format(
            slot=sql.Literal(slot),
            changes=sql.Literal(changes),
            publication=sql.Literal(publication),
        )
        with connection.cursor().copy(statement) as copied:
            return b"".join(bytes(part) for part in copied)


def told(dsn: str, slot: str) -> list[tuple[int, str, str]]:
    """(xid, table, letter of the kind) of each change, as test_decoding tells them. No name has a comma."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select xid::text::bigint, data from pg_logical_slot_peek_changes(%s, null, null)",
            (slot,),
        ).fetchall()
    changes = []
    for xid, line in rows:
        match = _TOLD.match(line)
        if match is not None:
            tables = [name.removeprefix("public.").strip('"') for name in match[1].split(", ")]
            changes += [(xid, table, match[2][0]) for table in tables]
    return changes
