"""Lookup joins in which a left row may have many matches: by leading columns of the key, and by an index."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from tests.support.faults.faults import WRITES, Fault, FaultyFileIO
from widetable.commit.holds.lookup_pin import PinnedBatch
from widetable.commit.holds.pin_file import LookupPin, pinned_snapshots
from widetable.commit.holds.read_lease import held_snapshots
from widetable.derive.lookups import pinned_join as module
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.derive.lookups.joined_tables import INDEX, LookupJoin, new_lookup_join
from widetable.derive.lookups.pinned_join import PinnedJoin
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)
DAY = 86_400_000
PEOPLE = {"k": pa.int64(), "name": pa.string(), "city": pa.string()}
QUERY = "7ba1f9c6-5a2c-4f0c-9f1c-0d7ab1f0a001"
OSLO = [(1, "Ann", "Oslo"), (4, "Cid", "Oslo")]
# Each takes more than 2 GiB of memory, and half a minute.
WIDE = ["a left row"]
if os.environ.get("WIDETABLE_CAMPAIGN"):
    WIDE += ["a row", "one of several rows"]


@pytest.fixture
def dim(tmp_path: Path) -> wt.Table:
    """D of the acceptance cases with key 4, and an index on city that has seen all."""
    table = wt.Catalog(tmp_path).create_table(
        "db.d", PEOPLE, primary_key=["k"], options={"index.city": "db.by_city", "bucket": "2"}
    )
    put(table, (1, "Ann", "Oslo"), (2, "Bob", "Rome"))
    put(table, (4, "Cid", "Oslo"))
    table.maintain(once=True)
    return table


def put(table: wt.Table, *rows: tuple[Any, ...]) -> None:
    table.write([dict(zip(table.schema.names, row, strict=True)) for row in rows])


def index_of(table: wt.Table) -> wt.Table:
    return wt.Catalog(Path(table.path).parent.parent).table("db.by_city")


def cities(*rows: tuple[int, str | None]) -> pa.Table:
    ids, names = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "city": pa.array(names, pa.string())})


def joined(*arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
    batches = wt.lookup_join(*arguments, **named)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


# Case 11


def test_case_11_all_rows_of_a_value_in_key_order(dim: wt.Table) -> None:
    left = cities((50, "Oslo"), (51, "Paris"), (52, None), (53, "Oslo"))
    oslo = [(1, "Ann"), (4, "Cid")]
    assert joined(left, dim, ["city"]) == [
        *((50, "Oslo", *row) for row in oslo),
        (51, "Paris", None, None),
        (52, None, None, None),
        *((53, "Oslo", *row) for row in oslo),
    ]
    assert [row[0] for row in joined(left, dim, ["city"], how="inner")] == [50, 50, 53, 53]
    assert joined(left, dim, {"city": "city"}, ["name", "k"], prefix="d_")[1] == (
        50,
        "Oslo",
        "Cid",
        4,
    )
    assert [row[2:] for row in joined(left, dim, ["city"], ["k"])][:3] == [(1,), (4,), (None,)]
    assert [row[0] for row in joined(left, dim, ["city"], [])] == [50, 50, 51, 52, 53, 53]


def test_case_11_rows_are_those_that_the_index_has_seen(dim: wt.Table) -> None:
    put(dim, (1, "Anna", "Rome"))
    left = cities((50, "Oslo"), (51, "Rome"))
    before = [(50, "Oslo", 1, "Ann"), (50, "Oslo", 4, "Cid"), (51, "Rome", 2, "Bob")]
    assert joined(left, dim, ["city"]) == before
    dim.maintain(once=True)
    after = [(50, "Oslo", 4, "Cid"), (51, "Rome", 1, "Anna"), (51, "Rome", 2, "Bob")]
    assert joined(left, dim, ["city"]) == after


def test_an_index_that_was_never_fed_is_named_but_for_an_empty_table(tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.d", PEOPLE, primary_key=["k"], options={"index.city": "db.by_city"}
    )
    left = cities((50, "Oslo"))
    assert joined(left, table, ["city"]) == [(50, "Oslo", None, None)]
    assert joined(left, table, ["city"], how="inner") == []
    put(table, *OSLO)
    with pytest.raises(wt.NotFoundError, match=r"by_city.*never fed.*Run maintain"):
        wt.lookup_join(left, table, ["city"])


def test_who_joins_holds_both_tables(dim: wt.Table) -> None:
    index = index_of(dim)
    rows = wt.lookup_join(cities((50, "Oslo")), dim, ["city"])
    assert [len(held_snapshots(IO, TablePaths(each.path))) for each in (dim, index)] == [1, 1]
    del rows
    assert [held_snapshots(IO, TablePaths(each.path)) for each in (dim, index)] == [[], []]


# Pins of an index


def pinned(join: LookupJoin, batch_id: int) -> LookupPin:
    return join.pin(PinnedBatch(QUERY, "0", batch_id))


def planned(dim: Any) -> LookupJoin:
    return new_lookup_join(cities((50, "Oslo")).schema, dim, JoinArguments(["city"]))


def rows_of(join: LookupJoin, pin: LookupPin) -> list[tuple[Any, ...]]:
    batches = PinnedJoin(join, pin).joined(cities((50, "Oslo")).to_batches())
    return [tuple(row.values())[2:] for batch in batches for row in batch.to_pylist()]


def move_on(dim: wt.Table) -> None:
    """Another pair is the newest, and all others that may go are gone."""
    index = index_of(dim)
    for name in ("y", "z"):
        put(dim, (1, name, "Rome" if name == "y" else "Oslo"))
        dim.maintain(once=True, expire=False)
        index.compact(full=True)
    for table in (dim, index):
        table.compact(full=True)
        table.expire_snapshots(1, 1, 0)


def test_a_replay_joins_the_same_pair_whatever_expires(dim: wt.Table) -> None:
    join = planned(dim)
    pin = pinned(join, 0)
    assert pin.other_id(INDEX) == index_of(dim).snapshots()[-1].id
    move_on(dim)
    again = planned(dim.path)
    assert pinned(again, 0) == pin
    assert rows_of(again, pin) == [(1, "Ann"), (4, "Cid")]
    assert rows_of(again, pinned(again, 1)) == [(1, "z"), (4, "Cid")]
    pinned(again, 2)
    for table in (dim, index_of(dim)):
        files = sorted(path.name for path in Path(table.path, "service").glob("*-pin-*"))
        assert sorted(name.rpartition("-")[2] for name in files) == ["1", "2"]
        table.expire_snapshots(1, 1, 0)
    assert pin.other_id(INDEX) not in {s.id for s in index_of(dim).snapshots()}
    with pytest.raises(wt.NotFoundError, match="batch 0"):
        pinned(again, 0)


def test_a_pin_whose_index_was_rolled_back_is_refused(dim: wt.Table) -> None:
    join = planned(dim)
    pin = pinned(join, 0)
    index = index_of(dim)
    for hold in Path(index.path, "service").glob("*-pin-*"):
        hold.unlink()
    move_on(dim)
    assert pin.other_id(INDEX) not in {s.id for s in index.snapshots()}
    with pytest.raises(wt.NotFoundError, match=r"batch 0.*by_city"):
        pinned(join, 0)


def test_killed_at_any_step_of_a_pin_the_next_try_has_a_pair_that_stays(
    dim: wt.Table, tmp_path: Path
) -> None:
    """The operation fails and the publisher is gone with its leases; then all expires that may, and it comes again. At
    a read it leaves what it left behind the write before.
    """
    log = FaultyFileIO(IO)
    pinned(over(dim, log), 0)
    kinds = [kind for kind, _ in log.log]
    assert kinds.count("publish") == 2
    steps = [at for at, kind in enumerate(kinds) if kind in WRITES]
    for number, (at, fault) in enumerate(product(steps, (Fault.BEFORE, Fault.AFTER))):
        batch_id = number + 1
        faulty = FaultyFileIO(IO)
        faulty.fail(kinds[at], fault, skip=kinds[:at].count(kinds[at]))
        try:
            first: LookupPin | None = pinned(over(dim, faulty), batch_id)
        except wt.WidetableError:
            first = None
        move_on(dim)
        found = pinned(over(dim, IO), batch_id)
        assert first in (None, found)
        move_on(dim)
        assert pinned(over(dim, IO), batch_id) == found
        assert len(rows_of(over(dim, IO), found)) == 2
        held = pinned_snapshots(index_of(dim)._state())
        assert found.other_id(INDEX) >= held[0]


def over(dim: wt.Table, file_io: Any) -> LookupJoin:
    return planned(OpenTable(dim.path, file_io))


# Leading columns of the key


def test_leading_columns_give_all_rows_that_random_rows_have(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"a": pa.int32(), "b": pa.string(), "c": pa.int64(), "v": pa.string()}
    options = {"bucket": str(rng.randint(1, 3)), "bucket-key": "a"}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", schema, primary_key=["a", "b", "c"], options=options
    )
    model: dict[tuple[int, str, int], str] = {}
    for number in range(3):
        keys = {
            (rng.randrange(5), rng.choice("xyz"), rng.randrange(6))
            for _ in range(rng.randrange(60))
        }
        model |= {key: f"v{number}" for key in keys}
        put(table, *((*key, f"v{number}") for key in keys))
    for on in ({"ka": "a"}, {"kb": "b", "ka": "a"}, {"id": "c", "kb": "b", "ka": "a"}) * 4:
        for name in ("_FIRST_KEYS", "_MAX_KEYS", "_FIRST_ROWS", "_MAX_ROWS"):
            monkeypatch.setattr(module, name, rng.randint(1, 40))
        monkeypatch.setattr(module, "BATCH_BYTES", rng.choice([1, 500, 1 << 20]))
        how = rng.choice(["left", "inner"])
        rows: list[tuple[Any, ...]] = [
            (id % 6, rng.choice([None, *"wxyz"]), rng.choice([None, *range(7)]))
            for id in range(rng.randrange(100))
        ]
        given = pa.Table.from_pylist(
            [dict(zip(("id", "kb", "ka"), row, strict=True)) for row in rows],
            pa.schema({"id": pa.int64(), "kb": pa.string(), "ka": pa.int64()}),
        ).to_reader(max_chunksize=rng.randint(1, 50))
        expected: list[tuple[Any, ...]] = []
        for row in rows:
            of = dict(zip(("id", "kb", "ka"), row, strict=True))
            asked = [
                next((of[mine] for mine, d in on.items() if d == name), "any") for name in "abc"
            ]
            found = [
                (*row, *key, value)
                for key, value in sorted(model.items())
                if all(a in ("any", k) for a, k in zip(asked, key, strict=True))
            ]
            expected += found or ([(*row, None, None, None, None)] if how == "left" else [])
        assert joined(given, table, on, ["a", "b", "c", "v"], how=how) == expected


def test_by_default_the_rest_of_the_key_comes_too(tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"a": pa.int64(), "b": pa.int64(), "v": pa.string()},
        primary_key=["a", "b"],
        options={"bucket-key": "a"},
    )
    put(table, (1, 7, "x"), (1, 8, "y"))
    left = pa.table({"a": [1, 2]})
    assert joined(left, table, ["a"]) == [(1, 7, "x"), (1, 8, "y"), (2, None, None)]
    kinds = left.append_column("_row_kind", pa.array(["-D", "+I"]))
    given = JoinArguments(["a"], ["v"], how="inner", retractions="key-only")
    join = new_lookup_join(kinds.schema, table, given)
    rows = PinnedJoin(join, join.newest().pin).joined(kinds.to_batches())
    assert [batch.to_pydict() for batch in rows] == [{"a": [1], "_row_kind": ["-D"], "v": [None]}]


def test_the_refusal_of_changes_names_the_page_that_sums_them(dim: wt.Table) -> None:
    left = pa.table({"k": [1], "_row_kind": ["-U"]})
    with pytest.raises(wt.InvalidError, match=r"_row_kind.*widen\.<foreign key>") as refused:
        wt.lookup_join(left, dim, ["k"])
    page = "docs/replace-a-three-stream-join.md"
    assert page in str(refused.value)
    assert (Path(__file__).parents[4] / page).exists()


def test_columns_that_are_named_are_those_that_come_whichever_way_the_join_goes(
    dim: wt.Table, tmp_path: Path
) -> None:
    parts = wt.Catalog(tmp_path).create_table(
        "db.parts", PEOPLE, primary_key=["city", "k"], options={"bucket-key": "city"}
    )
    put(parts, (1, "Ann", "Oslo"), (4, "Cid", "Oslo"))
    left = pa.table({"id": [50], "k": [1], "city": ["Oslo"]})
    by_key = (dim, {"k": "k"}, 1)
    by_index = (dim, {"city": "city"}, 2)
    by_prefix = (parts, {"city": "city"}, 2)
    for table, on, matches in (by_key, by_index, by_prefix):
        for columns in (["name"], ["name", "k"], ["city", "k"]):
            rows = wt.lookup_join([left.to_batches()[0]], table, on, columns, prefix="d_")
            found = pa.Table.from_batches(rows)
            assert found.num_rows == matches
            assert found.column_names[3:] == [f"d_{name}" for name in columns]


# Memory


def test_many_matches_come_in_bounded_pieces_and_are_looked_up_once(
    dim: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 left rows with 3,000 matches each: 3 million rows, never at once."""
    put(dim, *((k, "x" * 20, "Big") for k in range(100, 3_100)))
    dim.maintain(once=True)
    monkeypatch.setattr(module, "BATCH_BYTES", 1 << 20)
    rows, most = 0, 0
    before = pa.total_allocated_bytes()
    for batch in wt.lookup_join(cities(*((id, "Big") for id in range(1_000))), dim, ["city"]):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.nbytes < 4 << 20
    assert rows == 3_000_000
    assert most < 32 << 20


def test_fewer_left_rows_are_looked_up_where_they_have_many_matches(
    dim: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(dim, *((k, "x" * 50, f"c{k % 100}") for k in range(100, 10_100)))
    dim.maintain(once=True)
    monkeypatch.setattr(module, "_BYTES", 64 << 10)
    asked: list[int] = []
    real = module.PinnedJoin._matches

    def counted(join: PinnedJoin, keys: pa.Table) -> Any:
        asked.append(keys.num_rows)
        return real(join, keys)

    monkeypatch.setattr(module.PinnedJoin, "_matches", counted)
    left = cities(*((id, f"c{id % 100}") for id in range(400)))
    rows: Iterator[pa.RecordBatch] = wt.lookup_join(left, dim, ["city"])
    assert sum(batch.num_rows for batch in rows) == 40_000
    assert asked[0] == 256
    assert len(asked) > 2
    assert max(asked[1:]) < 64


@pytest.mark.slow
@pytest.mark.parametrize("wide", WIDE)
def test_rows_that_fill_no_array_together_come_in_several(tmp_path: Path, wide: str) -> None:
    """One value of 8 MiB, 300 times: more than the 2 GiB of text that an array holds. Most rows are narrow."""
    times, text = 300, "x" * (8 << 20)
    options = {"bucket-key": "k", "widetable.fsync": "false"}
    orders = wt.Catalog(tmp_path).create_table(
        "db.o",
        {"k": pa.int64(), "n": pa.int64(), "v": pa.string()},
        primary_key=["k", "n"],
        options=options,
    )
    on, keys, lefts = ["k"], [0] * times + list(range(3000)), ["y"] * (times + 3000)
    rows = {"k": list(range(3000)), "n": [0] * 3000, "v": [text] + ["y"] * 2999}
    if wide == "a row":
        on = ["k", "n"]
    if wide == "a left row":
        keys, lefts = list(range(3000)), [text] + ["y"] * 2999
        rows = {"k": [0] * times, "n": list(range(times)), "v": ["y"] * times}
    orders.write(rows)
    left = pa.table({"k": keys, "l": lefts})
    if wide == "a row":
        left = left.append_column("n", pa.array([0] * len(keys)))
    found = Counter[tuple[Any, ...]]()
    for batch in wt.lookup_join(left, orders, on, ["v"]):
        lengths = [pc.binary_length(batch.column(name)).to_pylist() for name in ("l", "v")]
        found.update(zip(batch.column("k").to_pylist(), *lengths, strict=True))
    expected: dict[tuple[Any, ...], int] = {(0, 1, len(text)): times + 1}
    if wide == "a left row":
        expected = {(0, len(text), 1): times}
    narrow = None if wide == "a left row" else 1
    assert found == expected | {(k, 1, narrow): 1 for k in range(1, 3000)}


# Refused at the call


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (
            {"on": ["name"]},
            wt.InvalidError,
            r"on.*columns name .*whole primary key: k; or the columns of an index: city; "
            "or the columns of an index: name, k",
        ),
        ({"on": ["city", "k"]}, wt.InvalidError, r"on.*the columns of an index: city"),
        (
            {"snapshot_id": 1, "prefix": "d_"},
            wt.InvalidError,
            r"snapshot_id.*by an index.*Omit snapshot_id",
        ),
        ({"partitions": "max_pt()"}, wt.InvalidError, "partitions"),
        ({"columns": ["city"]}, wt.InvalidError, r"'city'.*prefix="),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(
    dim: wt.Table, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    catalog = wt.Catalog(Path(dim.path).parent.parent)
    table = catalog.alter_table("db.d", set_options={"index.name,k": "db.by_name_k"})
    left = pa.table({"id": [50], "city": ["Oslo"], "k": [1], "name": ["x"]})
    with pytest.raises(error, match=match):
        wt.lookup_join(**{"batches": left, "dim": table, "on": ["city"], **arguments})
    assert held_snapshots(LocalFileIO(), TablePaths(dim.path)) == []


def test_parts_of_a_key_that_say_no_bucket_are_refused(tmp_path: Path) -> None:
    schema = {"dt": pa.int64(), "a": pa.int64(), "b": pa.int64(), "c": pa.int64()}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", schema, primary_key=list(schema), partition_by=["dt"], options={"bucket-key": "a,b"}
    )
    left = pa.table({name: [1] for name in schema})
    for on in (["a"], ["dt", "a"], ["a", "b"], ["dt", "b"]):
        with pytest.raises(wt.InvalidError, match=r"leading columns of it: dt, a, b\."):
            wt.lookup_join(left, table, on, prefix="d_")
    assert joined(left, table, ["dt", "a", "b"], prefix="d_") == [(1, 1, 1, 1, None)]
