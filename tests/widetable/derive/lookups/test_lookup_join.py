"""Lookup joins of batches at hand, and the rules that all lookup joins have."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from widetable.commit.holds.read_lease import held_snapshots
from widetable.derive.lookups import lookup_join
from widetable.derive.lookups import pinned_join as module
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.derive.lookups.joined_tables import LookupJoin, new_lookup_join
from widetable.derive.lookups.pinned_join import PinnedJoin
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

COLUMNS = {"k": pa.int64(), "name": pa.string(), "city": pa.string()}
Dim = dict[Any, dict[str, Any]]


@pytest.fixture
def dim(tmp_path: Path) -> wt.Table:
    """1 and 2 are there, 3 was and is not."""
    table = wt.Catalog(tmp_path).create_table(
        "db.people", COLUMNS, primary_key=["k"], options={"bucket": "2"}
    )
    rows = {"k": [1, 2, 3], "name": ["Ann", "Bob", "Cid"], "city": ["Oslo", "Rome", "Kyiv"]}
    table.write(pa.table(rows))
    table.write([{"k": 3, "name": "Cid", "city": "Kyiv", "_row_kind": "-D"}])
    return table


def left(*rows: tuple[Any, ...], names: str = "id k", key: pa.DataType | None = None) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    types = [pa.int64(), key or pa.int64()]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names.split())


def joined(*arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
    batches = wt.lookup_join(*arguments, **named)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


LEFT = left((10, 1), (11, 2), (12, 3), (13, None), (14, 9), (15, 1))


# Rows


def test_rows_keep_their_order_and_misses_are_null(dim: wt.Table) -> None:
    assert joined(LEFT, dim, ["k"]) == [
        (10, 1, "Ann", "Oslo"),
        (11, 2, "Bob", "Rome"),
        (12, 3, None, None),
        (13, None, None, None),
        (14, 9, None, None),
        (15, 1, "Ann", "Oslo"),
    ]
    assert [row[0] for row in joined(LEFT, dim.path, ["k"], how="inner")] == [10, 11, 15]
    assert [row[0] for row in joined(LEFT, Path(dim.path), ["k"], [], how="inner")] == [10, 11, 15]
    assert joined(LEFT, dim, ["k"], []) == [tuple(row.values()) for row in LEFT.to_pylist()]


def test_a_row_of_nulls_is_found(dim: wt.Table) -> None:
    dim.write([{"k": 9, "name": None, "city": None}])
    assert joined(left((14, 9)), dim, ["k"], how="inner") == [(14, 9, None, None)]


def test_columns_come_in_the_order_asked_for_with_the_prefix(dim: wt.Table) -> None:
    (batch,) = wt.lookup_join(LEFT, dim, ["k"], ["city", "k"], prefix="d_")
    assert batch.schema.names == ["id", "k", "d_city", "d_k"]
    assert batch.schema.field("d_k").nullable
    assert batch["d_k"].to_pylist() == [1, 2, None, None, None, 1]


def test_a_table_without_snapshots_has_no_rows(tmp_path: Path) -> None:
    empty = wt.Catalog(tmp_path).create_table("db.e", COLUMNS, primary_key=["k"])
    assert joined(left((1, 1)), empty, ["k"]) == [(1, 1, None, None)]
    assert joined(left((1, 1)), empty, ["k"], how="inner") == []


@pytest.mark.parametrize("rows", [0, 1])
def test_every_form_of_batches_is_taken(dim: wt.Table, rows: int) -> None:
    given = LEFT.slice(0, rows)
    expected = [(10, 1, "Ann", "Oslo")][:rows]
    (batch,) = given.to_batches() or [pa.RecordBatch.from_pylist([], given.schema)]
    for form in (given, batch, [batch], iter([batch]), given.to_reader(), given.to_batches):
        if not callable(form):
            assert joined(form, dim, ["k"]) == expected


def columns_of_every_type() -> list[pa.Array]:
    """Of four rows each, with the types that are no columns of ours, and that Arrow itself can do little with."""
    texts = pa.array(["", "a text that is too long to lie within a view", None, "b"])
    numbers = pa.array([1, 1, None, 2])
    kinds = pa.array([0, 1, 0, 1], pa.int8())
    offsets = pa.array([0, 1, 2, 3, 4], pa.int32())
    views = texts.cast(pa.string_view())
    runs = pc.run_end_encode(texts)
    return [
        views,
        texts.cast(pa.binary()).cast(pa.binary_view()),
        texts.cast(pa.large_string()),
        texts.dictionary_encode(),
        pa.DictionaryArray.from_arrays(numbers, views),
        runs,
        pc.run_end_encode(numbers),
        pa.StructArray.from_arrays([views, runs], ["views", "runs"]),
        pa.ListArray.from_arrays(offsets, views),
        pa.MapArray.from_arrays(offsets, pa.array(list("abcd")), views),
        pa.array([[1], None, [], [2, 3]], pa.list_view(pa.int32())),
        pa.array([[1], None, [], [2, 3]], pa.large_list_view(pa.int32())),
        pa.UnionArray.from_sparse(kinds, [numbers, texts]),
        pa.UnionArray.from_dense(kinds, pa.array([0, 0, 1, 1], pa.int32()), [numbers, texts]),
        pa.array([(1, 2, 3), None] * 2, pa.month_day_nano_interval()),
        pa.array([1, 2, None, 4], pa.decimal256(50, 2)),
        pa.array([np.float16(1.5), None] * 2, pa.float16()),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 4, pa.binary(16))),
        pa.nulls(4),
    ]


@pytest.mark.parametrize("column", columns_of_every_type(), ids=lambda each: str(each.type))
@pytest.mark.parametrize("how", ["left", "inner"])
def test_left_columns_may_have_any_type(
    tmp_path: Path, dim: wt.Table, how: str, column: pa.Array
) -> None:
    orders = wt.Catalog(tmp_path).create_table(
        "db.orders",
        {"k": pa.int64(), "n": pa.int64()},
        primary_key=["k", "n"],
        options={"bucket-key": "k"},
    )
    orders.write({"k": [1, 1, 2], "n": [1, 2, 3]})
    keys = pa.array([1, 9, 2, None], pa.int64())
    (batch,) = pa.table({"k": keys, "c": column}).to_batches()
    for table, matches in ((dim, [1, 0, 1, 0]), (orders, [2, 0, 1, 0])):
        for given in (batch, pa.concat_batches([batch, batch]).slice(4)):
            times = [max(each, 1) if how == "left" else each for each in matches]
            rows = pa.Table.from_batches(wt.lookup_join(given, table, ["k"], how=how))
            rows.validate(full=True)
            expected = [
                value for value, count in zip(column, times, strict=True) for _ in range(count)
            ]
            assert rows.schema.field("c").type == column.type
            assert rows["c"].to_pylist() == [value.as_py() for value in expected]


def test_it_joins_what_comes_while_it_runs(dim: wt.Table) -> None:
    """Batches are asked for as they are needed, and all joined with one snapshot."""
    asked: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(50):
            asked.append(number)
            yield pa.RecordBatch.from_pydict({"id": range(1000), "k": [1] * 1000})

    rows = wt.lookup_join(batches(), dim, ["k"])
    first = next(rows)
    assert (len(asked), first.num_rows) == (17, 1000)
    dim.write([{"k": 1, "name": "Ann", "city": "Bergen"}])
    assert {each["city"][0].as_py() for each in (first, *rows)} == {"Oslo"}


def test_a_snapshot_may_be_chosen_and_is_kept_while_it_is_joined(dim: wt.Table) -> None:
    dim.write([{"k": 1, "name": "Ann", "city": "Bergen"}])
    rows = wt.lookup_join(left((10, 1), (12, 3)), dim, ["k"], ["city"], snapshot_id=1)
    dim.compact()
    assert 1 not in dim.expire_snapshots(1, 1, 0).ids
    assert [row["city"] for batch in rows for row in batch.to_pylist()] == ["Oslo", "Kyiv"]
    assert held_snapshots(LocalFileIO(), TablePaths(dim.path)) == []
    assert 1 in dim.expire_snapshots(1, 1, 0).ids
    with pytest.raises(wt.NotFoundError, match="snapshot 1"):
        wt.lookup_join(LEFT, dim, ["k"], snapshot_id=1)


def test_who_never_begins_holds_nothing(dim: wt.Table) -> None:
    rows = wt.lookup_join(LEFT, dim, ["k"])
    assert held_snapshots(LocalFileIO(), TablePaths(dim.path)) == [2]
    del rows
    assert held_snapshots(LocalFileIO(), TablePaths(dim.path)) == []


@pytest.mark.parametrize(
    ("place", "name", "named"),
    [
        (lookup_join, "keep_join", {}),
        (lookup_join, "PinnedJoin", {}),
        (LookupJoin, "partitions_of", {"snapshot_id": 1}),
        (LookupJoin, "partitions_of", {"on": {"id": "city"}}),
    ],
)
def test_a_join_that_fails_at_a_step_of_its_beginning_holds_nothing(
    dim: wt.Table, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, named: dict[str, Any]
) -> None:
    catalog = wt.Catalog(Path(dim.path).parents[1])
    catalog.alter_table("db.people", set_options={"index.city": "db.by_city"})
    dim.maintain(once=True, expire=False)
    rows = pa.table({"id": ["Oslo"], "k": [1]})

    def fail(*_: Any, **__: Any) -> Any:
        raise wt.StorageError(dim.path, found="a fault", expected="none", action="Wait.")

    monkeypatch.setattr(place, name, fail)
    with pytest.raises(wt.StorageError) as raised:
        wt.lookup_join(rows, dim, **{"on": ["k"], "columns": ["name"], **named})
    assert raised.value.found == "a fault"
    assert held_snapshots(LocalFileIO(), TablePaths(dim.path)) == []
    assert held_snapshots(LocalFileIO(), TablePaths(catalog.table("db.by_city").path)) == []


def test_random_rows_are_joined_as_a_dict_does(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of two columns, repeated, missing and null; batches of all sizes, gathered in pieces of some rows."""
    schema = {"a": pa.int32(), "b": pa.string(), "v": pa.int64(), "w": pa.string()}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", schema, primary_key=["a", "b"], options={"bucket": str(rng.randint(1, 4))}
    )
    model: dict[tuple[int, str], tuple[int | None, str | None]] = {}
    for _ in range(rng.randint(1, 5)):
        written = {
            (rng.randrange(12), rng.choice("xyz")): (
                rng.choice([None, rng.randrange(1000)]),
                rng.choice([None, "t" * rng.randrange(9)]),
            )
            for _ in range(rng.randrange(1, 20))
        }
        table.write([{"a": a, "b": b, "v": v, "w": w} for (a, b), (v, w) in written.items()])
        model |= written
        gone = rng.sample(sorted(model), rng.randrange(len(model) // 2 + 1))
        if gone:
            table.write([{"a": a, "b": b, "v": 0, "w": "", "_row_kind": "-D"} for a, b in gone])
        for key in gone:
            del model[key]
    for how in ("left", "inner") * 5:
        budget = rng.randint(1, 60)
        monkeypatch.setattr(module, "_FIRST_ROWS", budget)
        monkeypatch.setattr(module, "_MAX_ROWS", budget)
        rows = [
            (id, rng.choice([None, *"wxyz"]), rng.choice([None, *range(14)]))
            for id in range(rng.randrange(200))
        ]
        given = pa.Table.from_pylist(
            [dict(zip(("id", "kb", "ka"), row, strict=True)) for row in rows],
            pa.schema({"id": pa.int64(), "kb": pa.string(), "ka": pa.int64()}),
        ).to_reader(max_chunksize=rng.randint(1, 50))
        expected = [
            (*row, *model.get((row[2], row[1]), (None, None)))
            for row in rows
            if how == "left" or (row[2], row[1]) in model
        ]
        assert joined(given, table, {"kb": "b", "ka": "a"}, how=how) == expected


# Partitions


@pytest.fixture
def days(tmp_path: Path) -> wt.Table:
    table = wt.Catalog(tmp_path).create_table(
        "db.days",
        {"dt": pa.date32(), "h": pa.int32(), "k": pa.int64(), "v": pa.string()},
        primary_key=["dt", "h", "k"],
        partition_by=["dt", "h"],
    )
    for day, hour, key, value in [
        (1, 9, 1, "old"),
        (2, 9, 1, "b"),
        (2, 9, 3, "d"),
        (2, 10, 1, "c"),
    ]:
        table.write([{"dt": dt.date(2025, 1, day), "h": hour, "k": key, "v": value}])
    return table


@pytest.mark.parametrize(
    ("partitions", "values"),
    [
        ("max_pt()", ["c", None, None]),
        (" max_two_pt() ", ["c", None, "d"]),
        ("dt=2025-01-01,h=9", ["old", None, None]),
        ("dt=2025-01-01,h=9;h=9,dt=2025-01-02", ["b", None, "d"]),
        ("dt=2031-01-01,h=0", [None, None, None]),
    ],
)
def test_partitions_that_are_read(
    days: wt.Table, partitions: str, values: list[str | None]
) -> None:
    asked = left((10, 1), (11, 2), (12, 3))
    rows = joined(asked, days, ["k"], partitions=partitions)
    assert [row[2] for row in rows] == values
    inner = joined(asked, days, ["k"], partitions=partitions, how="inner")
    assert [row[2] for row in inner] == [value for value in values if value]


def test_partitions_are_those_of_the_snapshot(days: wt.Table) -> None:
    rows = joined(left((10, 1)), days, ["k"], partitions="max_pt()", snapshot_id=1)
    assert rows == [(10, 1, "old")]
    empty = joined(left((10, 1)), days, {"k": "k"}, ["v"], partitions="max_pt()", how="inner")
    assert empty == [(10, 1, "c")]


def test_without_partitions_the_key_has_them(days: wt.Table) -> None:
    asked = pa.table({"day": [dt.date(2025, 1, 2)], "h": [9], "k": [3]})
    assert joined(asked, days, {"day": "dt", "h": "h", "k": "k"})[0][-1] == "d"
    with pytest.raises(wt.InvalidError, match=r"on.*dt, h, k"):
        wt.lookup_join(asked, days, ["k"])
    with pytest.raises(wt.InvalidError, match="without its partition columns: k"):
        wt.lookup_join(asked, days, {"day": "dt", "h": "h", "k": "k"}, partitions="max_pt()")


@pytest.mark.parametrize(
    "partitions", ["", "max_pt", "dt=2025-01-01", "dt=2025-01-01,h=x", "dt=1,h=1,h=2", ";", 7]
)
def test_words_that_name_no_partition_are_refused(days: wt.Table, partitions: Any) -> None:
    with pytest.raises(wt.InvalidError, match="partitions"):
        wt.lookup_join(LEFT, days, ["k"], partitions=partitions)


def test_partitions_of_a_table_that_has_none_are_refused(dim: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match="partitions"):
        wt.lookup_join(LEFT, dim, ["k"], partitions="max_pt()")


# Columns that came, went, and have other names


def test_a_snapshot_from_before_a_column_has_nulls_there(dim: wt.Table) -> None:
    catalog = wt.Catalog(Path(dim.path).parent.parent)
    catalog.alter_table("db.people", add_columns={"level": pa.int32()})
    assert joined(left((10, 1)), dim, ["k"], ["level", "name"]) == [(10, 1, None, "Ann")]
    assert joined(left((10, 1)), dim, ["k"], ["level"], how="inner") == [(10, 1, None)]
    assert joined(left((10, 1)), dim, ["k"], ["level"]) == [(10, 1, None)]


def test_columns_are_followed_to_new_names(dim: wt.Table) -> None:
    """By a join that was planned before, in a snapshot that came after, and the other way round."""
    catalog = wt.Catalog(Path(dim.path).parent.parent)
    planned = new_lookup_join(LEFT.schema, dim.path, JoinArguments(["k"], ["city", "name"]))
    catalog.alter_table("db.people", rename_columns={"city": "place"})
    dim.write([{"k": 1, "name": "Ann", "place": "Bergen"}])
    pin = planned.newest().pin
    (rows,) = PinnedJoin(planned, pin).joined(left((10, 1)).to_batches())
    assert rows.to_pylist() == [{"id": 10, "k": 1, "city": "Bergen", "name": "Ann"}]
    catalog.alter_table("db.people", rename_columns={"place": "town"})
    assert joined(left((10, 1)), dim, ["k"], ["town"]) == [(10, 1, "Bergen")]


def test_a_column_that_was_dropped_since_is_an_error(dim: wt.Table) -> None:
    planned = new_lookup_join(LEFT.schema, dim, JoinArguments(["k"]))
    wt.Catalog(Path(dim.path).parent.parent).alter_table("db.people", drop_columns=["city"])
    dim.write([{"k": 1, "name": "Ann"}])
    pin = planned.newest().pin
    with pytest.raises(wt.NotFoundError, match=r"'city'.*schema 1"):
        PinnedJoin(planned, pin)


def test_another_table_at_the_same_path_is_not_joined(dim: wt.Table) -> None:
    catalog = wt.Catalog(Path(dim.path).parent.parent)
    planned = pickle.loads(pickle.dumps(new_lookup_join(LEFT.schema, dim, JoinArguments(["k"]))))
    catalog.drop_table("db.people")
    catalog.create_table("db.people", COLUMNS, primary_key=["k"])
    pin = planned.newest().pin
    with pytest.raises(wt.InvalidError, match="dropped and made again"):
        PinnedJoin(planned, pin)


# Refused at the call


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"on": []}, wt.InvalidError, r"on.*whole primary key.*: k"),
        ({"on": ["id"]}, wt.InvalidError, r"on.*the columns id .*: k"),
        (
            {"on": {"id": "k", "k": "k"}},
            wt.InvalidError,
            r"on.*the column k of the joined table twice",
        ),
        ({"on": {"k": 1}}, wt.InvalidError, r"on\['k'\]"),
        ({"on": "k"}, wt.InvalidError, "on"),
        ({"on": None}, wt.InvalidError, "on"),
        ({"on": 7}, wt.InvalidError, "on"),
        ({"on": {"x": "k"}}, wt.NotFoundError, r"column 'x'.*left.*id, k"),
        ({"columns": ["nme"]}, wt.NotFoundError, r"'nme'.*name"),
        ({"columns": "name"}, wt.InvalidError, "columns"),
        ({"columns": ["name", "name"]}, wt.InvalidError, "columns"),
        ({"columns": ["k"]}, wt.InvalidError, r"'k'.*prefix="),
        ({"how": "outer"}, wt.InvalidError, "how.*'left' or 'inner'"),
        ({"how": None}, wt.InvalidError, "how"),
        ({"prefix": None}, wt.InvalidError, "prefix"),
        ({"snapshot_id": "1"}, wt.InvalidError, "snapshot_id"),
        ({"snapshot_id": 99}, wt.NotFoundError, "snapshot 99"),
        ({"dim": 7}, wt.InvalidError, "dim"),
        ({"dim": "/no/such/table"}, wt.NotFoundError, "/no/such/table"),
        ({"batches": 7}, wt.InvalidError, "batches"),
        ({"batches": "rows"}, wt.InvalidError, "batches"),
        ({"batches": []}, wt.InvalidError, "batches.*no batch"),
        ({"batches": [7]}, wt.InvalidError, "batches"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(
    dim: wt.Table, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    given = {"batches": LEFT, "dim": dim, "on": ["k"], **arguments}
    with pytest.raises(error, match=match):
        wt.lookup_join(**given)
    assert held_snapshots(LocalFileIO(), TablePaths(dim.path)) == []


def test_names_that_clash_are_refused(dim: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match=r"'city'.*prefix="):
        wt.lookup_join(LEFT.append_column("city", LEFT["id"]), dim, ["k"])
    with pytest.raises(wt.InvalidError, match=r"'id'.*twice"):
        wt.lookup_join(LEFT.append_column("id", LEFT["id"]), dim, ["k"])


def test_types_become_the_keys_as_writes_take_them(dim: wt.Table) -> None:
    for kind in (pa.int8(), pa.uint32(), pa.int32()):
        assert joined(left((10, 1), key=kind), dim, ["k"])[0][2:] == ("Ann", "Oslo")
    for kind in (pa.string(), pa.float64(), pa.bool_(), pa.date32()):
        with pytest.raises(wt.InvalidError, match=r"'k' of the left rows.*BIGINT"):
            wt.lookup_join(left((10, None), key=kind), dim, ["k"])
    large = pa.table({"id": [1], "k": pa.array([2**63], pa.uint64())})
    with pytest.raises(wt.InvalidError, match="'k' of the left rows"):
        list(wt.lookup_join(large, dim, ["k"]))


def test_rows_that_retract_are_refused(dim: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match="_row_kind"):
        wt.lookup_join(LEFT.append_column("_row_kind", pa.array(["+I"] * 6)), dim, ["k"])


def test_batches_of_other_columns_are_refused(dim: wt.Table) -> None:
    other = pa.RecordBatch.from_pydict({"id": [1], "key": [1]})
    with pytest.raises(wt.InvalidError, match="one schema"):
        list(wt.lookup_join([*LEFT.to_batches(), other], dim, ["k"]))
