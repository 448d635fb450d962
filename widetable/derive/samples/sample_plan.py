"""A rule for the columns of a table: what is read, and what a sample has.

    table     user (key), exposed_at, clicked_at, label
    rule      complete exposed_at, eager clicked_at, columns label, labels {"bought": ..}, negatives
    samples   user, label, bought, _weight DOUBLE, _snapshot BIGINT, _correction BOOLEAN

_weight      how many samples a kept one stands for; only with negatives
_snapshot    the snapshot of the table with which the sample became ready, or was corrected
_correction  whether a sample of the key was decided before, and this one replaces it

In: a rule and a schema. Out: a `SamplePlan`. Pure. Raises NotFoundError for a missing column and InvalidError for one
that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.derive.samples.sample_rule import SampleRule
from widetable.derive.versions.event_groups import time_units
from widetable.errors import InvalidError, UnsupportedError
from widetable.schema import retention_options as retention
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema

WEIGHT: Final = "_weight"
SNAPSHOT: Final = "_snapshot"
CORRECTION: Final = "_correction"
DUE: Final = "_due"
_OWN: Final = (WEIGHT, SNAPSHOT, CORRECTION, DUE, ROW_KIND_COLUMN)


class SamplePlan(NamedTuple):
    """rule: of the samples. schema: of the table. units: of columns of times that are numbers. fields: of a sample.

    defaults: the values, in the types of their columns.
    """

    rule: SampleRule
    schema: TableSchema
    units: dict[str, str | None]
    fields: pa.Schema
    defaults: dict[str, pa.Scalar[Any]]

    @property
    def read(self) -> list[str]:
        """The columns of the table that are read, its key first."""
        rule = self.rule
        used = [*rule.complete, *rule.eager, *(self.units), *self._values]
        return list(dict.fromkeys([*self.schema.primary_keys, *used]))

    @property
    def given(self) -> list[str]:
        """The columns of the table that samples have, its key first."""
        return [name for name in self.fields.names if name in self.schema.by_name]

    @property
    def values(self) -> list[str]:
        """The columns that make two samples of a key different."""
        return [name for name in self.fields.names if name not in (SNAPSHOT, CORRECTION)]

    @property
    def _values(self) -> list[str]:
        values = [each.value for each in self.rule.labels.values() if each.value is not None]
        return [*self.given, *values]


def sample_plan(rule: SampleRule, schema: TableSchema) -> SamplePlan:
    """Return the plan. Columns that are added to the table later are not in it."""
    _check_table(schema)
    schema.chosen([*rule.complete, *rule.eager])
    labels = {name: _label_type(rule, name, schema) for name in rule.labels}
    key = schema.primary_keys
    chosen = schema.names if rule.columns is None else schema.chosen(rule.columns)
    given = list(dict.fromkeys([*key, *chosen]))
    _check_names([*given, *labels], schema, labels)
    fields = [schema.arrow_field(name).with_nullable(name not in key) for name in given]
    fields += [pa.field(name, kind) for name, kind in labels.items()]
    defaults = {name: _default(rule, name, fields) for name in rule.defaults}
    if rule.negatives is not None:
        _check_negatives(rule.negatives.column, fields)
        fields.append(pa.field(WEIGHT, pa.float64()))
    fields += [pa.field(SNAPSHOT, pa.int64()), pa.field(CORRECTION, pa.bool_())]
    return SamplePlan(rule, schema, _times(rule, schema), pa.schema(fields), defaults)


def _times(rule: SampleRule, schema: TableSchema) -> dict[str, str | None]:
    """Return the columns of times that the rule compares, and their units."""
    used = [rule.on, *(each.event_time for each in rule.labels.values())]
    columns = [name for name in used if name is not None]
    given = {name: rule.event_times.get(name) for name in (*columns, *rule.event_times)}
    return time_units(schema, given)


def _label_type(rule: SampleRule, name: str, schema: TableSchema) -> pa.DataType:
    value = rule.labels[name].value
    return pa.bool_() if value is None else schema.arrow_field(value).type


def _default(rule: SampleRule, name: str, fields: Iterable[pa.Field]) -> pa.Scalar[Any]:
    kind = next((field.type for field in fields if field.name == name), None)
    if kind is None:
        raise InvalidError(
            f"defaults[{name!r}]",
            found="no such column of the samples",
            expected="columns of the samples, or labels",
            action="Correct the name, or add the column.",
        )
    value = rule.defaults[name]
    try:
        # Arrow makes an integer of 1.5, but does not cast it to one.
        is_cast = isinstance(value, str) or (isinstance(value, float) and pa.types.is_integer(kind))
        return pa.scalar(value).cast(kind) if is_cast else pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InvalidError(
            f"defaults[{name!r}]",
            found=repr(value)[:100],
            expected=f"a value of the type {kind}",
            action="Correct the value.",
        ) from None


def _check_names(given: list[str], schema: TableSchema, labels: Iterable[str]) -> None:
    """Refuse names that samples have for themselves, and labels with the name of a column."""
    for name in labels:
        if name in schema.by_name:
            raise InvalidError(
                f"labels[{name!r}]",
                found="the name of a column of the table",
                expected="a name that no column has",
                action="Use another name.",
            )
    taken = next((name for name in given if name in _OWN), None)
    if taken is not None:
        raise InvalidError(
            f"column {taken!r}",
            found="a name that samples use for themselves",
            expected=f"columns and labels with other names than {', '.join(_OWN)}",
            action="Leave it out by columns, or rename it.",
        )


def _check_negatives(column: str, fields: Iterable[pa.Field]) -> None:
    kind = next((field.type for field in fields if field.name == column), None)
    is_number = kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
    if not is_number and kind != pa.bool_():
        raise InvalidError(
            f"negatives of {column!r}",
            found="no column of the samples" if kind is None else f"a column of type {kind}",
            expected="a number or a boolean of the samples, which is 0 or false in negative ones",
            action="Name the column of the label: negatives={column: share}.",
        )


def _check_table(schema: TableSchema) -> None:
    accept(schema, Use.LOOK_UP)
    if schema.postpones_buckets:
        raise UnsupportedError(
            "the table of the samples",
            found="bucket = -2 (postponed buckets): rows are read some time after their commit and its watermark",
            expected="a table whose rows are read when they are committed, so that samples follow from the commits",
            action="Take the samples from a table with a fixed number of buckets.",
        )
    expires = retention.RECORD_LEVEL_EXPIRE_TIME
    if schema.typed_options.get(expires) is not None:
        raise InvalidError(
            "the table of the samples",
            found=f"{expires.key} = {schema.options[expires.key]!r}, by which rows expire without a commit",
            expected="a table whose rows change by commits alone",
            action="Remove the option.",
        )
