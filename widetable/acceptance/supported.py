"""Checks what this version supports of tables that any client may have made. An option that changes rows and is not
honoured is refused by name; options that change only how a client works are accepted. `acceptance` says when.

Raises UnsupportedError, which names the option or key, and InvalidError for ignored fields that are no columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.engine import PartialMerge, engine_of
from widetable.schema import options as opt
from widetable.schema.option import Option
from widetable.schema.schema_rules import check_fixed_buckets
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import POSTPONED

# Options of Paimon that change which rows a reader sees, or where they lie, each with its harmless value.
# Ignoring one would give wrong rows, so a reader refuses the table.
_CHANGES_ROWS: Final[Mapping[str, str]] = {
    "type": "table",
    "sequence.snapshot-ordering": "false",
    "row-tracking.enabled": "false",
    "data-evolution.enabled": "false",
    "chain-table.enabled": "false",
    "pk-clustering-override": "false",
    "primary-key.nullable": "false",
    "query-auth.enabled": "false",
    "batch-scan-mode": "none",
    "stream-scan-mode": "none",
    "streaming-read-overwrite": "false",
    "branch": "main",
    "force-lookup": "false",
}
# With this option, data files lie in another directory.
_OTHER_DIRECTORY: Final = "data-file.path-directory"
# The value of `bucket` with which an index holds the bucket of each key.
_DYNAMIC: Final = -1
# Options that change rows and have no harmless value.
_OTHER_ROWS: Final = (
    _OTHER_DIRECTORY,
    "scan.bounded.watermark",
    "scan.bucket",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
    "scan.mode",
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.version",
    "scan.watermark",
)
# Other clients then copy expired snapshots to changelog/, and delete their changelog files later (format.md 12).
_LONGER_CHANGELOG: Final = (
    "changelog.num-retained.min",
    "changelog.num-retained.max",
    "changelog.time-retained",
)
_OTHER_ROWS_PREFIXES: Final = (
    "incremental-",
    "scan.fallback-",
    "scan.primary-branch",
    "data-file.external-paths",
)


def check_rows_are_read(schema: TableSchema) -> None:
    """Refuse a table whose rows this version would read wrongly. Other options change no row that is read."""
    for key, value in schema.options.items():
        harmless = _CHANGES_ROWS.get(key)
        if harmless is not None and value.strip().lower() != harmless:
            raise _unsupported(f"option {key!r}", repr(value), repr(harmless))
        if key in _OTHER_ROWS or key.startswith(_OTHER_ROWS_PREFIXES):
            raise _unsupported(f"option {key!r}", repr(value), "no such option in the table")


def check_buckets_are_read(schema: TableSchema) -> None:
    """Refuse a number of buckets that has no meaning. Postponed buckets can be read."""
    if schema.num_buckets < POSTPONED or schema.num_buckets == 0:
        check_fixed_buckets(schema)


def check_one_writer(schema: TableSchema) -> None:
    """Refuse several writers of dynamic buckets: they would put one new key into several buckets."""
    if schema.has_key and schema.num_buckets == _DYNAMIC:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"{schema.num_buckets} (dynamic buckets), and a commit of several tasks",
            expected="one writer at a time",
            action="Write from Python (Table.write), or make the table with a fixed number of buckets.",
        )


def check_has_key(schema: TableSchema) -> None:
    """Refuse append tables, whose rows have no key by which they could be found, merged or moved."""
    if not schema.has_key:
        raise UnsupportedError(
            "primary key",
            found="none (an append table)",
            expected="a table with a primary key",
            action="Scan the table, or read its changes. For rows that are found or replaced by a key, make a table "
            "with a primary key.",
        )


def check_key_has_partition(schema: TableSchema) -> None:
    """Refuse key lookups in tables whose key lacks the partition (cross-partition upsert)."""
    missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if missing and schema.has_key:
        raise UnsupportedError(
            "primary key",
            found=f"a key without the partition column {', '.join(missing)}",
            expected="a key with all partition columns; else a write may have to remove a row from another partition",
            action="Scan the table, and write it with another client.",
        )


def check_changelog_producer(schema: TableSchema) -> None:
    """Refuse a changelog that cannot be right.

    Rows that `sequence.field` orders stay unmerged until they are read. A merged row would have no single place in
    the order (docs/decisions/0002), so no compaction has the previous row. Raises InvalidError for ignored fields
    that are not columns.
    """
    options = schema.typed_options
    producer = options.get(opt.CHANGELOG_PRODUCER)
    stays_apart = engine_of(schema).partial_merge(schema, has_deletes=False) is PartialMerge.NEVER
    if producer in ("lookup", "full-compaction") and stays_apart:
        engine = options.get(opt.MERGE_ENGINE)
        raise UnsupportedError(
            f"option {opt.CHANGELOG_PRODUCER.key!r}",
            found=f"{producer!r} in a table with {opt.SEQUENCE_FIELD.key!r} and the merge engine {engine!r}",
            expected="a table without 'sequence.field', or functions that ignore the order (sum of integers, "
            "max, min, bool_and, bool_or, last_value), or the producer 'none' or 'input'",
            action="Order the columns by sequence groups (fields.<column>.sequence-group) instead.",
        )
    for name in options.get(opt.ROW_DEDUPLICATE_IGNORE_FIELDS):
        if name not in schema.by_name:
            raise InvalidError(
                f"option {opt.ROW_DEDUPLICATE_IGNORE_FIELDS.key!r}",
                found=f"{name!r}, which is not a column",
                expected="columns of the table",
                action="Correct the option's value.",
            )


def check_deletion_vectors(schema: TableSchema) -> None:
    """Refuse deletion vectors where a row above level 0 may not be the whole row of its key."""
    options = schema.typed_options
    if not options.get(opt.DELETION_VECTORS_ENABLED):
        return
    refused: dict[Option[Any], bool] = {
        opt.MERGE_ENGINE: engine_of(schema).stores_keys_once,
        opt.CHANGELOG_PRODUCER: options.get(opt.CHANGELOG_PRODUCER) == "full-compaction",
        opt.SEQUENCE_FIELD: engine_of(schema).partial_merge(schema, has_deletes=False)
        is PartialMerge.NEVER,
    }
    for option, is_refused in refused.items():
        if is_refused:
            raise UnsupportedError(
                f"option {option.key!r}",
                found=f"{schema.options[option.key]!r} with {opt.DELETION_VECTORS_ENABLED.key}=true",
                expected="another value, or a table without deletion vectors",
                action="Remove one of the two options.",
            )


def check_changelog_expires(schema: TableSchema) -> None:
    """Refuse a table whose expired changelog would have to be kept."""
    for key in _LONGER_CHANGELOG:
        if key in schema.options:
            raise UnsupportedError(
                f"option {key!r}",
                found=repr(schema.options[key]),
                expected="no such option; this version keeps a changelog as long as its snapshot",
                action="Remove the option, or let another client expire the snapshots of this table.",
            )


def is_auditable(schema: TableSchema) -> bool:
    """Return whether the files of a table lie in its bucket directories."""
    return _OTHER_DIRECTORY not in schema.options


def check_auditable(schema: TableSchema) -> None:
    """Refuse a table whose files the audit would not find."""
    if not is_auditable(schema):
        raise UnsupportedError(
            f"option {_OTHER_DIRECTORY!r}",
            found=repr(schema.options[_OTHER_DIRECTORY]),
            expected="a table with its files in its bucket directories",
            action="Audit the table with another client.",
        )


def _unsupported(subject: str, actual: str, expected: str) -> UnsupportedError:
    return UnsupportedError(
        subject,
        found=actual,
        expected=expected,
        action="Read the table with another client, or with a newer version.",
    )
