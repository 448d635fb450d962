"""Rules between options and columns: what Paimon rejects, and what this version does not support.

Source: Paimon `SchemaValidation`, `PartialUpdateMergeFunction.Factory`, `FieldAggregatorFactory`. Each rule raises
InvalidError naming option and column. Rules of single options and of the schema itself are in `options` and `schema`.

Each engine lists the rules that hold for it, in the order in which rules may rely on each other
(columns exist before their types are checked). `engine_of` applies them, so when a table is
created or altered, and before it is written or read: a table of another client is refused with
the same words. Valid but unsupported options are checked last (`check_honoured_groups`), so that
no user is told to change clients because of a typing error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.aggregate_columns import aggregate_columns, columns_of_aggregation
from widetable.merge.aggregate_function import IGNORE_RETRACT
from widetable.merge.aggregate_functions import DEFAULT_FUNCTION
from widetable.merge.aggregate_rules import (
    functions_are_honoured,
    functions_are_known,
    functions_take_their_columns,
)
from widetable.schema import options as opt
from widetable.schema.option import Option
from widetable.schema.table_schema import SequenceGroup, TableSchema

Rule = Callable[[TableSchema], None]


def _invalid(key: str, finding: str, expected: str, action: str) -> InvalidError:
    return InvalidError(f"option {key!r}", found=finding, expected=expected, action=action)


def grouped_columns(schema: TableSchema) -> Iterator[tuple[SequenceGroup, str, str]]:
    """Yield (group, column, "sequence" or "protected") for all groups, in their order."""
    for group in schema.sequence_groups:
        yield from ((group, name, "sequence") for name in group.sequence)
        yield from ((group, name, "protected") for name in group.protected)


def group_columns_exist(schema: TableSchema) -> None:
    """Raise InvalidError for a group with an unknown column. Names are not trimmed, as in Paimon."""
    for group, name, role in grouped_columns(schema):
        if name not in schema.by_name:
            raise _invalid(
                group.option,
                f"the {role} column {name!r}",
                f"one of {', '.join(schema.names)} (blanks count as part of a name)",
                "Correct the column's name.",
            )


def group_columns_are_not_keys(schema: TableSchema) -> None:
    """Raise InvalidError for key columns in groups: they are equal in all records, so they neither order nor change."""
    for group, name, role in grouped_columns(schema):
        if name in schema.primary_keys:
            raise _invalid(
                group.option,
                f"the primary key column {name!r} as {role} column",
                "columns outside the primary key",
                f"Take {name!r} out of the group.",
            )


def columns_are_protected_once(schema: TableSchema) -> None:
    """Raise InvalidError for a column that two groups protect, single or composite."""
    seen: dict[str, SequenceGroup] = {}
    for group in schema.sequence_groups:
        for name in dict.fromkeys(group.protected):
            if name in seen:
                raise _invalid(
                    group.option,
                    f"the column {name!r}, which {seen[name].option!r} protects too",
                    "each column protected by one group at most",
                    f"Take {name!r} out of one of the groups.",
                )
            seen[name] = group


def sequence_columns_have_an_order(schema: TableSchema) -> None:
    """Raise InvalidError for sequence columns of groups without an order. Paimon refuses these types when it compares
    the first records; lists are checked in `record_order`.
    """
    for group in schema.sequence_groups:
        for name in group.sequence:
            kind = schema.field(name).type
            if kind.is_nested and kind.root != "ARRAY":
                raise _invalid(
                    group.option,
                    f"the sequence column {name!r} of type {kind}",
                    "a type that has an order",
                    "Use another sequence column.",
                )


def sequence_field_needs_partition_in_key(schema: TableSchema) -> None:
    """Raise InvalidError for `sequence.field` without the partition columns in the key: records of a key would be
    ordered across partitions.
    """
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if schema.sequence_fields and outside:
        raise _invalid(
            opt.SEQUENCE_FIELD.key,
            f"{list(schema.sequence_fields)} with the partition columns {outside} outside the primary key",
            "all partition columns in the primary key",
            "Add them to the primary key, or remove the option.",
        )


def no_sequence_field(schema: TableSchema) -> None:
    """Raise InvalidError for `sequence.field`: first-row uses the arrival order."""
    if schema.sequence_fields:
        raise _invalid(
            opt.SEQUENCE_FIELD.key,
            f"{list(schema.sequence_fields)} with the merge engine first-row",
            "no sequence.field: the first record in arrival order wins",
            "Remove the option, or use another merge engine.",
        )


def changelog_producer_of_first_row(schema: TableSchema) -> None:
    """Raise InvalidError for other producers than lookup: only lookup finds the first records."""
    producer = schema.typed_options.get(opt.CHANGELOG_PRODUCER)
    if producer not in ("none", "lookup"):
        raise _invalid(
            opt.CHANGELOG_PRODUCER.key,
            f"{producer!r} with the merge engine first-row",
            "none or lookup",
            "Choose one of these, or use another merge engine.",
        )


def ignored_deletes_remove_nothing(schema: TableSchema) -> None:
    """Raise InvalidError when deletes are both ignored and remove the record."""
    options = schema.typed_options
    if not options.get(opt.IGNORE_DELETE):
        return
    removing: tuple[Option[Any], ...] = (
        opt.REMOVE_RECORD_ON_DELETE,
        opt.REMOVE_RECORD_ON_SEQUENCE_GROUP,
    )
    for option in removing:
        if options.get(option):
            raise _invalid(
                option.key,
                f"{schema.options[option.key]!r} together with {opt.IGNORE_DELETE.key!r}",
                "one of the two: deletes are either ignored or remove the record",
                "Remove one of the options.",
            )


def groups_exclude_removal_on_delete(schema: TableSchema) -> None:
    """Raise InvalidError for remove-record-on-delete with groups, where a group must accept the delete first."""
    removes_on_delete = schema.typed_options.get(opt.REMOVE_RECORD_ON_DELETE)
    if schema.sequence_groups and removes_on_delete:
        raise _invalid(
            opt.REMOVE_RECORD_ON_DELETE.key,
            f"'true' together with {schema.sequence_groups[0].option!r}",
            "a table without sequence groups",
            f"Use {opt.REMOVE_RECORD_ON_SEQUENCE_GROUP.key!r} instead.",
        )


def removing_columns_are_sequences(schema: TableSchema) -> None:
    """Raise InvalidError for removing columns that are no sequence columns. Names are not trimmed, as in Paimon."""
    sequences = [name for group in schema.sequence_groups for name in group.sequence]
    for name in schema.typed_options.get(opt.REMOVE_RECORD_ON_SEQUENCE_GROUP):
        if name not in sequences:
            raise _invalid(
                opt.REMOVE_RECORD_ON_SEQUENCE_GROUP.key,
                f"the column {name!r}",
                f"sequence columns of a group ({', '.join(sequences) or 'there is none'})",
                "Name a sequence column of each group that removes (blanks count as part of a name).",
            )


def functions_need_a_group(schema: TableSchema) -> None:
    """Raise InvalidError for a function outside groups other than last_non_null_value, which is the default."""
    grouped = {name for _, name, _ in grouped_columns(schema)}
    for name, column in aggregate_columns(schema).items():
        if name not in grouped and column.function != DEFAULT_FUNCTION:
            raise _invalid(
                column.option,
                f"{column.function!r}, which applies to the column {name!r} outside all sequence groups",
                f"{DEFAULT_FUNCTION!r}, or a column protected by a sequence group",
                f"Protect {name!r} by a sequence group, or remove the function.",
            )


def removal_retracts_all(schema: TableSchema) -> None:
    """Raise InvalidError for a column that ignores retractions while a -D removes the row with all columns."""
    if not schema.typed_options.get(opt.AGGREGATION_REMOVE_RECORD_ON_DELETE):
        return
    for column in columns_of_aggregation(schema).values():
        if column.get(IGNORE_RETRACT):
            raise _invalid(
                f"fields.{column.name}.{IGNORE_RETRACT.key}",
                f"true, with {opt.AGGREGATION_REMOVE_RECORD_ON_DELETE.key!r}",
                "one of the two",
                "Remove one of the options.",
            )


def check_honoured_groups(schema: TableSchema) -> None:
    """Raise UnsupportedError for what Paimon accepts in a partial-update table and this version does not support."""
    roles: dict[str, SequenceGroup] = {}
    for group, name, role in grouped_columns(schema):
        other = roles.setdefault(name, group)
        if other is not group:
            raise UnsupportedError(
                f"option {group.option!r}",
                found=f"the column {name!r}, which is in {other.option!r} too",
                expected="each column in one sequence group (what Paimon does depends on the order of a hash map)",
                action=f"Take {name!r} out of one of the groups.",
            )
        if role == "protected" and name in schema.sequence_fields and name not in group.sequence:
            raise UnsupportedError(
                f"option {opt.SEQUENCE_FIELD.key!r}",
                found=f"the column {name!r}, which {group.option!r} protects",
                expected="a column whose value no group clears",
                action=f"Take {name!r} out of the group.",
            )
    functions_are_honoured(schema)


# What the tables of `aggregation` obey, and those of `partial-update`.
RULES_OF_FUNCTIONS: Final[tuple[Rule, ...]] = (
    sequence_field_needs_partition_in_key,
    functions_are_known,
    functions_take_their_columns,
    removal_retracts_all,
    functions_are_honoured,
)
RULES_OF_GROUPS: Final[tuple[Rule, ...]] = (
    sequence_field_needs_partition_in_key,
    group_columns_exist,
    group_columns_are_not_keys,
    columns_are_protected_once,
    sequence_columns_have_an_order,
    ignored_deletes_remove_nothing,
    groups_exclude_removal_on_delete,
    removing_columns_are_sequences,
    functions_are_known,
    functions_need_a_group,
    functions_take_their_columns,
    check_honoured_groups,
)
