"""What Spark asks of a source when it runs CREATE TABLE: a name in SQL for a table that exists.

In: the options of the statement, Spark's own among them. Out: the table's directory. Raises InvalidError without a
directory, and for any other option, as Spark would forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from widetable import InvalidError
from widetable_spark.frames.declared_options import PATH
from widetable_spark.frames.source_options import HOW_TO_NAME

# Options that Spark passes for a CREATE TABLE, besides the table's own; each comes a second time with a prefix.
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
    """Tell whether Spark runs a CREATE TABLE, which it shows to the source only when no columns are declared."""
    return _PROVIDER in {key.lower() for key in options}


def created_path(options: Mapping[str, str]) -> str:
    """Return the table's directory in a CREATE TABLE.

    Raises InvalidError without it, and for every option that Spark would forget.
    """
    texts = {key.lower(): text for key, text in options.items()}
    for key in texts:
        if key not in _OF_CREATE and not key.startswith("option."):
            raise InvalidError(
                f"option or property {key!r} of CREATE TABLE ... USING widetable",
                found="an option that Spark does not store",
                expected="LOCATION alone",
                action="Give options of the table to widetable.Catalog.create_table, those of a read or write to it.",
            )
    if not texts.get(PATH):
        raise InvalidError(
            "CREATE TABLE ... USING widetable",
            found="no LOCATION",
            expected="the directory of an existing table",
            action=HOW_TO_NAME,
        )
    return texts[PATH]
