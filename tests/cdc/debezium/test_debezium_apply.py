"""What tables have after `apply_debezium`: acceptance case 20, values that are not carried, schemas, bad records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.cdc.debezium.written_records import UNAVAILABLE, Column, T, key_of, record
from widetable_cdc import DebeziumResult, DebeziumSettings, apply_debezium

BIG = "x" * 96_000
COLUMNS = {"id": "INT", "name": "VARCHAR(20)", "big": "STRING"}


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(str(tmp_path / "wh"))


@pytest.fixture
def table(catalog: wt.Catalog) -> wt.Table:
    return catalog.create_table("db.t", COLUMNS, primary_key=["id"])


def applied(
    catalog: wt.Catalog,
    values: Any,
    batch: int | None = None,
    *,
    key: list[str] | None = None,
    **settings: Any,
) -> DebeziumResult:
    return apply_debezium(
        catalog,
        "db.t",
        values,
        commit_user="cdc/t",
        commit_identifier=batch,
        key=key,
        settings=DebeziumSettings(**settings),
    )


def rows_of(catalog: wt.Catalog, name: str = "db.t") -> list[dict[str, Any]]:
    key = catalog.table(name).schema.primary_keys
    rows = catalog.table(name).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: [row[column] for column in key])


def errors_of(catalog: wt.Catalog) -> list[dict[str, Any]]:
    return rows_of(catalog, "db.__cdc_errors")


def row(id: int, name: str | None = None, big: str | None = None) -> dict[str, Any]:
    return {"id": id, "name": name, "big": big}


def test_a_key_that_is_made_changed_and_deleted_in_a_batch_is_not_visible(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    result = applied(
        catalog,
        [
            record("c", None, row(1, "a")),
            record("u", None, row(1, "b")),
            record("u", None, row(1, "c")),
            record("d", row(1), None),
        ],
    )
    assert rows_of(catalog) == []
    assert (result.committed, result.rows, result.records) == (True, 1, 4)


@pytest.mark.parametrize("columns", [None, T])
def test_a_value_that_is_not_carried_is_the_old_one(
    catalog: wt.Catalog, table: wt.Table, columns: tuple[Column, ...] | None
) -> None:
    applied(catalog, [record("c", None, row(1, "a", BIG), columns=columns)])
    applied(catalog, [record("u", None, row(1, "b", UNAVAILABLE), columns=columns)])
    assert rows_of(catalog) == [row(1, "b", BIG)]


def test_tombstones_and_messages_are_skipped_and_counted(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    message = '{"op":"m","ts_ms":1,"source":{},"message":{"prefix":"p","content":"AA=="}}'
    values = [record("c", None, row(1, "a")), None, "null", message]
    values.append('{"schema":null,"payload":null}')
    keys = [key_of(1), key_of(1), key_of(1), None, key_of(1)]
    data = pa.table({"key": pa.array(keys), "value": pa.array(values)})
    result = applied(catalog, data)
    assert (result.records, result.tombstones, result.messages, result.bad) == (5, 3, 1, 0)
    assert rows_of(catalog) == [row(1, "a")]


def test_a_batch_that_comes_again_gives_the_same_snapshot(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    values = [record("c", None, row(1, "a")), "{"]
    first = applied(catalog, values, 7)
    again = applied(catalog, values, 7)
    assert first.committed
    assert not again.committed
    assert again.snapshot_id == first.snapshot_id
    assert len(errors_of(catalog)) == 1


def test_a_value_that_is_no_json_is_one_error_row_and_the_batch_commits(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    result = applied(catalog, [record("c", None, row(1)), "{", record("c", None, row(2))], 3)
    assert (result.committed, result.bad) == (True, 1)
    assert rows_of(catalog) == [row(1), row(2)]
    (error,) = errors_of(catalog)
    assert (error["name"], error["relation"], error["lsn"], error["position"]) == (
        *("cdc/t", "db.t"),
        *(3, 1),
    )
    assert (error["row"], error["reason"]) == ("{", "the value is no JSON object")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff{}", "the value is not UTF-8"),
        ("[1]", "the value is no JSON object"),
        ('{"id":1}', "the value is no envelope of Debezium: it has no op"),
        ('{"op":"x","after":{"id":1}}', "the operation is unknown"),
        ('{"op":"create","after":{"id":1}}', "the operation is unknown"),
        ('{"op":"c","after":null}', "the row after the change is missing"),
        ('{"op":"u","after":{"name":"a"}}', "the key id is missing or null"),
        ('{"op":"c","after":{"id":null}}', "the key id is missing or null"),
        ('{"op":"d","before":null}', "the key id is missing or null"),
        ('{"op":"c","after":{"id":1.5}}', "column 'id' of type int32 does not hold the value"),
        (
            f'{{"op":"u","after":{{"id":9,"big":"{UNAVAILABLE}"}}}}',
            "column 'big': Debezium did not send the value, and neither the batch nor the table has it",
        ),
    ],
)
def test_a_record_that_cannot_be_applied_is_parked(
    catalog: wt.Catalog, table: wt.Table, value: Any, reason: str
) -> None:
    good = record("c", None, row(1, "a"))
    result = applied(catalog, [good, value, record("c", None, row(2))])
    assert result.bad == 1
    assert [each["reason"] for each in errors_of(catalog)] == [reason]
    assert rows_of(catalog) == [row(1, "a"), row(2)]


@pytest.mark.parametrize("value", ['{"op":"d","before":null}', "{"])
def test_a_batch_of_bad_records_alone_is_parked(
    catalog: wt.Catalog, table: wt.Table, value: str
) -> None:
    result = applied(catalog, [value], 1)
    assert (result.committed, result.bad) == (False, 1)
    assert len(errors_of(catalog)) == 1


def test_on_error_stop_commits_nothing(catalog: wt.Catalog, table: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match="1 record that cannot be applied; record 1: the val"):
        applied(catalog, [record("c", None, row(1)), "{"], on_error="stop")
    assert rows_of(catalog) == []
    assert catalog.list_tables("db") == ["db.t"]


def test_the_next_change_of_a_parked_row_is_applied(catalog: wt.Catalog, table: wt.Table) -> None:
    applied(catalog, ['{"op":"c","after":{"id":1,"name":[1]}}', '{"op":"c","after":{"id":1.5}}'])
    applied(catalog, [record("u", None, row(1, "a"))])
    assert rows_of(catalog) == [row(1, "a")]


def test_null_is_a_value(catalog: wt.Catalog, table: wt.Table) -> None:
    applied(catalog, [record("c", None, row(1, "a", "b"))])
    applied(catalog, [record("u", None, row(1, None, "b"))])
    assert rows_of(catalog) == [row(1, None, "b")]


def test_a_changed_key_moves_the_row_with_all_its_values(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    """One record with another key in `before`, and Debezium's pair of a delete and an insert of one event."""
    applied(catalog, [record("c", None, row(1, "a", BIG)), record("c", None, row(2, "b", BIG))])
    result = applied(
        catalog,
        [
            record("u", row(1), row(10, "a", UNAVAILABLE), lsn=900),
            record("d", row(2), None, lsn=901),
            None,
            record("c", None, row(20, "b", UNAVAILABLE), lsn=901),
        ],
    )
    assert result.bad == 0
    assert rows_of(catalog) == [row(10, "a", BIG), row(20, "b", BIG)]


def test_a_row_that_moves_twice_in_a_batch_keeps_its_values(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    applied(
        catalog,
        [
            record("c", None, row(2, "b", BIG), lsn=900),
            record("d", row(2), None, lsn=901),
            record("c", None, row(20, "b", UNAVAILABLE), lsn=901),
            record("d", row(20), None, lsn=902),
            record("c", None, row(30, "c", UNAVAILABLE), lsn=902),
        ],
    )
    assert rows_of(catalog) == [row(30, "c", BIG)]


def test_the_row_before_gives_a_value_that_is_not_carried(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    applied(catalog, [record("u", row(1, "a", BIG), row(1, "b", UNAVAILABLE))])
    assert rows_of(catalog) == [row(1, "b", BIG)]


@pytest.mark.parametrize("placeholder", ["gone", "hex:676f6e65"])
def test_the_placeholder_may_be_another_one(
    catalog: wt.Catalog, table: wt.Table, placeholder: str
) -> None:
    applied(catalog, [record("c", None, row(1, "a", UNAVAILABLE))], placeholder=placeholder)
    applied(catalog, [record("u", None, row(1, "b", "gone"))], placeholder=placeholder)
    assert rows_of(catalog) == [row(1, "b", UNAVAILABLE)]


def test_a_delete_without_its_row_has_the_key_of_the_record(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    applied(catalog, [record("c", None, row(1)), record("c", None, row(2))])
    keys = ['{"schema":{},"payload":{"id":1}}', key_of(2)]
    data = pa.table({"key": keys, "value": ['{"op":"d","before":null}'] * 2})
    assert applied(catalog, data).bad == 0
    assert rows_of(catalog) == []


TRUNCATE = record("t", None, None)


def test_a_truncate_deletes_each_row_and_what_comes_behind_it_stays(
    catalog: wt.Catalog,
) -> None:
    catalog.create_table(
        "db.t", COLUMNS, primary_key=["id"], options={"changelog-producer": "lookup"}
    )
    before = applied(catalog, [record("c", None, row(id)) for id in (1, 2, 3)]).snapshot_id
    values = [record("u", None, row(2, "b")), TRUNCATE, record("c", None, row(3, "new"))]
    values.append(record("u", None, row(1, "x", UNAVAILABLE)))
    result = applied(catalog, values)
    assert rows_of(catalog) == [row(3, "new")]
    assert result.bad == 1
    opened = catalog.table("db.t")
    assert before is not None
    changes = opened.changes(before + 1, opened.snapshots()[-1].id).to_pylist()
    assert sorted(each["id"] for each in changes if each["_row_kind"] == "-D") == [1, 2]


def test_a_truncate_may_be_ignored_or_stop(catalog: wt.Catalog, table: wt.Table) -> None:
    applied(catalog, [record("c", None, row(1))])
    applied(catalog, [TRUNCATE, record("c", None, row(2))], truncate="ignore")
    assert not applied(catalog, [TRUNCATE], truncate="ignore").committed
    assert rows_of(catalog) == [row(1), row(2)]
    with pytest.raises(wt.InvalidError, match="a truncate in the source"):
        applied(catalog, [TRUNCATE], truncate="stop")


def test_schemas_make_the_table_add_columns_and_widen_types(catalog: wt.Catalog) -> None:
    first = (("id", "int32", False), ("n", "int32", True))
    second = (*first[:1], ("n", "int64", True), ("extra", "string", True))
    applied(catalog, [record("c", None, {"id": 1, "n": 1}, columns=first)], key=["id"])
    opened = catalog.table("db.t")
    assert opened.schema.primary_keys == ("id",)
    assert str(opened.arrow_schema.field("n").type) == "int32"
    later = {"id": 2, "n": 2**40, "extra": "e"}
    applied(
        catalog,
        [
            record("u", None, {"id": 1, "n": 5}, columns=first),
            record("c", None, later, columns=second),
        ],
    )
    assert rows_of(catalog) == [{"id": 1, "n": 5, "extra": None}, later]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no such table, and no key"),
        ({"key": ["id"]}, "field 'id' of record 0: .* a table that is there"),
    ],
)
def test_without_a_schema_a_table_is_needed(
    catalog: wt.Catalog, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(wt.InvalidError, match=message):
        applied(catalog, [record("c", None, row(1))], **settings)


def test_without_a_schema_an_unknown_field_is_refused_by_its_name(
    catalog: wt.Catalog, table: wt.Table
) -> None:
    with pytest.raises(wt.InvalidError, match="field 'extra' of record 1"):
        applied(catalog, [record("c", None, row(1)), record("c", None, {**row(2), "extra": 1})])
    assert rows_of(catalog) == []


def with_positions(catalog: wt.Catalog) -> None:
    columns = {**COLUMNS, "_position": "BIGINT"}
    catalog.create_table(
        "db.t", columns, primary_key=["id"], options={"sequence.field": "_position"}
    )


def test_a_sequence_field_takes_the_position_and_older_records_do_not_win(
    catalog: wt.Catalog,
) -> None:
    with_positions(catalog)
    values = [record("c", None, row(1, "new"), lsn=901), record("c", None, row(1, "old"), lsn=900)]
    assert applied(catalog, values).late == 1
    applied(catalog, [record("d", row(1), None, lsn=899)])
    assert rows_of(catalog) == [{**row(1, "new"), "_position": 901}]
    applied(catalog, [record("d", row(1), None, lsn=902)])
    assert rows_of(catalog) == []


def test_a_record_without_a_position_is_parked_where_positions_count(catalog: wt.Catalog) -> None:
    with_positions(catalog)
    value = '{"op":"c","after":{"id":1},"source":{"db":"x"}}'
    assert applied(catalog, [value]).bad == 1
    assert errors_of(catalog)[0]["reason"].startswith("the source gives no position")


def test_a_sequence_field_of_the_records_is_refused(catalog: wt.Catalog) -> None:
    catalog.create_table("db.t", COLUMNS, primary_key=["id"], options={"sequence.field": "name"})
    with pytest.raises(wt.InvalidError, match="which their deletes do not carry"):
        applied(catalog, [record("c", None, row(1))])


def test_files_of_lines_are_read_in_their_order(
    catalog: wt.Catalog, table: wt.Table, tmp_path: Path
) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(record("c", None, row(1, "a")) + "\n\r\n\n" + record("c", None, row(2)))
    second.write_text(record("u", None, row(1, "b")) + "\n")
    assert applied(catalog, [first, second]).records == 3
    assert rows_of(catalog) == [row(1, "b"), row(2)]
    assert applied(catalog, str(second)).records == 1
    with pytest.raises(wt.InvalidError, match="a file that is there"):
        applied(catalog, str(tmp_path / "3.json"))


@pytest.mark.parametrize("data", [7, [7], pa.table({"v": [1]}), pa.table({"value": [1]})])
def test_other_data_is_refused(catalog: wt.Catalog, table: wt.Table, data: Any) -> None:
    with pytest.raises(wt.InvalidError):
        applied(catalog, data)


def test_keys_of_several_columns(catalog: wt.Catalog) -> None:
    columns = (("a", "int32", False), ("b", "string", False), ("v", "int32", True))
    values = [
        record("c", None, {"a": 1, "b": "x", "v": 1}, columns=columns),
        record("c", None, {"a": 1, "b": "y", "v": 2}, columns=columns),
        record("d", {"a": 1, "b": "x", "v": None}, None, columns=columns),
    ]
    applied(catalog, values, key=["b", "a"])
    assert rows_of(catalog) == [{"a": 1, "b": "y", "v": 2}]


@pytest.mark.parametrize("engine", ["partial-update", "first-row"])
def test_a_table_in_which_rows_do_not_replace_rows_is_refused(
    catalog: wt.Catalog, engine: str
) -> None:
    catalog.create_table("db.t", COLUMNS, primary_key=["id"], options={"merge-engine": engine})
    with pytest.raises(wt.InvalidError, match=f"merge engine '{engine}'"):
        applied(catalog, [record("c", None, row(1))])
