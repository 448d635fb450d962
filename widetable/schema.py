"""Table schemas: fields, keys, options, their JSON, and how one schema's columns map to another's.

Source: Paimon `TableSchema`, `Schema`, `SchemaEvolutionUtil`; format.md section 2. No I/O here: `commit.schema_store`
reads and writes the files. Raises InvalidError for schemas that break a rule, DamagedError for JSON that is no schema,
UnsupportedError for a newer format version.
Rules of one merge engine are not here but in its file under `merge/`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from widetable import options as opt
from widetable.arguments import names, refused, text
from widetable.derived_value import derived_value
from widetable.errors import DamagedError, InvalidError, NotFoundError, UnsupportedError
from widetable.field_options import field_option_columns, sequence_group_options
from widetable.option_checks import check_values, option_texts
from widetable.options import TableOptions
from widetable.paths import partition_directory
from widetable.types import (
    DataField,
    DataType,
    arrow_field,
    arrow_type,
    assign_field_ids,
    field_from_json,
    field_to_json,
    parse_type,
    type_from_arrow,
)

SCHEMA_VERSION: Final = 3
# On disk: never change.
UUID_KEY: Final = "widetable.uuid"
SEQUENCE_NUMBER: Final = "_SEQUENCE_NUMBER"
VALUE_KIND: Final = "_VALUE_KIND"
# Of an Arrow field that was given by a type's text; never on disk.
_TYPE_TEXT: Final = "widetable.type"
SYSTEM_FIELD_ID: Final = 1073741823
RESERVED_NAMES: Final = frozenset({SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID"})
KEY_PREFIX: Final = "_KEY_"


@dataclass(frozen=True)
class SequenceGroup:
    """Sequence columns (in the order of the option key) and the columns that they protect."""

    sequence: tuple[str, ...]
    protected: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the group, sequence columns first, each once."""
        return tuple(dict.fromkeys(self.sequence + self.protected))


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema, immutable. `fields` are in column order; options are string to string.

    uuid: of the first schema of a table made here, on disk under `widetable.uuid`, which other clients skip.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    uuid: str | None = None

    @derived_value
    def typed_options(self) -> TableOptions:
        return TableOptions(self.options)

    @derived_value
    def by_name(self) -> dict[str, DataField]:
        return {f.name: f for f in self.fields}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> DataField:
        found = self.by_name.get(name)
        if found is None:
            raise NotFoundError(
                f"column {name!r}",
                found="no such column",
                expected=f"one of {', '.join(self.names)}",
                action="Correct the name.",
            )
        return found

    def chosen(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that a reader asks for, in the order wanted; None: all. Raises InvalidError, NotFoundError."""
        if columns is None:
            return self.names
        return tuple(self.field(name).name for name in names(columns, "columns"))

    @property
    def trimmed_primary_key(self) -> tuple[str, ...]:
        """Primary key without partition columns, in primary key order: what files are sorted by
        (format.md section 2).
        """
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        return self.typed_options.get(opt.BUCKET_KEY) or self.trimmed_primary_key

    @property
    def num_buckets(self) -> int:
        """-1: dynamic, as in Paimon where nothing is said; -2: postponed (`check_fixed_buckets`)."""
        return self.typed_options.get(opt.BUCKET)

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        return self.typed_options.get(opt.SEQUENCE_FIELD)

    @derived_value
    def sequence_groups(self) -> tuple[SequenceGroup, ...]:
        return tuple(SequenceGroup(s, p) for s, p in sequence_group_options(self.options))

    @property
    def required_names(self) -> tuple[str, ...]:
        """Columns that every written row must carry: the key and all other NOT NULL columns, in column order."""
        return tuple(f.name for f in self.fields if not f.type.nullable)

    def arrow_schema(self, names: Sequence[str] | None = None) -> pa.Schema:
        chosen = self.fields if names is None else [self.field(name) for name in names]
        return pa.schema([arrow_field(f) for f in chosen])

    def to_json(self) -> str:
        body: dict[str, Any] = {
            "version": SCHEMA_VERSION,
            "id": self.id,
            "fields": [field_to_json(f) for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
            "comment": self.comment,
            "timeMillis": self.time_millis,
            UUID_KEY: self.uuid,
        }
        for key in ("comment", UUID_KEY):
            if body[key] is None:
                del body[key]
        return json.dumps(body, indent=2, ensure_ascii=False)


def schema_from_json(data: str | bytes, subject: str) -> TableSchema:
    """Parse a schema file. subject: its path, for messages. Unknown keys are skipped, as Paimon does."""
    try:
        body = json.loads(data)
        version = int(body.get("version", 1))
    except (ValueError, AttributeError, TypeError, RecursionError) as cause:
        raise _damaged(subject, "bytes that are no schema JSON") from cause
    if version > SCHEMA_VERSION:
        raise UnsupportedError(
            subject,
            found=f"schema version {version}",
            expected=f"at most {SCHEMA_VERSION}",
            action="Use a newer version of this package.",
        )
    try:
        return TableSchema(
            id=int(body["id"]),
            fields=tuple(field_from_json(f) for f in body["fields"]),
            highest_field_id=int(body["highestFieldId"]),
            partition_keys=tuple(body["partitionKeys"]),
            primary_keys=tuple(body["primaryKeys"]),
            options={str(k): str(v) for k, v in body["options"].items()},
            comment=body.get("comment"),
            time_millis=int(body.get("timeMillis") or 0),
            uuid=body.get(UUID_KEY),
        )
    except InvalidError as cause:
        raise _damaged(subject, f"{cause.subject}: {cause.found}") from cause
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise _damaged(subject, f"a schema without a right {cause}") from cause


def _damaged(subject: str, found: str) -> DamagedError:
    return DamagedError(
        subject,
        found=found,
        expected="a Paimon schema file",
        action="Restore the file from a copy of the table.",
    )


def new_schema(
    arrow: pa.Schema,
    *,
    primary_key: Sequence[str],
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """Schema 0 of a new table. Key columns become NOT NULL; nested fields are numbered after the columns' parents.

    Raises InvalidError for unknown, repeated or reserved names and for types that cannot be a key.
    """
    primary_key = names(primary_key, "primary_key")
    next_id, fields = 0, []
    for column in arrow_schema(arrow, "schema"):
        nullable = column.nullable and column.name not in primary_key
        parent_id, next_id = next_id, next_id + 1
        numbered, next_id = assign_field_ids(column_type(column, nullable=nullable), next_id)
        fields.append(DataField(parent_id, column.name, numbered))
    schema = TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=next_id - 1,
        partition_keys=names(partition_by, "partition_by"),
        primary_keys=primary_key,
        options={**opt.WRITTEN_OUT, **option_texts(options, "options")},
        comment=None if comment is None else text(comment, "comment"),
        time_millis=int(time.time() * 1000),
        uuid=str(uuid.uuid4()),
    )
    check_schema(schema)
    return schema


def arrow_schema(value: Any, name: str) -> pa.Schema:
    """An Arrow schema, or what makes one: fields, (name, type) pairs, a dict of names to types. A type may be a text of
    Paimon's SQL, such as VARCHAR(100) NOT NULL.
    """
    try:
        if isinstance(value, pa.Schema):
            return value
        columns = value.items() if isinstance(value, Mapping) else value
        return pa.schema([_arrow_column(column) for column in columns])
    except (pa.ArrowException, TypeError, ValueError):
        raise refused(
            value, name, "a pyarrow.Schema, fields, or a dict of names to types"
        ) from None


def _arrow_column(column: Any) -> Any:
    """What `pa.schema` takes. A type that was given as text goes along with its field."""
    if isinstance(column, pa.Field):
        return column
    name, kind = column
    if not isinstance(kind, str):
        return column
    parsed = parse_type(kind)
    return pa.field(name, arrow_type(parsed), parsed.nullable, {_TYPE_TEXT: kind})


def column_type(column: pa.Field, *, nullable: bool) -> DataType:
    """The type of a new column. Raises UnsupportedError naming it."""
    asked = (column.metadata or {}).get(_TYPE_TEXT.encode())
    if asked is not None:
        return replace(parse_type(asked.decode()), nullable=nullable)
    try:
        return type_from_arrow(column.type, nullable=nullable)
    except UnsupportedError as cause:
        raise UnsupportedError(
            f"column {column.name!r}",
            found=f"{cause.subject}: {cause.found}",
            expected=cause.expected,
            action=cause.action,
        ) from cause


def check_schema(schema: TableSchema) -> None:
    """Rules that hold for every table, whatever its merge engine. Raises InvalidError or UnsupportedError."""
    _check_texts(schema)
    _check_names(schema)
    _check_keys(schema)
    check_values(schema.options)
    for key, column in field_option_columns(schema.options):
        if column not in schema.by_name:
            raise _invalid(
                f"option {key!r}",
                f"the column {column!r}",
                f"one of {', '.join(schema.names)}",
                "Correct the column's name.",
            )
    _check_bucket(schema)
    _check_sequence_fields(schema)
    _check_rowkind_field(schema)


def _check_texts(schema: TableSchema) -> None:
    """Half of a surrogate pair stands for no character: no file can hold it."""
    try:
        schema.to_json().encode()
    except UnicodeEncodeError as cause:
        raise _invalid(
            "table schema",
            f"a name, option or comment with {cause.object[cause.start]!r}",
            "texts that are Unicode",
            "Correct the text.",
        ) from cause


def _check_names(schema: TableSchema) -> None:
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise _invalid(
                f"column {name!r}", "the name twice", "each column once", "Rename one of them."
            )
        if "\0" in name:  # Arrow's C interface ends a name there
            raise _invalid(f"column {name!r}", "NUL in the name", "no NUL", "Rename the column.")
        if name in RESERVED_NAMES or name.startswith(KEY_PREFIX) or not name:
            raise _invalid(
                f"column {name!r}", "a reserved name", "another name", "Rename the column."
            )
        seen.add(name)


def _check_keys(schema: TableSchema) -> None:
    if not schema.primary_keys:
        raise _invalid(
            "primary_key",
            "no column",
            "one column or more",
            "Name the columns that identify a row.",
        )
    for what, keys in (
        ("primary_key", schema.primary_keys),
        ("partition_by", schema.partition_keys),
    ):
        if len(set(keys)) != len(keys):
            raise _invalid(
                what,
                f"a column twice in {list(keys)}",
                "each column once",
                "Name each column once.",
            )
        for name in keys:
            if name not in schema.by_name:
                raise _invalid(
                    what,
                    f"the column {name!r}",
                    f"one of {', '.join(schema.names)}",
                    "Correct the column's name.",
                )
            if schema.field(name).type.is_nested:
                raise _invalid(
                    f"column {name!r}",
                    f"the type {schema.field(name).type} in a key",
                    "a plain type",
                    "Use another key column.",
                )
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if outside:
        raise UnsupportedError(
            "primary_key",
            found=f"a key without the partition columns {outside}",
            expected="all partition columns in the primary key",
            action="Add them to the primary key.",
        )
    for name in schema.partition_keys:
        partition_directory(name, schema.typed_options.get(opt.PARTITION_DEFAULT_NAME))
    if not schema.trimmed_primary_key:
        raise _invalid(
            "primary_key",
            "only partition columns",
            "one more column",
            "Add a column that tells rows of a partition apart.",
        )


def check_fixed_buckets(schema: TableSchema) -> None:
    """Refuse dynamic buckets for what has to know the bucket of a key. Raises UnsupportedError."""
    if schema.num_buckets < 1:
        found = schema.options.get(opt.BUCKET.key, f"no such option, which is {schema.num_buckets}")
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"{found} (dynamic or postponed buckets, where any bucket may have a key)",
            expected="a fixed number, 1 or more",
            action="Use another client, or read without naming keys. If widetable alone wrote the table, before it "
            "noted this option: Catalog.alter_table(name, set_options={'bucket': '1'}).",
        )


def _check_bucket(schema: TableSchema) -> None:
    check_fixed_buckets(schema)
    for name in schema.bucket_keys:
        if name not in schema.trimmed_primary_key:
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


def _check_sequence_fields(schema: TableSchema) -> None:
    names = schema.sequence_fields
    for name in names:
        if name not in schema.by_name:
            raise _invalid(
                "option 'sequence.field'",
                f"the column {name!r}",
                f"one of {', '.join(schema.names)}",
                "Correct the name.",
            )
        if f"fields.{name}.aggregate-function" in schema.options:
            raise _invalid(
                "option 'sequence.field'",
                f"{name!r} with an aggregate function",
                "a column without one",
                "Remove the function.",
            )
    if len(set(names)) != len(names):
        raise _invalid(
            "option 'sequence.field'",
            f"a column twice in {list(names)}",
            "each column once",
            "Name each column once.",
        )


def _check_rowkind_field(schema: TableSchema) -> None:
    name = schema.typed_options.get(opt.ROWKIND_FIELD)
    if name is None:
        return
    if name not in schema.by_name:
        raise _invalid(
            "option 'rowkind.field'",
            f"the column {name!r}",
            f"one of {', '.join(schema.names)}",
            "Correct the name.",
        )
    if schema.field(name).type.root not in ("VARCHAR", "CHAR"):
        raise _invalid(
            "option 'rowkind.field'",
            f"a column of type {schema.field(name).type}",
            "a STRING column",
            "Use a STRING column.",
        )


def _invalid(subject: str, found: str, expected: str, action: str) -> InvalidError:
    return InvalidError(subject, found=found, expected=expected, action=action)


def file_column(table_field: DataField, file_schema: TableSchema) -> DataField | None:
    """The column of a data file that holds `table_field`: matched by id, never by name; None when the file has none.

    file_schema: the schema that the file's `_SCHEMA_ID` names (format.md section 2, T15).
    """
    for candidate in file_schema.fields:
        if candidate.id == table_field.id:
            return candidate
    return None
