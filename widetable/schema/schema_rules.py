"""Checks the rules of every table, whatever its merge engine (those of one engine: merge/option_rules).

In: a schema. Raises InvalidError for names, keys and options that break a rule, UnsupportedError for buckets that this
version cannot write.

    subject         rule
    texts           Unicode that a file can hold
    columns         each name once, none reserved in any case, none empty, none with NUL
    primary key     one column or more, of plain types; at least one that is not a partition column
    partition       columns of the primary key, whose values fit into names of directories
    options         texts of their kinds; columns that they name exist (`fields.*`, sequence, row kind)
    buckets         fixed, or dynamic; keys that are hashed are part of the trimmed primary key

`acceptance` says when each is checked. A check relies on those above it there: texts can be shown, names are unique,
keys are columns, options have values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.schema import options as opt
from widetable.schema.field_options import field_option_columns
from widetable.schema.partition_time import check_pattern, time_form
from widetable.schema.retention_options import (
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from widetable.schema.table_schema import KEY_PREFIX, RESERVED_NAMES, TableSchema
from widetable.storage.paths import partition_directory

# Spark compares names without their case.
_RESERVED: Final = frozenset(name.lower() for name in RESERVED_NAMES)
_WITHOUT_A_NUMBER: Final = {
    -1: "dynamic buckets, which grow by themselves",
    -2: "postponed buckets: a partition keeps the number that its first rows got",
}


def check_texts(schema: TableSchema) -> None:
    """Refuse half of a surrogate pair: it is not a character, and cannot be stored in a file."""
    try:
        schema.to_json().encode()
    except UnicodeEncodeError as cause:
        raise _invalid(
            "table schema",
            f"a name, option or comment with {cause.object[cause.start]!r}",
            "texts that are Unicode",
            "Correct the text.",
        ) from cause


def check_names(schema: TableSchema) -> None:
    """Check the names of columns. They are case-sensitive: `a` and `A` are two."""
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise _invalid(
                f"column {name!r}", "the name twice", "each column once", "Rename one of them."
            )
        if "\0" in name:  # NUL ends a name in Arrow's C interface
            raise _invalid(f"column {name!r}", "NUL in the name", "no NUL", "Rename the column.")
        if not name:
            raise _invalid("column ''", "an empty name", "a name", "Name the column.")
        seen.add(name)


def check_reserved(schema: TableSchema, before: TableSchema | None) -> None:
    """Refuse names, in any case, of system columns of data files, writes, changes and lookups by prefix, because the
    two columns would be indistinguishable. A table that already has such a column can still be altered.
    """
    present = {} if before is None else before.by_name
    for name in schema.names:
        lower = name.lower()
        if name not in present and (lower in _RESERVED or lower.startswith(KEY_PREFIX.lower())):
            raise _invalid(
                f"column {name!r}",
                "a reserved name",
                f"a name other than {', '.join(sorted(RESERVED_NAMES))} and {KEY_PREFIX}.., in any case",
                "Rename the column.",
            )


def check_keys(schema: TableSchema) -> None:
    """Check the primary key and the partition columns.

    With a partition column outside of the key, one key could have rows in several partitions. Paimon
    calls this cross-partition updates, and uses a global index for it: UnsupportedError. An append table has no key.
    """
    for what, keys in (
        ("primary_key", schema.primary_keys),
        ("partition_by", schema.partition_keys),
    ):
        _check_once(what, keys)
        for name in keys:
            _check_there(schema, what, name, "Correct the column's name.")
            if schema.field(name).type.is_nested:
                raise _invalid(
                    f"column {name!r}",
                    f"the type {schema.field(name).type} in a key",
                    "a plain type",
                    "Use another key column.",
                )
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if outside and schema.has_key:
        raise UnsupportedError(
            "primary_key",
            found=f"a key without the partition columns {outside}",
            expected="all partition columns in the primary key",
            action="Add them to the primary key.",
        )
    # Every partition column must have a valid directory for the default value; directories of other
    # values are checked with each batch.
    for name in schema.partition_keys:
        partition_directory(name, schema.typed_options.get(opt.PARTITION_DEFAULT_NAME))
    if schema.has_key and not schema.trimmed_primary_key:
        raise _invalid(
            "primary_key",
            "only partition columns",
            "one more column",
            "Add a column that distinguishes the rows of a partition.",
        )


def check_field_options(schema: TableSchema) -> None:
    """Check that the columns exist that options of columns name."""
    for key, column in field_option_columns(schema.options):
        _check_there(schema, f"option {key!r}", column, "Correct the column's name.")


def check_partition_times(schema: TableSchema) -> None:
    """Check the pattern and the form of the times of partitions: otherwise their expiry would fail later."""
    time_form(schema.typed_options.get(PARTITION_TIMESTAMP_FORMATTER))
    check_pattern(schema.typed_options.get(PARTITION_TIMESTAMP_PATTERN), schema.partition_keys)


def check_fixed_buckets(schema: TableSchema, count: int | None = None) -> None:
    """Refuse dynamic buckets for operations that need the bucket of a key. Raises UnsupportedError.

    A fixed number, 1 or more, is accepted; -1 (dynamic), -2 (postponed) and other values are not. count: the number of
    a file; None: the table's.
    """
    number = schema.num_buckets if count is None else count
    if number >= 1:
        return
    meaning = _WITHOUT_A_NUMBER.get(number, "no number of buckets")
    actual = f"{number} ({meaning})"
    action = "For another number of buckets, create a table with it and copy the rows."
    if count is None and opt.BUCKET.key not in schema.options:
        actual = f"no such option, which is {actual}"
        action += (
            " If only widetable wrote the table, before it recorded this option: "
            "Catalog.alter_table(name, set_options={'bucket': '1'})."
        )
    raise UnsupportedError(
        f"option {opt.BUCKET.key!r}",
        found=actual,
        expected="a fixed number, 1 or more",
        action=action,
    )


def check_bucket_number(schema: TableSchema) -> None:
    """Check that the number of buckets is fixed, dynamic or postponed: others have no meaning. Rows of postponed
    buckets have no order until they are in one, so no changelog can be made of them as they are written.
    """
    if schema.postpones_buckets:
        if schema.typed_options.get(opt.CHANGELOG_PRODUCER) == "input":
            raise UnsupportedError(
                f"option {opt.CHANGELOG_PRODUCER.key!r}",
                found="'input' with bucket = -2 (postponed buckets)",
                expected="another producer",
                action="Use the producer lookup or full-compaction, which emits rows as they get into buckets.",
            )
    elif schema.num_buckets < 1 and schema.num_buckets != -1:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=str(schema.num_buckets),
            expected="a number from 1 on, -1 for dynamic buckets, or with a primary key -2 for postponed ones",
            action="Set one of these.",
        )


def check_bucket_keys(schema: TableSchema) -> None:
    """Check the columns that are hashed. All rows of a key must be in one bucket, so these belong to the key,
    but not to the partition, where their values are constant. `mod` takes the remainder of a single number.
    """
    if not schema.has_key:
        _check_bucket_keys_of_append(schema)
    elif schema.num_buckets == -1 and opt.BUCKET_KEY.key in schema.options:
        raise _invalid(
            f"option {opt.BUCKET_KEY.key!r}",
            "dynamic buckets (bucket = -1)",
            "a fixed number of buckets",
            "Remove it: dynamic buckets use the whole key.",
        )
    for name in schema.bucket_keys:
        if schema.has_key and name not in schema.trimmed_primary_key:
            raise _invalid(
                "option 'bucket-key'",
                f"the column {name!r}",
                f"columns of {schema.trimmed_primary_key}",
                "Choose among these.",
            )
    if schema.typed_options.get(opt.BUCKET_FUNCTION) == "mod":
        types = [schema.field(name).type.root for name in schema.bucket_keys]
        if len(types) != 1 or types[0] not in ("INT", "BIGINT"):
            raise _invalid(
                "option 'bucket-function.type'",
                f"mod over {types}",
                "a single INT or BIGINT bucket key",
                "Use `default`.",
            )


def _check_bucket_keys_of_append(schema: TableSchema) -> None:
    """Check the bucket key of an append table: it has one if, and only if, it has buckets."""
    option = f"option {opt.BUCKET_KEY.key!r}"
    if bool(schema.bucket_keys) != (schema.num_buckets > 0):
        has_buckets = schema.num_buckets > 0
        raise _invalid(
            option,
            "no column" if has_buckets else f"{list(schema.bucket_keys)}, and bucket = -1",
            "columns whose values say in which bucket a row lies"
            if has_buckets
            else "no bucket key",
            "Name them, or set bucket = -1: an append table has buckets and their key, or neither.",
        )
    _check_once(option, schema.bucket_keys)
    for name in schema.bucket_keys:
        _check_there(schema, option, name, "Correct the column's name.")
        if name in schema.partition_keys or schema.field(name).type.is_nested:
            kind = "a partition column" if name in schema.partition_keys else "a nested type"
            raise _invalid(
                option, f"{name!r}, {kind}", "plain columns besides the partition", "Choose others."
            )


def check_sequence_fields(schema: TableSchema) -> None:
    """Check the sequence fields. They keep the last value: a function that changed it would change the order."""
    names = schema.sequence_fields
    for name in names:
        _check_there(schema, "option 'sequence.field'", name, "Correct the name.")
        if f"fields.{name}.aggregate-function" in schema.options:
            raise _invalid(
                "option 'sequence.field'",
                f"{name!r} with an aggregate function",
                "a column without one",
                "Remove the function.",
            )
    _check_once("option 'sequence.field'", names)


def check_rowkind_field(schema: TableSchema) -> None:
    """Check that the row kind column is a text: CHAR or VARCHAR of any length."""
    name = schema.typed_options.get(opt.ROWKIND_FIELD)
    if name is None:
        return
    _check_there(schema, "option 'rowkind.field'", name, "Correct the name.")
    if schema.field(name).type.root not in ("VARCHAR", "CHAR"):
        raise _invalid(
            "option 'rowkind.field'",
            f"the column {name!r} of type {schema.field(name).type}",
            "a STRING column",
            "Use a STRING column.",
        )


def _check_there(schema: TableSchema, subject: str, name: str, action: str) -> None:
    if name not in schema.by_name:
        expected = f"one of {', '.join(schema.names)}"
        raise _invalid(subject, f"the column {name!r}", expected, action)


def _check_once(subject: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise _invalid(
            subject,
            f"a column twice in {list(names)}",
            "each column once",
            "Name each column once.",
        )


# All callers pass these in this order: subject, what was found, what is expected, what to do.
def _invalid(subject: str, problem: str, expected: str, action: str) -> InvalidError:
    return InvalidError(subject, found=problem, expected=expected, action=action)
