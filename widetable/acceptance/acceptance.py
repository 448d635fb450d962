"""The list of what is refused, and when: each check once, with the uses for which it is made, in the only order.

    accept(schema, Use.CREATE)                                before schema 0 is published
    accept(new, Use.ALTER, before=old, given=set_options)     before the next schema is published
    accept(schema, Use.WRITE)                                 before an operation

A check relies on those above it: names are unique before columns are looked for, options have values before an engine
uses them. A check is a pure function of schemas and options, which returns or raises. No other module calls one
(decision 0068). What depends on other tables, or on the columns that are written, is not in this list.
docs/refusals.md is generated from it. Raises what the checks raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from widetable.acceptance.barrier_rules import (
    check_barriers,
    check_needs_no_writer,
    check_rows_stay,
)
from widetable.acceptance.derived_rules import check_given_rows, check_stands_alone
from widetable.acceptance.function_change import check_functions
from widetable.acceptance.order_change import check_groups, check_orders
from widetable.acceptance.supported import (
    check_auditable,
    check_buckets_are_read,
    check_buckets_take_rows,
    check_changelog_expires,
    check_changelog_producer,
    check_deletion_vectors,
    check_has_key,
    check_key_has_partition,
    check_one_writer,
    check_rows_are_read,
)
from widetable.acceptance.use import Case, Use
from widetable.errors import WidetableError
from widetable.format.partition_value import check_partition_types
from widetable.merge.engine import engine_of
from widetable.merge.record_expiry import check_record_expiry
from widetable.merge.record_order import check_ordered
from widetable.merge.widened_rules import check_widened
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.derived_options import check_derived
from widetable.schema.option_checks import (
    check_alter,
    check_declared,
    check_honoured,
    check_used,
    check_values,
)
from widetable.schema.schema_rules import (
    check_bucket_keys,
    check_bucket_number,
    check_field_options,
    check_fixed_buckets,
    check_keys,
    check_names,
    check_partition_times,
    check_reserved,
    check_rowkind_field,
    check_sequence_fields,
    check_texts,
)
from widetable.schema.table_schema import TableSchema
from widetable.schema.tag_rule import check_zone

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
        check_alter,
        lambda case: (case.before and case.before.options, case.schema.options, case.mends),
    ),
    Check("a text that is not Unicode", _MADE, check_texts),
    Check("a column's name that is empty, or there twice", _MADE, check_names),
    Check(
        "a new column with a reserved name",
        _MADE,
        check_reserved,
        lambda case: (case.schema, case.before),
    ),
    Check("keys that do not identify a row and its partition", _MADE, check_keys),
    Check("an option of Paimon that changes which rows are read", _USED, check_rows_are_read),
    Check(
        "a number of buckets without a meaning",
        (Use.READ, Use.MAINTAIN),
        check_buckets_are_read,
    ),
    Check("no primary key (an append table)", (Use.LOOK_UP, *_FILES), check_has_key),
    Check(
        "a primary key without the partition columns",
        (Use.LOOK_UP, Use.WRITE),
        check_key_has_partition,
    ),
    Check(
        "an option whose value is none of its values, or contradicts another option",
        (*_MADE, *_FILES),
        check_values,
        _options,
    ),
    Check(
        "a time zone of automatic tags that does not exist",
        _MADE,
        check_zone,
        lambda case: (case.schema.typed_options,),
    ),
    Check("an option of a column that does not exist", _MADE, check_field_options),
    Check("a form of partition times that cannot be read", _MADE, check_partition_times),
    Check("postponed buckets", _MADE, check_bucket_number),
    Check(
        "a bucket key outside of the primary key",
        (*_MADE, Use.WRITE),
        check_bucket_keys,
    ),
    Check("a `sequence.field` that is no column, or has a function", _MADE, check_sequence_fields),
    Check("a `rowkind.field` that is no text column", _MADE, check_rowkind_field),
    Check("postponed buckets, where rows are written", (Use.WRITE,), check_buckets_take_rows),
    Check("dynamic buckets, where one is chosen anew", (Use.RESCALE,), check_fixed_buckets),
    Check("dynamic buckets with several writers", (Use.WRITE_IN_TASKS,), check_one_writer),
    Check("an unknown merge engine, or a rule of the engine broken", (*_MADE, *_USED), engine_of),
    Check(
        "an option that this version does not honour",
        _MADE,
        check_declared,
        lambda case: (case.given,),
    ),
    Check(
        "an option of another client that this version does not honour",
        _FILES,
        check_honoured,
        _options,
    ),
    Check(
        "an option of columns in a table that takes records as a whole",
        _MADE,
        check_used,
        lambda case: (case.given, case.schema.options),
    ),
    Check(
        "a changelog that cannot be right",
        (*_MADE, *_FILES),
        check_changelog_producer,
        may_stay_wrong=True,
    ),
    Check(
        "deletion vectors where a row above level 0 is not whole",
        (*_MADE, *_FILES),
        check_deletion_vectors,
        may_stay_wrong=True,
    ),
    Check("a column of nested type that orders records", (*_MADE, *_FILES), check_ordered),
    Check("records that expire by no time", (*_MADE, *_FILES), check_record_expiry),
    Check("an option that barriers exclude", (*_MADE, *_FILES), check_barriers),
    Check("an index or widened columns that do not fit the columns", _MADE, check_derived),
    Check("widened columns that another rule fills", _MADE, check_widened),
    Check("a partition column whose values have no text", _CREATE, check_partition_types),
    Check("another order of a column that orders records", _ALTER, check_orders, _change),
    Check("another sequence group of a column", _ALTER, check_groups, _change),
    Check("another function of a column", _ALTER, check_functions, _change),
    Check("rows for a table that a join or an index fills", (Use.TAKE_ROWS,), check_given_rows),
    Check(
        "rows without a writer for a table under barriers",
        (Use.TAKE_UNNAMED_ROWS,),
        check_needs_no_writer,
        _at_path,
    ),
    Check(
        "other rows at a complete barrier",
        (Use.REPLACE,),
        check_rows_stay,
        _at_path,
    ),
    Check(
        "a derived table, or a table with derived tables",
        (Use.BRANCH,),
        check_stands_alone,
        _at_path,
    ),
    Check("a changelog that outlives its snapshot", (Use.EXPIRE,), check_changelog_expires),
    Check("a table whose files lie elsewhere", (Use.AUDIT,), check_auditable),
)


def accept(
    schema: TableSchema,
    *uses: Use,
    path: str | None = None,
    before: TableSchema | None = None,
    given: Mapping[str, str] | None = None,
    mends: Mapping[str, str] | None = None,
) -> None:
    """Refuse a table for any of these uses. The other arguments are those of `Case`; given: None for all options.

    Uses that depend on the schema alone are checked once for each schema.
    """
    accepted = _accepted(schema)
    if uses in accepted:
        return
    case = Case(schema, path or "", before, schema.options if given is None else given, mends or {})
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
