"""Lookups by key: what a filter of the full scan gives, for every table, snapshot and way of finding rows."""

from __future__ import annotations

import datetime as dt
import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from widetable.operations.handle import lookup_caches

STRATEGY = "widetable.lookup-strategy"
KEY = pa.field("k", pa.int64(), nullable=False)

Row = Mapping[str, Any]


@pytest.fixture(scope="module", autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The caches of all these tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path_factory.mktemp("caches")))
        yield


def text_of(row: Row, names: Sequence[str]) -> str:
    return json.dumps([plain(row[name]) for name in names])


def expected_rows(
    table: wt.Table, keys: Sequence[Row], columns: Sequence[str], **how: Any
) -> list[str]:
    """By a scan of everything."""
    names = table.schema.primary_keys
    rows = {text_of(row, names): row for row in python_rows(table.scan(**how).to_arrow())}
    missing = dict.fromkeys(columns)
    return [text_of(rows.get(text_of(key, names), missing), columns) for key in keys]


def check_lookup(
    table: wt.Table, keys: Sequence[Row], columns: Sequence[str], snapshot_id: int | None = None
) -> None:
    arrow = table.schema.arrow_schema(table.schema.primary_keys)
    arrays = [pa.array([key[field.name] for key in keys], field.type) for field in arrow]
    given_keys = pa.table(arrays, names=arrow.names)
    found = table.lookup(given_keys, columns, snapshot_id)
    found.validate(full=True)
    assert found.num_rows == len(keys)
    assert found.schema == pa.schema(
        [f.with_nullable(True) for f in table.schema.arrow_schema(columns)]
    )
    rows = [text_of(row, columns) for row in python_rows(found)]
    assert rows == expected_rows(table, keys, columns, snapshot_id=snapshot_id)


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.data())
def test_a_lookup_is_a_filter_of_the_scan(data: st.DataObject) -> None:
    spec = data.draw(table_specs(), "table")
    strategy = data.draw(st.sampled_from(["auto", "scan", "lookup"]), "strategy")
    spec = spec.with_options({STRATEGY: strategy})
    names = spec.primary_key
    columns = data.draw(
        st.lists(st.sampled_from(spec.columns.names), min_size=1, unique=True), "columns"
    )
    absent: list[Row] = [{name: None for name in names}, {**spec.keys[0], names[-1]: None}]
    asked = data.draw(st.lists(st.sampled_from([*spec.keys, *absent]), max_size=8), "keys")
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", 2)
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(0, 4), "commits")):
            table.write(data_of(spec.schema, data.draw(stamped_commits(spec.schema, spec.keys))))
            if data.draw(st.integers(0, 3), "compact") == 0:
                table.compact(full=data.draw(st.booleans()))
        check_lookup(table, asked, columns)
        check_lookup(table, asked, spec.columns.names)
        for snapshot in table.snapshots():
            check_lookup(table, asked, columns, snapshot.id)


def create(
    folder: Path,
    columns: Sequence[pa.Field],
    options: Mapping[str, str] | None = None,
    *,
    key: Sequence[str] = ("k",),
    partition_by: Sequence[str] = (),
) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(columns),
        primary_key=key,
        partition_by=partition_by,
        options={"widetable.fsync": "false", "write-only": "true", **(options or {})},
    )


def keyed(keys: Sequence[int] | range, **columns: Sequence[Any]) -> pa.Table:
    return pa.table({"k": pa.array(list(keys), pa.int64()), **columns})


@pytest.fixture
def small(tmp_path: Path) -> wt.Table:
    """Keys 0 to 9; column a as far as 7, column b from 5; 3 is deleted."""
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = create(tmp_path, [KEY, pa.field("a", pa.string()), pa.field("b", pa.int32())], options)
    table.write(keyed(range(8), a=[f"a{k}" for k in range(8)]))
    table.write(keyed(range(5, 10), b=pa.array(range(5, 10), pa.int32())))
    table.write(keyed([3], a=["x"], b=pa.array([3], pa.int32()), _row_kind=["-D"]))
    return table


NOTHING = {"k": None, "a": None, "b": None}


def test_rows_come_in_the_order_of_the_keys(small: wt.Table) -> None:
    expected = [
        {"k": 9, "a": None, "b": 9},
        {"k": 0, "a": "a0", "b": None},
        NOTHING,  # not there
        {"k": 6, "a": "a6", "b": 6},
        NOTHING,  # deleted
        NOTHING,  # null
        {"k": 9, "a": None, "b": 9},
    ]
    keys = [9, 0, 100, 6, 3, None, 9]
    assert small.lookup(keys).to_pylist() == expected
    small.compact(full=True)
    assert small.lookup(keys).to_pylist() == expected


_FORMS: Mapping[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "array": pa.array,
    "chunks": lambda keys: pa.chunked_array([keys[:1], keys[1:]]),
    "other integers": lambda keys: pa.array(keys, pa.uint8()),
    "table": lambda keys: pa.table({"k": pa.array(keys, pa.int16())}),
    "record batch": lambda keys: pa.record_batch({"k": keys}),
    "reader": lambda keys: pa.table({"k": keys}).to_reader(),
    "dictionary": lambda keys: pa.table({"k": pa.array(keys).dictionary_encode()}),
    "dicts": lambda keys: [{"k": key} for key in keys],
    "series": lambda keys: pd.Series([0, *keys])[1:],
    "index": pd.Index,
    "frame": lambda keys: pd.DataFrame({"k": [0, *keys]})[1:],
}


@pytest.mark.parametrize("form", _FORMS.values(), ids=_FORMS)
def test_keys_are_taken_in_any_form(small: wt.Table, form: Callable[[list[int]], Any]) -> None:
    found = small.lookup(form([6, 1]), columns=["b", "a"])
    assert found.to_pylist() == [{"b": 6, "a": "a6"}, {"b": None, "a": "a1"}]
    assert found.column_names == ["b", "a"]


def test_without_keys_there_are_no_rows(small: wt.Table) -> None:
    for keys in ([], pa.table({"k": pa.array([], pa.int64())}), [None]):
        found = small.lookup(keys)
        assert found.schema.names == ["k", "a", "b"]
        assert found.to_pylist() == [NOTHING] * len(keys)
    assert small.lookup([1, 2, 3], columns=[]).num_rows == 3


def test_a_table_without_snapshots_has_no_rows(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("a", pa.string())])
    assert table.lookup([1, 2]).to_pylist() == [{"k": None, "a": None}] * 2


_KEYS_OF_EVERY_TYPE = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [-1, 5]),
    (pa.int16(), [-1, 5]),
    (pa.int32(), [-1, 5]),
    (pa.int64(), [-1, 2**60]),
    (pa.float32(), [0.1, -1.5]),
    (pa.float64(), [0.1, -1e300]),
    (pa.string(), ["", "ä"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.decimal128(10, 2), [1, -3]),
    (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]),
    (pa.time32("ms"), [0, 86_399_999]),
    (pa.timestamp("ms"), [-1, 1_700_000_000_000]),
    (pa.timestamp("us"), [-1, 1_700_000_000_000_001]),
    (pa.timestamp("ns"), [-1000, 1_700_000_000_000_001_000]),
    (pa.timestamp("us", "UTC"), [-1, 1_700_000_000_000_001]),
]


@pytest.mark.parametrize(("kind", "values"), _KEYS_OF_EVERY_TYPE, ids=lambda value: str(value))
def test_python_values_of_every_type_are_keys(
    tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    table = create(
        tmp_path, [pa.field("k", kind, False), pa.field("v", pa.int32())], {"bucket": "2"}
    )
    keys = pa.array(values, kind)
    table.write(pa.table({"k": keys, "v": pa.array([1, 2], pa.int32())}))
    given_values = values if pa.types.is_decimal(kind) else keys.to_pylist()
    for _ in range(2):
        assert table.lookup(given_values)["v"].to_pylist() == [1, 2]
        assert table.lookup(given_values)["k"] == pa.chunked_array([keys])
        assert table.lookup(keys[::-1])["v"].to_pylist() == [2, 1]
        table.compact(full=True)


def test_keys_of_several_columns_and_partitions(tmp_path: Path, rng: random.Random) -> None:
    columns = [
        pa.field("p", pa.int32(), False),
        pa.field("s", pa.string(), False),
        KEY,
        pa.field("v", pa.int64()),
    ]
    table = create(tmp_path, columns, {"bucket": "3"}, key=["k", "p", "s"], partition_by=["p"])
    for commit in range(3):
        chosen = [(rng.randrange(4), f"s{rng.randrange(5)}", rng.randrange(50)) for _ in range(100)]
        p, s, k = zip(*chosen, strict=True)
        table.write(keyed(k, p=pa.array(p, pa.int32()), s=s, v=[commit] * 100))
    keys = [{"s": f"s{i % 6}", "k": i % 50, "p": i % 5} for i in range(300)]
    for _ in range(2):
        check_lookup(table, keys, ["v", "s", "p", "k"])
        check_lookup(table, keys[:1], ["v"])
        assert table.lookup(keys, ["v"]) == table.lookup(pa.Table.from_pylist(keys), ["v"])
        table.compact(full=True)


def test_partitions_with_other_numbers_of_buckets(tmp_path: Path) -> None:
    """Paimon's clients may rescale a table: partitions that are not rewritten keep their number."""
    table = create(
        tmp_path,
        [pa.field("p", pa.int32(), False), KEY, pa.field("v", pa.int64())],
        {"bucket": "2"},
        key=["p", "k"],
        partition_by=["p"],
    )
    table.write(keyed(range(50), p=pa.array([1] * 50, pa.int32()), v=range(50)))
    schema = json.loads(Path(table.path, "schema/schema-0").read_text(encoding="utf-8"))
    schema["id"], schema["options"]["bucket"] = 1, "7"
    Path(table.path, "schema/schema-1").write_text(json.dumps(schema), encoding="utf-8")
    table.write(keyed(range(50), p=pa.array([2] * 50, pa.int32()), v=range(50)))
    keys = [{"p": p, "k": k} for k in range(51) for p in (1, 2, 3)]
    check_lookup(table, keys, ["v", "k", "p"])
    check_lookup(table, keys, ["v"], snapshot_id=1)
    assert table.lookup(keys[:0]).num_rows == 0


def test_what_decides_between_rows_is_read_though_nobody_asks_for_it(tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "a"}
    table = create(tmp_path, [KEY, pa.field("g", pa.int32()), pa.field("a", pa.string())], options)
    for g, a in ((5, "late"), (9, "last"), (7, "overtaken")):
        table.write(keyed([1], g=pa.array([g], pa.int32()), a=[a]))
    assert table.lookup([1], ["a"]).to_pylist() == [{"a": "last"}]


def test_an_older_snapshot_has_its_own_columns(small: wt.Table) -> None:
    catalog = wt.Catalog(str(Path(small.path).parent.parent))
    catalog.alter_table("db.t", rename_columns={"b": "c"}, add_columns=[pa.field("d", pa.int32())])
    small.write(keyed([6], c=pa.array([66], pa.int32()), d=pa.array([1], pa.int32())))
    assert small.lookup([6, 9]).to_pylist() == [
        {"k": 6, "a": "a6", "c": 66, "d": 1},
        {"k": 9, "a": None, "c": 9, "d": None},
    ]
    assert small.lookup([6, 9], snapshot_id=2).to_pylist() == [
        {"k": 6, "a": "a6", "b": 6},
        {"k": 9, "a": None, "b": 9},
    ]


def test_a_lookup_touches_only_files_that_may_hold_its_keys(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("v", pa.int64())], {"bucket": "8"})
    for commit in range(3):
        table.write(keyed(range(commit * 500, commit * 500 + 1000), v=[commit] * 1000))
    file_io = CountingFileIO()
    counted = wt.Table.open(table.path, file_io=file_io)
    assert counted.lookup([777])["v"].to_pylist() == [1]
    assert len({Path(path).parent for path in file_io.opened}) == 1
    assert len(file_io.opened) == 2  # the key range of the third commit starts after the key
    file_io.opened.clear()
    assert counted.lookup([-1, 5000])["v"].to_pylist() == [None, None]
    assert file_io.opened == []


@pytest.fixture
def compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Table:
    """1,000 keys in the bottom level of two buckets, with texts as keys: these have an index in their cache."""
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    columns = [
        pa.field("k", pa.string(), False),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
    ]
    table = create(tmp_path, columns, {"bucket": "2", STRATEGY: "lookup"})
    keys = [f"key-{k:04}" for k in range(1000)]
    table.write(pa.table({"k": keys, "a": range(1000), "b": keys}))
    table.compact(full=True)
    return table


def test_caches_answer_without_the_data_file(compacted: wt.Table) -> None:
    file_io = CountingFileIO()
    table = wt.Table.open(compacted.path, file_io=file_io)
    for opened in (2, 0):
        file_io.opened.clear()
        found = table.lookup(["key-0900", "none", "key-0001"], ["a"])
        assert found.to_pylist() == [{"a": 900}, {"a": None}, {"a": 1}]
        assert len(file_io.opened) == opened


def test_damaged_caches_are_survived(
    compacted: wt.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rng: random.Random,
) -> None:
    keys = [f"key-{rng.randrange(1100):04}" for _ in range(300)]
    expected = compacted.lookup(keys)
    assert expected["a"].to_pylist() == [int(k[4:]) if k < "key-1000" else None for k in keys]
    for round in range(8):
        # What another process left, which this one has not opened yet.
        left = tmp_path / f"caches {round}"
        shutil.copytree(tmp_path / "caches", left)
        files = sorted(path for path in left.rglob("*") if path.is_file() and path.stat().st_size)
        for path in rng.sample(files, len(files) // 2):
            damage(path, rng)
        monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(left))
        for _ in range(2):
            assert compacted.lookup(keys) == expected
            assert compacted.lookup(keys[:3], ["b"]) == expected.select(["b"]).slice(0, 3)


def damage(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        path.write_bytes(data[: rng.randrange(len(data))])
        return
    for _ in range(max(1, len(data) // 1000)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def test_without_room_for_caches_files_are_scanned(compacted: wt.Table) -> None:
    wt.Catalog(str(Path(compacted.path).parent.parent)).alter_table(
        "db.t", set_options={"lookup.cache-max-disk-size": "1 kb"}
    )
    assert compacted.lookup(["key-0007"], ["a"]).to_pylist() == [{"a": 7}]


@pytest.mark.parametrize(
    ("keys", "error", "names"),
    [
        ("key", wt.InvalidError, "a list of values"),
        (7, wt.InvalidError, "a list of values"),
        ({"k": 1}, wt.InvalidError, "'k'.* 1 of type int"),
        (["one"], wt.InvalidError, "'k'"),
        ([1.5], wt.InvalidError, "'k'"),
        ([1, "one"], wt.InvalidError, "'k'"),
        ([2**63], wt.InvalidError, "'k'"),
        ([{"k": 1}, 2], wt.InvalidError, "among dicts"),
        ([{"a": "x"}], wt.InvalidError, "without it"),
        ([{"k": 1, "a": "x"}], wt.InvalidError, "not in the primary key.* Leave the column out"),
        (pa.table({"a": ["x"]}), wt.InvalidError, "without it"),
        (pa.table({"k": [1], "other": [1]}), wt.InvalidError, "'other'"),
        (pa.table([[1], [1]], names=["k", "k"]), wt.InvalidError, "twice"),
        (pa.table({"k": ["1"]}), wt.InvalidError, "BIGINT"),
        (pa.table({"k": pa.array([2**63], pa.uint64())}), wt.InvalidError, "does not fit"),
    ],
)
def test_wrong_keys_are_reported(
    small: wt.Table, keys: Any, error: type[wt.WidetableError], names: str
) -> None:
    with pytest.raises(error, match=names) as caught:
        small.lookup(keys)
    assert caught.value.action
    cause = caught.value.__cause__  # of rows and casts, once
    assert not isinstance(cause and cause.__cause__, wt.WidetableError)


def test_values_alone_are_no_keys_of_several_columns(tmp_path: Path) -> None:
    table = create(tmp_path, [KEY, pa.field("s", pa.string(), False)], key=["k", "s"])
    for keys in ([1], pa.array([1]), [(1, "x")]):
        with pytest.raises(wt.InvalidError, match="with the columns k, s"):
            table.lookup(keys)


def test_unknown_columns_and_snapshots_are_reported(small: wt.Table) -> None:
    with pytest.raises(wt.NotFoundError, match="nope"):
        small.lookup([1], columns=["a", "nope"])
    with pytest.raises(wt.NotFoundError, match="snapshot 17"):
        small.lookup([1], snapshot_id=17)
    Path(small.path, "snapshot", "snapshot-1").unlink()
    Path(small.path, "snapshot", "EARLIEST").write_text("2", encoding="utf-8")
    with pytest.raises(wt.NotFoundError, match="an id from 2 to 3"):
        small.lookup([1], snapshot_id=1)


def test_why_there_are_no_caches_is_said_once(
    small: wt.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lookup_caches, "_PACKAGE", "no_such_package")
    monkeypatch.setattr(lookup_caches, "_logged", set())
    with caplog.at_level(logging.INFO, "widetable"):
        for _ in range(2):
            assert small.lookup([1], ["a"]).to_pylist() == [{"a": "a1"}]
        (missing,) = caplog.records
        assert "no_such_package" in missing.getMessage()
        wt.Catalog(str(Path(small.path).parent.parent)).alter_table(
            "db.t", set_options={"lookup.cache-max-disk-size": "0"}
        )
        small.lookup([1])
        assert "lookup.cache-max-disk-size" in caplog.records[1].getMessage()
        wt.Catalog(str(Path(small.path).parent.parent)).alter_table(
            "db.t", set_options={STRATEGY: "scan"}
        )
        small.lookup([1])
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert len(caplog.records) == 2


@pytest.mark.parametrize("few", [0, 4096])
def test_more_text_than_an_array_holds_is_reported(
    small: wt.Table, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    def overflowing(*_: Any) -> pa.Array:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr("widetable.operations.queries.lookup_view._FEW", few)
    monkeypatch.setattr("widetable.operations.queries.row_gather.take", overflowing)
    monkeypatch.setattr(
        "widetable.operations.queries.row_gather.pc", SimpleNamespace(take=overflowing)
    )
    with pytest.raises(wt.InvalidError, match="fewer keys"):
        small.lookup([1, 1], ["a"])
