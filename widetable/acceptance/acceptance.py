"""The list of what is refused, and when: each check once, with the uses for which it is made, in the only order.

    accept(schema, Use.CREATE)                                before schema 0 is published
    accept(new, Use.ALTER, before=old, given=set_options)     before the next schema is published
    accept(schema, Use.WRITE)                                 before an operation

A check relies on those above it: names are unique before columns are looked for, options have values before an engine
uses them. A check is a pure function of schemas and options, which returns or raises. No other module calls one, but
for `engine_of`, which returns the engine, and `bucket_ids` (decision 0068). What depends on other tables, or on the
columns that are written, is not in this list. docs/refusals.md is generated from it. Raises what the checks raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

from widetable.acceptance import (
    append_rules,
    barrier_rules,
    derived_rules,
    function_change,
    order_change,
    supported,
)
from widetable.errors import WidetableError
from widetable.format.partition_value import check_partition_types
from widetable.merge.engine import check_used, engine_of
from widetable.merge.record_expiry import check_record_expiry
from widetable.merge.record_order import check_ordered
from widetable.merge.widened_rules import check_widened
from widetable.runtime.derived_value import once_per_object
from widetable.schema import option_checks, schema_rules
from widetable.schema import options as opt
from widetable.schema.derived_options import check_indexes
from widetable.schema.file_index_options import check_file_indexes
from widetable.schema.table_schema import TableSchema
from widetable.schema.tag_rule import check_zone


class Use(Enum):
    """A use of a table. The values are its word in docs/refusals.md, and what happens."""

    CREATE = "create", "A table is created."
    ALTER = "alter", "Columns or options are altered."
    READ = "read", "Rows or changes are read."
    LOOK_UP = "look up", "Rows are found, or explained, by their key."
    MAINTAIN = (
        "maintain",
        "Files are compacted, expired, cleaned or repaired, or a commit replaces them.",
    )
    WRITE = "write", "Rows are written, by a user or by the maintainer of derived tables."
    WRITE_IN_TASKS = "write in tasks", "Several tasks write rows of one commit, as Spark's do."
    TAKE_ROWS = "take rows", "A user writes, deletes, restores or expires rows."
    TAKE_UNNAMED_ROWS = (
        "take unnamed rows",
        "A user appends rows without a writer (`Catalog.writer`).",
    )
    REPLACE = (
        "replace",
        "Rows are overwritten, moved or reset, as by a rollback or a rescaling.",
    )
    RESCALE = "rescale", "The number of buckets is changed."
    JOIN = "join", "A table that holds a join is brought up to date."
    BRANCH = "branch", "A table is branched or copied, or continues as a branch."
    EXPIRE = "expire", "Snapshots expire."
    AUDIT = "audit", "A table is audited."


@dataclass(frozen=True)
class Case:
    """What is accepted or refused. schema: of the table, as it would be. path: of the table, for messages.

    before: the schema that an alteration changes, None for others. given: the options that a user sets with this step.
    repairs: immutable options that the alteration may change, and their new values.
    """

    schema: TableSchema
    path: str
    before: TableSchema | None
    given: Mapping[str, str]
    repairs: Mapping[str, str]


_CREATE: Final = (Use.CREATE,)
_ALTER: Final = (Use.ALTER,)
_MADE: Final = (*_CREATE, *_ALTER)
_FILES: Final = (Use.MAINTAIN, Use.WRITE)
_USED: Final = (Use.READ, *_FILES)
# Options that decide together whether a table can have its changelog.
_OF_CHANGELOGS: Final = frozenset(
    (opt.CHANGELOG_PRODUCER.key, opt.SEQUENCE_FIELD.key, opt.ROW_DEDUPLICATE_IGNORE_FIELDS.key)
)


class Check(NamedTuple):
    """A row of the list. refused: what the check refuses, for the page. arguments: those of the check.

    may_stay_wrong: a table of another client that breaks the rule already may be altered in unrelated ways.
    """

    refused: str
    uses: tuple[Use, ...]
    check: Callable[..., object]
    arguments: Callable[[Case], tuple[Any, ...]] = lambda case: (case.schema,)
    may_stay_wrong: bool = False


def _options(case: Case) -> tuple[Any, ...]:
    return (case.schema.options,)


def _change(case: Case) -> tuple[Any, ...]:
    return (case.before, case.schema)


def _at_path(case: Case) -> tuple[Any, ...]:
    return (case.schema, case.path)


CHECKS: Final = (
    Check(
        "another value of an immutable option, or its removal",
        _ALTER,
        option_checks.check_alter,
        lambda case: (case.before and case.before.options, case.schema.options, case.repairs),
    ),
    Check("a text that is not Unicode", _MADE, schema_rules.check_texts),
    Check("a column's name that is empty, or there twice", _MADE, schema_rules.check_names),
    Check(
        "a new column with a reserved name",
        _MADE,
        schema_rules.check_reserved,
        lambda case: (case.schema, case.before),
    ),
    Check("keys that do not identify a row and its partition", _MADE, schema_rules.check_keys),
    Check(
        "an option of Paimon that changes which rows are read", _USED, supported.check_rows_are_read
    ),
    Check(
        "a number of buckets without a meaning",
        (Use.READ, Use.MAINTAIN),
        supported.check_buckets_are_read,
    ),
    Check(
        "no primary key (an append table)",
        (Use.LOOK_UP, Use.RESCALE, Use.JOIN),
        supported.check_has_key,
    ),
    Check(
        "an option that needs a primary key, in an append table",
        (*_MADE, *_FILES),
        append_rules.check_append,
    ),
    Check(
        "a primary key without the partition columns",
        (Use.LOOK_UP, Use.WRITE),
        supported.check_key_has_partition,
    ),
    Check(
        "an option whose value is none of its values, or contradicts another option",
        (*_MADE, *_FILES),
        option_checks.check_values,
        _options,
    ),
    Check(
        "a time zone of automatic tags that does not exist",
        _MADE,
        check_zone,
        lambda case: (case.schema.typed_options,),
    ),
    Check("an option of a column that does not exist", _MADE, schema_rules.check_field_options),
    Check(
        "a file index of a column that does not exist, or cannot have one",
        (*_MADE, *_FILES),
        check_file_indexes,
    ),
    Check(
        "a `partition.timestamp-*` option that cannot be parsed",
        _MADE,
        schema_rules.check_partition_times,
    ),
    Check(
        "a number of buckets below -2, or postponed buckets with the producer `input` or without a key",
        (*_MADE, Use.WRITE),
        schema_rules.check_bucket_number,
    ),
    Check(
        "a bucket key outside of the primary key",
        (*_MADE, Use.WRITE),
        schema_rules.check_bucket_keys,
    ),
    Check(
        "a `sequence.field` that is no column, or has a function",
        _MADE,
        schema_rules.check_sequence_fields,
    ),
    Check("a `rowkind.field` that is no text column", _MADE, schema_rules.check_rowkind_field),
    Check(
        "a new number of buckets for dynamic buckets",
        (Use.RESCALE,),
        schema_rules.check_fixed_buckets,
    ),
    Check(
        "dynamic buckets with several writers", (Use.WRITE_IN_TASKS,), supported.check_one_writer
    ),
    Check("an unknown merge engine, or a rule of the engine broken", (*_MADE, *_USED), engine_of),
    Check(
        "an option that this version does not honour",
        _MADE,
        option_checks.check_declared,
        lambda case: (case.given,),
    ),
    Check(
        "an option of another client that this version does not honour",
        _FILES,
        option_checks.check_honoured,
        _options,
    ),
    Check(
        "an option of single columns, where the merge engine keeps whole records",
        _MADE,
        check_used,
        lambda case: (case.given, case.schema.options),
    ),
    Check(
        "a changelog that cannot be right",
        (*_MADE, *_FILES),
        supported.check_changelog_producer,
        may_stay_wrong=True,
    ),
    Check(
        "deletion vectors where a row above level 0 is not whole",
        (*_MADE, *_FILES),
        supported.check_deletion_vectors,
        may_stay_wrong=True,
    ),
    Check("a column of nested type that orders records", (*_MADE, *_FILES), check_ordered),
    Check(
        "`record-level.expire-time` without a usable time column",
        (*_MADE, *_FILES),
        check_record_expiry,
    ),
    Check("an option that barriers exclude", (*_MADE, *_FILES), barrier_rules.check_barriers),
    Check("an index that does not fit the columns", _MADE, check_indexes),
    Check(
        "a history of a table with its columns, or whose rows expire",
        _MADE,
        derived_rules.check_history,
    ),
    Check(
        "larger tiles in a table that could not make one of them anew",
        _MADE,
        derived_rules.check_tiles,
    ),
    Check(
        "widened columns that do not fit the columns, or that another rule fills",
        _MADE,
        check_widened,
    ),
    Check(
        "options with which a joined table would not follow its sources",
        (*_MADE, Use.JOIN),
        derived_rules.check_joined_rows,
    ),
    Check("a partition column whose values have no text", _CREATE, check_partition_types),
    Check(
        "another order of a column that orders records", _ALTER, order_change.check_orders, _change
    ),
    Check("another sequence group of a column", _ALTER, order_change.check_groups, _change),
    Check("another function of a column", _ALTER, function_change.check_functions, _change),
    Check(
        "rows for a table that a join, an index or a history fills",
        (Use.TAKE_ROWS,),
        derived_rules.check_given_rows,
    ),
    Check(
        "rows without a writer for a table under barriers",
        (Use.TAKE_UNNAMED_ROWS,),
        barrier_rules.check_needs_no_writer,
        _at_path,
    ),
    Check(
        "removing or moving rows of a table under barriers",
        (Use.REPLACE,),
        barrier_rules.check_rows_stay,
        _at_path,
    ),
    Check(
        "a derived table, or a table with derived tables",
        (Use.BRANCH,),
        derived_rules.check_stands_alone,
        _at_path,
    ),
    Check(
        "options that keep a changelog longer than its snapshot",
        (Use.EXPIRE,),
        supported.check_changelog_expires,
    ),
    Check(
        "data files in another directory",
        (Use.AUDIT,),
        supported.check_auditable,
    ),
)


def accept(
    schema: TableSchema,
    *uses: Use,
    path: str | None = None,
    before: TableSchema | None = None,
    given: Mapping[str, str] | None = None,
    repairs: Mapping[str, str] | None = None,
) -> None:
    """Refuse a table for any of these uses. The other arguments are those of `Case`; given: None for all options.

    Uses that depend on the schema alone are checked once for each schema.
    """
    accepted = _accepted(schema)
    if uses in accepted:
        return
    case = Case(
        schema, path or "", before, schema.options if given is None else given, repairs or {}
    )
    for check in _due(uses):
        if not (check.may_stay_wrong and _was_wrong(check, case)):
            check.check(*check.arguments(case))
    if path is None and before is None:
        accepted.add(uses)


@cache
def _due(uses: tuple[Use, ...]) -> tuple[Check, ...]:
    return tuple(check for check in CHECKS if set(uses).intersection(check.uses))


@once_per_object
def _accepted(schema: TableSchema) -> set[tuple[Use, ...]]:
    return set()


def _was_wrong(check: Check, case: Case) -> bool:
    """Return whether the table broke the rule before an alteration that does not concern it."""
    old = case.before
    if old is None or _OF_CHANGELOGS.intersection(case.given):
        return False
    if {column.id for column in old.fields} - {column.id for column in case.schema.fields}:
        return False
    try:
        check.check(old)
    except WidetableError:
        return True
    return False
