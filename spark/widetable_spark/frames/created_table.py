"""What Spark asks of a source when it runs CREATE TABLE: a name in SQL for a table that is there.

In: the options of the statement, Spark's own among them. Out: the table's directory. Raises InvalidError without one,
and for whatever else was given, as Spark would forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from widetable import InvalidError
from widetable_spark.frames.source_options import HOW_TO_NAME, PATH

# What Spark gives of a CREATE TABLE, besides the table's own options, each once more with a prefix.
_PROVIDER: Final = "provider"
_OF_CREATE: Final = frozenset(
    {
        _PROVIDER,
        PATH,
        "owner",
        "location",
        "external",
        "is_managed_location",
        "comment",
        "collation",
    }
)


def is_created(options: Mapping[str, str]) -> bool:
    """Whether a CREATE TABLE asks, of which the source hears only when no columns are declared."""
    return _PROVIDER in {key.lower() for key in options}


def created_path(options: Mapping[str, str]) -> str:
    """The table's directory in a CREATE TABLE. Raises InvalidError without it, and for all that Spark would forget."""
    texts = {key.lower(): text for key, text in options.items()}
    for key in texts:
        if key not in _OF_CREATE and not key.startswith("option."):
            raise InvalidError(
                f"option or property {key!r} of CREATE TABLE ... USING widetable",
                found="what Spark forgets",
                expected="LOCATION alone",
                action="Give options of the table to widetable.Catalog.create_table, those of a read or write to it.",
            )
    if not texts.get(PATH):
        raise InvalidError(
            "CREATE TABLE ... USING widetable",
            found="no LOCATION",
            expected="that of a table which is there",
            action=HOW_TO_NAME,
        )
    return texts[PATH]
