"""Checks which options an append table excludes: those that say how rows of one key become one row. Pure.

An append table has no primary key, so nothing is merged, looked up by key or derived from keys. An option that would
have no effect there is refused by name, because its user expects an effect. Options that bound memory or disk of merges
are harmless, and stay.

Raises UnsupportedError, which names the option.
"""

from __future__ import annotations

from typing import Any, Final

from widetable.errors import UnsupportedError
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.barrier_options import BARRIER_INTERVAL, BARRIER_STAGE
from widetable.schema.field_options import DERIVED_OPTION, FIELD_OPTION
from widetable.schema.option import Option
from widetable.schema.table_schema import TableSchema

# They need a key. A value that is the default says nothing, and is accepted.
_NEED_A_KEY: Final[tuple[Option[Any], ...]] = (
    opt.MERGE_ENGINE,
    opt.IGNORE_DELETE,
    opt.IGNORE_UPDATE_BEFORE,
    opt.SEQUENCE_FIELD,
    opt.ROWKIND_FIELD,
    opt.REMOVE_RECORD_ON_DELETE,
    opt.REMOVE_RECORD_ON_SEQUENCE_GROUP,
    opt.AGGREGATION_REMOVE_RECORD_ON_DELETE,
    opt.CHANGELOG_PRODUCER,
    opt.ROW_DEDUPLICATE,
    opt.ROW_DEDUPLICATE_IGNORE_FIELDS,
    opt.TILE_SIZE,
    retention.RECORD_LEVEL_EXPIRE_TIME,
    BARRIER_INTERVAL,
    BARRIER_STAGE,
    join_options.LEFT,
    join_options.RIGHT,
    join_options.INDEX_OF,
    join_options.HISTORY_TABLE,
    join_options.HISTORY_OF,
    join_options.SAMPLES_OF,
    join_options.TILES_FROM,
)


def check_append(schema: TableSchema) -> None:
    """Refuse an append table with an option that needs a primary key."""
    if schema.has_key:
        return
    options = schema.typed_options
    set_keys = {option.key for option in _NEED_A_KEY if options.get(option) != option.default}
    needing = [
        key
        for key in schema.options
        if opt.OLD_KEYS.get(key, key) in set_keys or _is_of_columns(key)
    ]
    if needing:
        raise UnsupportedError(
            f"option {needing[0]!r}",
            found=f"{schema.options[needing[0]]!r} in a table without a primary key",
            expected="a table with a primary key, whose rows are merged by it",
            action="Remove the option, or give the table a primary key.",
        )


def _is_of_columns(key: str) -> bool:
    return bool(FIELD_OPTION.match(key) or DERIVED_OPTION.match(key))
