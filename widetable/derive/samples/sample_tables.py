"""The two tables of a set of samples: the samples themselves, and the rows that wait for their time.

    db.clicks_samples            key of the table | columns of the samples, _snapshot, _correction
    db.clicks_samples_waiting    _due, key of the table          sorted by time, so those who are due are together

Samples have the changelog producer `input`: each commit's records are what was given by one snapshot of the table.
Options say of which table they are, which life of it, from which snapshot on, with which columns, and by which rule.

In: a table, a rule and `db.name`. Out: the two tables, made if they do not exist. Raises InvalidError for a table that
is something else, or has samples by another rule, of another table, or of columns that were altered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.arguments import text
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.derive.changes.column_ids import column_ids
from widetable.derive.changes.derived_table import made_table
from widetable.derive.samples.sample_plan import (
    CORRECTION,
    DUE,
    SNAPSHOT,
    WEIGHT,
    SamplePlan,
    sample_plan,
)
from widetable.derive.samples.sample_rule import SampleArguments, SampleRule
from widetable.errors import InvalidError
from widetable.operations.handle.neighbour import name_of, neighbour, path_of
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import TablePaths

_SAMPLES: Final = "_samples"
_WAITING: Final = "_waiting"
_MADE_COLUMNS: Final = (WEIGHT, SNAPSHOT, CORRECTION)


class SampleTables(NamedTuple):
    """plan: the rule for the columns of now. begins_id: the first snapshot of the base that gives samples."""

    base: OpenTable
    plan: SamplePlan
    samples: OpenTable
    waiting: OpenTable
    begins_id: int


def samples_of(base: OpenTable, given: SampleArguments, into: str | None) -> SampleTables:
    """Return the tables of unchecked arguments. into: None for the name of the table and `_samples`."""
    name = name_of(base) + _SAMPLES if into is None else text(into, "into")
    return sample_tables(base, given.checked(), name)


def tables_of(samples: OpenTable) -> SampleTables:
    """Return the tables to which a table of samples belongs."""
    options = samples.schema.typed_options
    of, rule = options.get(join_options.SAMPLES_OF), options.get(join_options.SAMPLES_RULE)
    if of is None or rule is None:
        raise InvalidError(
            samples.path,
            found="a table without samples",
            expected="a table that follow_samples or widetable_spark.samples has made",
            action="Open the table of the samples.",
        )
    base = neighbour(samples, of, f"option {join_options.SAMPLES_OF.key!r}")
    return sample_tables(base, SampleRule.from_text(rule), name_of(samples))


def sample_tables(base: OpenTable, rule: SampleRule, into: str) -> SampleTables:
    """Return the tables; make them if they do not exist. Several processes may do so at once."""
    samples = _find(base, into)
    schema, own_id = base.schema, 0
    if samples is None:
        plan = sample_plan(rule, schema)
        own_id = base._committer.snapshots.latest_id() or 1
        # First the consumer, so that the snapshot stays.
        base._consumers.record(consumer_of(into), own_id)
        samples = _made(base, into, plan, own_id)
    plan = sample_plan(_as_made(rule, samples, schema), schema)
    begins = _checked(base, samples, rule, plan)
    waiting = find_queue(base, into) or _made_waiting(base, into + _WAITING, plan, begins)
    options = waiting.schema.typed_options
    if options.get(join_options.SAMPLES_OF) != name_of(base):
        raise _is_other(
            waiting, "a table that is no queue of samples", "Name another table in into"
        )
    if options.get(join_options.SAMPLES_BEGIN) != begins:
        raise _is_other(waiting, "a queue of samples that were dropped", "Drop it")
    begins_id = int(begins.split(" ")[1])
    if begins_id < own_id:
        # Another process was first, with an earlier beginning.
        base._consumers.record(consumer_of(into), begins_id)
    return SampleTables(base, plan, samples, waiting, begins_id)


def find_queue(base: OpenTable, into: str) -> OpenTable | None:
    """Return the table of those who wait for their samples; None if it does not exist."""
    return _find(base, into + _WAITING)


def consumer_of(into: str) -> str:
    """Return the consumer of the base that keeps the snapshots which samples need."""
    return f"samples-{into}"


def user_of(base: OpenTable) -> str:
    """Return the commit user of samples."""
    return f"samples/{name_of(base)}"


def _find(base: OpenTable, name: str) -> OpenTable | None:
    table = OpenTable(path_of(base, name, "into"), base._file_io)
    return table if SchemaStore(base._file_io, TablePaths(table.path)).ids() else None


def _as_made(rule: SampleRule, samples: OpenTable, base: TableSchema) -> SampleRule:
    """Return the rule with the columns that the samples have: what is added to the table later is not in them. Labels
    come in the order of the call that made the samples.
    """
    names = samples.schema.names
    made = {*rule.labels, *_MADE_COLUMNS}
    columns = tuple(name for name in names if name not in made)
    gone = next((name for name in columns if name not in base.by_name), None)
    if gone is not None:
        problem = f"samples with a column {gone!r}, which the table of the rows does not have"
        raise _is_other(samples, problem, "Name another table in into")
    labels = dict(sorted(rule.labels.items(), key=lambda each: [*names, each[0]].index(each[0])))
    return replace(rule, columns=columns, labels=labels)


def _made(base: OpenTable, into: str, plan: SamplePlan, begins_id: int) -> OpenTable:
    options = {
        opt.CHANGELOG_PRODUCER.key: "input",
        join_options.SAMPLES_BEGIN.key: _begins(base, plan, begins_id),
        join_options.SAMPLES_RULE.key: plan.rule.to_text(),
    }
    return _published(base, into, plan.fields, base.schema.primary_keys, options)


def _made_waiting(base: OpenTable, name: str, plan: SamplePlan, begins: str) -> OpenTable:
    key = [plan.fields.field(each) for each in plan.schema.primary_keys]
    fields = pa.schema([pa.field(DUE, pa.int64(), nullable=False), *key])
    options = {join_options.SAMPLES_BEGIN.key: begins}
    return _published(base, name, fields, fields.names, options)


def _published(
    base: OpenTable, name: str, fields: pa.Schema, key: Sequence[str], options: dict[str, str]
) -> OpenTable:
    own = {
        opt.BUCKET_KEY.key: ",".join(base.schema.bucket_keys),
        join_options.SAMPLES_OF.key: name_of(base),
    }
    path = path_of(base, name, "into")
    return made_table(base, path, fields, key, {**own, **options}, partial(_find, base, name))


def _begins(base: OpenTable, plan: SamplePlan, begins_id: int) -> str:
    ids = json.dumps(column_ids(plan.schema, sorted(plan.read)), separators=(",", ":"))
    return f"{base._committer.identity} {begins_id} {ids}"


def _checked(base: OpenTable, samples: OpenTable, rule: SampleRule, plan: SamplePlan) -> str:
    """Return what the samples say of their beginning. Raises InvalidError unless they are these samples."""
    options = samples.schema.typed_options
    begins = options.get(join_options.SAMPLES_BEGIN)
    stored = options.get(join_options.SAMPLES_RULE)
    if options.get(join_options.SAMPLES_OF) != name_of(base) or begins is None or stored is None:
        raise _is_other(
            samples, "a table that has no samples of it", "Name a table that does not exist"
        )
    if stored != rule.to_text():
        raise _is_other(samples, f"samples by another rule: {stored}", "Name another table in into")
    begins_id = int(begins.split(" ")[1])
    if begins != _begins(base, plan, begins_id):
        raise _is_other(
            samples,
            "samples of a dropped table of that name, or of columns that were dropped and added again",
            "Name another table in into",
        )
    if not samples.schema.arrow_schema().equals(plan.fields):
        raise _is_other(
            samples, "samples of columns that had other types", "Name another table in into"
        )
    return begins


def _is_other(table: OpenTable, problem: str, action: str) -> InvalidError:
    return InvalidError(
        f"into = {name_of(table)!r}",
        found=problem,
        expected="samples of this table by this rule",
        action=f"{action}. The table stays as it is.",
    )
