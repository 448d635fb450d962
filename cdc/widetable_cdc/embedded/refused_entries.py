"""Entries of a configuration that a database which Debezium reads cannot have: refused by name, never ignored. Pure.

Raises UnsupportedError for those that mean something for PostgreSQL only, InvalidError for patterns without a database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from widetable import InvalidError, UnsupportedError

_CONNECTION: Final = "Give the connection in source.properties."
_NO_SLOT: Final = "Remove it: a binlog has no publication and no slot."
_REFUSED: Final = {
    "source": {
        "dsn": _CONNECTION,
        "dsn-env": _CONNECTION,
        "publication": _NO_SLOT,
        "slot": _NO_SLOT,
    },
    "target": {"barriers": "Remove it: these targets are not under barriers."},
    "limits": {
        "chunk-rows": "Set snapshot.fetch.size in source.properties.",
        "retry-for": "Set errors.max.retries in source.properties.",
        "max-held": "Remove it: the server does not keep its log for the job.",
    },
    "rules": {
        "drop-column": "Remove it: the column stays.",
        "decimal": "Set decimal.handling.mode in source.properties.",
        "every-transaction": "Remove it: a round has all transactions that have come.",
    },
}
_REFUSED_OF_TABLES: Final = {
    "types": "Remove it: the records say the types.",
    "computed": "Remove it: the target has the columns of the records.",
    "metadata": "Remove it: the target has the columns of the records.",
    "partition": "Make the table with its partition keys before the job starts.",
    "group": "Remove it: the job fills mirrors.",
}


def check_entries(entries: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for an entry that means nothing for a database that Debezium reads."""
    for section, refused in _REFUSED.items():
        _check(section, entries.get(section), refused)
    tables = entries.get("table")
    for name, table in tables.items() if isinstance(tables, Mapping) else ():
        _check(f'table."{name}"', table, _REFUSED_OF_TABLES)


def _check(section: str, entries: Any, refused: Mapping[str, str]) -> None:
    for name in entries if isinstance(entries, Mapping) else ():
        if name in refused:
            raise UnsupportedError(
                f"entry '{section}.{name}'",
                found="an entry for databases of kind 'postgresql'",
                expected="none where kind is 'debezium'",
                action=refused[name],
            )


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise InvalidError for a pattern without a database."""
    for pattern in patterns:
        if "." not in pattern:
            raise InvalidError(
                "entry 'tables'",
                found=repr(pattern),
                expected="patterns such as 'shop.*' or 'shop.orders'",
                action="Name the database in the pattern.",
            )
