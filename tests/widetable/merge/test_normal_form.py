"""Normal form (docs/decisions/0001): a record in it equals the result of merging it alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.model import Model, Record, Row
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.strategies import commits, keys_of, tables
from tests.support.tables.bucket import Bucket, row_batch
from widetable.errors import InvalidError
from widetable.merge.engine import engine_of
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

LONG = pa.int64()


def table(options: dict[str, str], names: str = "k g a u") -> TableSchema:
    fields = [pa.field(name.strip("!"), LONG, nullable="!" not in name) for name in names.split()]
    return new_schema(
        pa.schema(fields), primary_key=["k"], options={"merge-engine": "partial-update", **options}
    )


def normal(
    schema: TableSchema, records: list[Record], columns: list[str] | None = None
) -> list[list[int | None]]:
    batch = row_batch(schema, records, columns or schema.names, 1)
    found = engine_of(schema).normal_form(schema, batch)
    assert found.schema == batch.schema
    return [list(row.values())[2:] for row in found.to_pylist()]


def record(kind: str, *values: int | None) -> Record:
    return kind, dict(zip("kgau", values, strict=False))


GROUP = {"fields.g.sequence-group": "a"}


def test_add_without_sequence_loses_what_the_group_protects() -> None:
    records = [record("+I", 1, None, 3, 4), record("+U", 1, 2, 3, 4)]
    assert normal(table(GROUP), records) == [[1, None, None, 4], [1, 2, 3, 4]]


def test_retractions_keep_key_and_sequences() -> None:
    records = [record("-D", 1, 2, 3, 4), record("-U", 1, 2, 3, 4)]
    assert normal(table(GROUP), records) == [[1, 2, None, None]] * 2


def test_not_null_columns_stay() -> None:
    schema = table(GROUP, "k g a! u!")
    records = [record("-D", 1, 2, 3, 4), record("+I", 1, None, 3, 4)]
    assert normal(schema, records) == [[1, 2, 3, 4], [1, None, 3, 4]]


def test_removing_delete_keeps_the_key_only() -> None:
    schema = table({"partial-update.remove-record-on-delete": "true"})
    records = [record("-D", 1, 2, 3, 4), record("+I", 1, None, 3, 4), record("-U", 1, 2, 3, 4)]
    assert normal(schema, records) == [[1, None, None, None], [1, None, 3, 4], [1, 2, 3, 4]]


def test_sequence_field_stays_because_it_orders() -> None:
    schema = table({**GROUP, "sequence.field": "u"})
    assert normal(schema, [record("-D", 1, 2, 3, 4)]) == [[1, 2, None, 4]]
    schema = table({"partial-update.remove-record-on-delete": "true", "sequence.field": "u"})
    assert normal(schema, [record("-D", 1, 2, 3, 4)]) == [[1, None, None, 4]]


def test_nothing_changes_elsewhere() -> None:
    plain = table({"ignore-delete": "true"})
    deduplicate = new_schema(plain.arrow_schema(), primary_key=["k"], options=dict(GROUP))
    for schema in (plain, deduplicate):
        batch = row_batch(schema, [record("-D", 1, None, 3, 4)], schema.names, 1)
        assert engine_of(schema).normal_form(schema, batch).equals(batch)


def test_columns_that_are_not_written() -> None:
    assert normal(table(GROUP), [record("-U", 1, None, None, 4)], ["k", "u"]) == [[1, None]]


@pytest.mark.parametrize("names", [["k"], ["k", "u"], ["k", "g", "a", "u"]], ids=" ".join)
def test_a_delete_without_a_sequence_is_refused(names: list[str]) -> None:
    records = [record("-D", 1, 2, 3, 4), record("-D", 7, None, 3, 4)]
    with pytest.raises(InvalidError, match=r"-D record of the key k=(1|7) .* change nothing.*'g'"):
        normal(table(GROUP), records, names)


def test_a_delete_that_takes_nothing_back_is_refused() -> None:
    summed = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    with pytest.raises(InvalidError, match=r"-D record of the key k=7 .* change nothing"):
        normal(table(summed), [record("-D", 7, None, None, None)])
    assert normal(table(summed), [record("-D", 7, 2, None, None)])
    removing = {**summed, "aggregation.remove-record-on-delete": "true"}
    assert normal(table(removing), [record("-D", 7, None, None, None)])
    clearing = {**summed, "fields.a.aggregate-function": "last_value"}
    assert normal(table(clearing), [record("-D", 7, None, None, None)])


@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize("engine", ["partial-update", "first-row"])
def test_a_retraction_without_a_meaning_is_refused(engine: str, kind: str) -> None:
    records = [record("+I", 1, 2, 3, 4), record(kind, 7, 2, 3, 4)]
    with pytest.raises(InvalidError, match=f"{kind} record of the key k=7.*ignore-delete"):
        normal(table({"merge-engine": engine}), records)


@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize("engine", ["partial-update", "first-row"])
def test_one_that_another_client_wrote_is_refused_when_it_is_merged(engine: str, kind: str) -> None:
    bucket = Bucket(table({"merge-engine": engine}))
    for number, of_commit in enumerate((record("+I", 1, 2, 3, 4), record(kind, 1, 2, 3, 4))):
        bucket.runs.append([row_batch(bucket.schema, [of_commit], bucket.schema.names, number)])
    with pytest.raises(InvalidError, match=f"{kind} record of the key k=1.*ignore-delete"):
        bucket.rows()


@given(st.data())
def test_equals_merging_alone(data: st.DataObject) -> None:
    schema = data.draw(tables("partial-update"))
    commit = data.draw(commits(schema, data.draw(keys_of(schema))))
    batch = row_batch(schema, commit.records, commit.columns, 1)
    found = engine_of(schema).normal_form(schema, batch)
    for (kind, row), values in zip(commit.records, python_rows(found), strict=True):
        alone = merged_alone(schema, kind, row)
        if alone is not None:
            assert plain({name: values[name] for name in commit.columns}) == plain(
                {name: alone[name] for name in commit.columns}
            )


def merged_alone(schema: TableSchema, kind: str, row: Row) -> Row | None:
    model = Model(schema)
    model.write([(kind, row)])
    return next(iter(model.rows()), None)
