"""Table schemas: fields, keys, options, their JSON, and the mapping of columns between schemas.

Source: Paimon `TableSchema`, `Schema`, `SchemaEvolutionUtil`; format.md section 2. No I/O here: `commit.schema_store`
reads and writes the files. Raises InvalidError for schemas that break a rule, DamagedError for invalid schema JSON,
UnsupportedError for a newer format version.
Rules of one merge engine are in its file under `merge/`.

    option                            derived from it, at the first use, and cached
    bucket, bucket-key                num_buckets, bucket_keys
    sequence.field                    sequence_fields
    fields.<s>.sequence-group         sequence_groups

An object is one version and never changes; `alter_table` creates another one. Rows of any age are read
with the newest version: a data file names the schema with which it was written, and its columns are
found by their ids (`file_column`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import names
from widetable.errors import DamagedError, InvalidError, NotFoundError, UnsupportedError
from widetable.messages.error_code import ErrorCode
from widetable.runtime.collector_pause import collector_paused
from widetable.runtime.derived_value import derived_value
from widetable.schema import options as opt
from widetable.schema.field_options import sequence_group_options
from widetable.schema.options import TableOptions
from widetable.schema.types import (
    DataField,
    arrow_field,
    field_from_json,
    field_to_json,
)
from widetable.storage.paths import POSTPONED

# The version of the JSON that Paimon writes now; versions 1 and 2 can be read (`schema_from_json`).
SCHEMA_VERSION: Final = 3
# On disk: never change.
UUID_KEY: Final = "widetable.uuid"
SEQUENCE_NUMBER: Final = "_SEQUENCE_NUMBER"
VALUE_KIND: Final = "_VALUE_KIND"
# The first of Paimon's ids of system columns: Integer.MAX_VALUE / 2.
SYSTEM_FIELD_ID: Final = 1073741823
# The row kind of written rows, and of changes.
ROW_KIND_COLUMN: Final = "_row_kind"
# Names of system columns of data files and change feeds (Paimon `SpecialFields`), and of our own.
RESERVED_NAMES: Final = frozenset(
    {SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID", ROW_KIND_COLUMN}
)
# The number of parsed schemas that are cached, by the bytes of their files.
_PARSED: Final = 32
# Derived values of parsed schemas that are cached with them: small ones, which nobody changes.
_OF_COLUMNS: Final = ("by_name", "by_id", "column_ids", "names", "place_of", "required_names")
# The prefix of the second copy of a key column in a data file.
KEY_PREFIX: Final = "_KEY_"


@dataclass(frozen=True)
class SequenceGroup:
    """Sequence columns (in the order of the option key) and the columns that they protect.

    Protected columns are listed as in the option; an aggregate function of one is a separate option, and
    a sequence column may be among them. `merge/` defines the semantics of a group.
    """

    sequence: tuple[str, ...]
    protected: tuple[str, ...]

    @property
    def option(self) -> str:
        """The key of the option that defines the group."""
        return f"fields.{','.join(self.sequence)}.sequence-group"

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the group, sequence columns first, each once."""
        return tuple(dict.fromkeys(self.sequence + self.protected))


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema, immutable. `fields` are in column order; options are string to string.

    uuid: that of the first schema of a table created here, on disk under `widetable.uuid`, which other clients ignore.

    id: 0, 1, ..: the number in the file's name. highest_field_id: that of all versions so far; a new column gets the
    next id, so the id of a dropped column is never reused. primary_keys: () for an append table (`has_key`). options:
    as on disk, with Paimon's old keys; code uses `typed_options`. time_millis: creation time, epoch. digest: that of
    the bytes of its file, to tell it from another schema with its id; None: it was not read from a file.
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
    digest: str | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without derived values, which are computed again on use. Schemas travel with each task: a
        pickler takes an object for each column ten times as long as a tuple.
        """
        state = {each.name: getattr(self, each.name) for each in dataclass_fields(self)}
        columns = [(f.id, f.name, f.type, f.description, f.default) for f in self.fields]
        return {**state, "fields": columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fields = tuple(DataField(*column) for column in state["fields"])
        self.__dict__.update({**state, "fields": fields})

    @derived_value
    def typed_options(self) -> TableOptions:
        """The typed values of `options`. A wrong text raises InvalidError when it is read, not before."""
        return TableOptions(self.options)

    @derived_value
    def by_name(self) -> dict[str, DataField]:
        return {f.name: f for f in self.fields}

    @derived_value
    def by_id(self) -> dict[int, DataField]:
        """The columns by field id, which a renamed column keeps."""
        return {f.id: f for f in self.fields}

    @derived_value
    def column_ids(self) -> dict[str, int]:
        """The field ids by name, in column order."""
        return {f.name: f.id for f in self.fields}

    @derived_value
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @derived_value
    def place_of(self) -> dict[str, int]:
        """The places of the columns by name, from 0, in column order."""
        return {f.name: place for place, f in enumerate(self.fields)}

    @derived_value
    def _arrow_fields(self) -> dict[str, pa.Field]:
        """The cached Arrow fields by name. Creating thousands would cost a read of two columns more than its rows."""
        return {}

    def arrow_field(self, name: str) -> pa.Field:
        """Return the column's name, Arrow type and nullability. Raises NotFoundError."""
        cached = self._arrow_fields.get(name)
        if cached is None:
            cached = self._arrow_fields[name] = arrow_field(self.field(name))
        return cached

    def field(self, name: str) -> DataField:
        """Return the column. Raises NotFoundError."""
        column = self.by_name.get(name)
        if column is None:
            raise self._no_column(name)
        return column

    def chosen(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the requested columns, in their order; None: all. Raises InvalidError, NotFoundError."""
        if columns is None:
            return self.names
        return tuple(self.field(name).name for name in names(columns, "columns"))

    @property
    def has_key(self) -> bool:
        """Whether rows have a key by which they are merged. False for an append table, which keeps each row that is
        written.
        """
        return bool(self.primary_keys)

    @property
    def has_free_rows(self) -> bool:
        """Whether any file of a partition may hold any row: append tables without a number of buckets. All files of a
        partition are in bucket 0 then, and their rows have no order.
        """
        return not self.has_key and self.num_buckets == -1

    @derived_value
    def trimmed_primary_key(self) -> tuple[str, ...]:
        """The primary key without partition columns, in primary key order: the sort order of files
        (format.md section 2).
        """
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @derived_value
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that are hashed, in this order: option `bucket-key`, else the trimmed key."""
        return self.typed_options.get(opt.BUCKET_KEY) or self.trimmed_primary_key

    @derived_value
    def num_buckets(self) -> int:
        """The number of buckets. -1: dynamic, or none in an append table; -2: postponed (`check_fixed_buckets`)."""
        return self.typed_options.get(opt.BUCKET)

    @derived_value
    def postpones_buckets(self) -> bool:
        """Whether rows are written without a bucket, and a compaction gives them one (`bucket` = -2)."""
        return self.has_key and self.num_buckets == POSTPONED

    @derived_value
    def sequence_fields(self) -> tuple[str, ...]:
        return self.typed_options.get(opt.SEQUENCE_FIELD)

    @derived_value
    def sequence_groups(self) -> tuple[SequenceGroup, ...]:
        """The sequence groups in the order of their options, unchecked: `merge.option_rules` refuses invalid ones."""
        return tuple(SequenceGroup(s, p) for s, p in sequence_group_options(self.options))

    def groups_of(self, columns: Iterable[str]) -> list[SequenceGroup]:
        """Return the sequence groups that contain any of these columns, in the order of their options."""
        numbers = {number for name in columns for number in self._groups_by_column.get(name, ())}
        return [self.sequence_groups[number] for number in sorted(numbers)]

    @derived_value
    def _groups_by_column(self) -> dict[str, list[int]]:
        """The numbers of the sequence groups of each column."""
        numbers: dict[str, list[int]] = {}
        for number, group in enumerate(self.sequence_groups):
            for name in group.columns:
                numbers.setdefault(name, []).append(number)
        return numbers

    @derived_value
    def required_names(self) -> tuple[str, ...]:
        """The columns that every written row must have: the key and all other NOT NULL columns, in column order."""
        return tuple(f.name for f in self.fields if not f.type.nullable)

    def arrow_schema(self, names: Sequence[str] | None = None) -> pa.Schema:
        """Return columns, types and nullability; names: only these columns, in this order. Raises NotFoundError."""
        if names is None or names == self.names:
            return self._whole_arrow_schema
        return pa.schema([self.arrow_field(name) for name in names])

    @derived_value
    def _whole_arrow_schema(self) -> pa.Schema:
        with collector_paused():
            fields = [arrow_field(f) for f in self.fields]
            self._arrow_fields.update(zip(self.names, fields, strict=True))
            return pa.schema(fields)

    def _no_column(self, name: str) -> NotFoundError:
        return NotFoundError(
            f"column {name!r}",
            found="no such column",
            expected=f"one of {', '.join(self.names)}",
            action="Correct the name.",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )

    def to_json(self) -> str:
        """Return the text of the schema file, without keys that have no value. `schema_from_json` parses it.

            {"version": 3, "id": 0,
             "fields": [{"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
                        {"id": 1, "name": "v", "type": "INT"}],
             "highestFieldId": 1, "partitionKeys": [], "primaryKeys": ["id"],
             "options": {"bucket": "1"}, "timeMillis": 1795752532406,
             "widetable.uuid": "69ce8404-0fa2-401e-aae1-d23b4deda108"}

        The text is indented over several lines; its Unicode is not escaped, and must be written in UTF-8.
        """
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
    """Parse a schema file. subject: its path, for messages. Unknown keys are ignored, as Paimon does.

    Raises UnsupportedError for a later version of the format and for unsupported types, DamagedError
    for all other errors. The rules of `schema_rules` are not checked: a schema of another client is
    read as it is. Recently parsed schemas are cached with what is derived from their columns: so a table with thousands
    of columns is opened without work for each of them.
    """
    parsed = _parsed(data.encode() if isinstance(data, str) else data, subject)
    schema = replace(parsed)
    schema.__dict__.update((name, getattr(parsed, name)) for name in _OF_COLUMNS)
    return schema


# When a table is opened, its identity and its columns come from the same bytes, one after the other.
@lru_cache(maxsize=1)
def schema_body(data: bytes) -> Any:
    """Parse the JSON of a schema file; nobody changes the result. Raises ValueError, RecursionError."""
    return json.loads(data)


@lru_cache(maxsize=_PARSED)
def _parsed(data: bytes, subject: str) -> TableSchema:
    try:
        body = schema_body(data)
        # Paimon's first schemas have no version. RecursionError: JSON that is nested too deep.
        version = int(body.get("version", 1))
    except (ValueError, AttributeError, TypeError, RecursionError) as cause:
        raise _damaged(subject, "bytes that are not schema JSON") from cause
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
            fields=_fields(body["fields"]),
            highest_field_id=int(body["highestFieldId"]),
            partition_keys=tuple(body["partitionKeys"]),
            primary_keys=tuple(body["primaryKeys"]),
            options={str(k): str(v) for k, v in body["options"].items()},
            comment=body.get("comment"),
            time_millis=int(body.get("timeMillis") or 0),
            uuid=body.get(UUID_KEY),
            digest=_digest(data),
        )
    except InvalidError as cause:  # a type's text, which the caller has not passed
        raise _damaged(subject, f"{cause.subject}: {cause.found}") from cause
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise _damaged(subject, f"a schema with a missing or wrong {cause}") from cause


def _fields(body: list[dict[str, Any]]) -> tuple[DataField, ...]:
    with collector_paused():
        return tuple(map(field_from_json, body))


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# The subject is the path of the file.
def _damaged(subject: str, problem: str) -> DamagedError:
    return DamagedError(
        subject,
        found=problem,
        expected="a Paimon schema file",
        action="Restore the file from a copy of the table.",
    )


def file_column(table_field: DataField, file_schema: TableSchema) -> DataField | None:
    """Return the column of a data file with `table_field`, matched by id, never by name; None if the file has none.

    file_schema: the schema of the file's `_SCHEMA_ID` (format.md section 2, T15).

        schema 0    id 0, city 1           a file of it has a column `city`
        schema 1    id 0, town 1           town of that file is its column `city`
        schema 2    id 0, city 2           city of that file is None: a new column with an old name
    """
    return file_schema.by_id.get(table_field.id)
