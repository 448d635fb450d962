"""The properties that the engine gets: those of the configuration, and those that a job sets itself.

A job sets what decides which records come, where they begin and what they look like. An entry of the configuration that
would change that is refused by its name. Patterns of tables become one expression, because Debezium does not take
tables to include and to exclude at once.

In: names, patterns and properties. Out: properties. Pure. Raises InvalidError for an entry of the job's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from widetable import InvalidError
from widetable_cdc.embedded.connectors import Connector

# What a job sets itself, and what an entry of the configuration says it with.
_OWN: Final = {
    "name": "name",
    "connector.class": "source.connector",
    "topic.prefix": "name",
    "database.include.list": "tables",
    "database.exclude.list": "tables and exclude",
    "table.include.list": "tables",
    "table.exclude.list": "exclude",
    "message.key.columns": '[table."db.table"] key',
}
_NONE: Final = "no entry: the job depends on it"
_PREFIXES: Final = (
    "offset.",
    "key.converter",
    "value.converter",
    "header.converter",
    "schema.history.internal.file",
    "transforms",
    "predicates",
    "signal.",
    "topic.",
    "incremental.",
    "converters",
)
_NAMES: Final = (
    "schema.history.internal",
    "provide.transaction.metadata",
    "include.schema.changes",
    "skipped.operations",
    "tombstones.on.delete",
    "heartbeat.interval.ms",
    "tasks.max",
    "event.processing.failure.handling.mode",
    "inconsistent.schema.handling.mode",
)
_SNAPSHOTS: Final = ("initial", "no_data")
# The server says so after 0.8 of it if nothing has come; the job then knows that it has caught up.
_KEEP_ALIVE_MILLIS: Final = 3_000


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidError for a property that a job sets itself."""
    for name, value in properties.items():
        entry = _OWN.get(name)
        if entry is None and (name in _NAMES or name.startswith(_PREFIXES)):
            entry = _NONE
        if entry is not None:
            raise InvalidError(
                f"entry 'source.properties.{name}'",
                found="a property that the job sets itself",
                expected=entry,
                action="Remove the property.",
            )
        if name == "snapshot.mode" and value not in _SNAPSHOTS:
            raise InvalidError(
                "entry 'source.properties.snapshot.mode'",
                found=repr(value),
                expected=" or ".join(map(repr, _SNAPSHOTS)),
                action="Give the job another name to copy the tables again.",
            )


def engine_properties(
    connector: Connector,
    prefix: str,
    own: Mapping[str, str],
    tables: Sequence[str],
    exclude: Sequence[str],
    *,
    offsets: str,
    history: str,
) -> dict[str, str]:
    """Return all properties. own: of the configuration. offsets, history: paths of the engine's files."""
    usual = {
        "snapshot.mode": "initial",
        "connect.keep.alive.interval.ms": str(_KEEP_ALIVE_MILLIS),
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "poll.interval.ms": "50",
    }
    fixed = {
        "name": prefix,
        "connector.class": connector.java_class,
        "topic.prefix": prefix,
        # Another table never gets the topic of this one: letters that no topic may have are written as numbers.
        "topic.naming.strategy": "io.debezium.schema.DefaultUnicodeTopicNamingStrategy",
        "table.include.list": table_expression(tables, exclude),
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": offsets,
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": history,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "true",
        # A null of a column with a default would be the default.
        "value.converter.replace.null.with.default": "false",
        "provide.transaction.metadata": "true",
        "include.schema.changes": "true",
        "skipped.operations": "none",
        "tombstones.on.delete": "false",
        "heartbeat.interval.ms": "500",
        "tasks.max": "1",
    }
    return {**usual, **own, **fixed}


def table_expression(tables: Sequence[str], exclude: Sequence[str]) -> str:
    """Return Java's regular expression for the names that a pattern names and none of `exclude` does.

    Debezium takes a list of expressions, so a comma within one is written as a number.
    """
    wanted = "|".join(map(_expression, tables))
    if not exclude:
        return f"(?:{wanted})"
    left_out = "|".join(map(_expression, exclude))
    return f"(?!(?:{left_out})$)(?:{wanted})"


def _expression(pattern: str) -> str:
    letters = {"*": ".*", "?": ".", ",": r"\x2c"}
    return "".join(letters.get(letter) or re.escape(letter) for letter in pattern)
