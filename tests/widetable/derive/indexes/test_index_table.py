"""Index tables: what a scan of the base has of each value, at the snapshot that the index fits."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.widetable.derive.joins.indexed import DIM, by_city, dim, disturb, maintained, write
from widetable.commit.holds.read_lease import held_snapshots
from widetable.derive.indexes.index_table import SOURCE, feed_index
from widetable.schema.derived_options import index_options
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths


def test_case_11_an_index_gives_all_rows_of_a_value(tmp_path: Path) -> None:
    table = dim(tmp_path)
    assert maintained(table) == 2
    write(table, (4, "Cid", "Oslo"))
    assert maintained(table) == 1
    assert by_city(table, ["Oslo", "Paris", None, "Oslo"]) == [(0, 1), (0, 4), (3, 1), (3, 4)]
    write(table, (1, "Ann", "Rome"))
    assert by_city(table, ["Oslo"]) == [(0, 1), (0, 4)]  # the index has not seen it
    assert table.lookup_index(["Oslo"])["city"].to_pylist() == ["Oslo", "Oslo"]  # nor have the rows
    assert maintained(table) == 2
    assert by_city(table, ["Oslo", "Rome"]) == [(0, 4), (1, 1), (1, 2)]
    assert maintained(table) == 0


def test_what_changes_no_indexed_column_writes_nothing(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    write(table, (1, "Anna", "Oslo"), (2, "Bob", "Rome"))
    assert maintained(table) == 0
    assert table.lookup_index(["Oslo"], ["name"])["name"].to_pylist() == ["Anna"]


def test_a_lookup_that_is_refused_holds_no_snapshot(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    with pytest.raises(wt.NotFoundError) as raised:
        table.lookup_index(["Oslo"], ["nope"])
    assert "nope" in raised.value.subject
    for path in (table.path, wt.Catalog(str(tmp_path)).table("db.by_city").path):
        assert list(held_snapshots(LocalFileIO(), TablePaths(path))) == []


def test_the_snapshots_of_an_index_say_which_of_the_base_they_fit(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    latest = max(snapshot.id for snapshot in table.snapshots())
    index = wt.Catalog(str(tmp_path)).table("db.by_city")
    assert [s.properties[SOURCE] for s in index.snapshots() if SOURCE in s.properties] == [
        str(latest)
    ]
    assert index.schema.primary_keys == ("city", "k") == tuple(index.schema.names)
    assert index.schema.bucket_keys == ("city",)
    index.compact(full=True)
    assert by_city(table, ["Rome"]) == [(0, 2)]


def test_an_index_that_is_rescaled_goes_on(tmp_path: Path) -> None:
    """Its rows are the same; it was taken for one that somebody else had written to."""
    table = dim(tmp_path)
    maintained(table)
    wt.Catalog(tmp_path).table("db.by_city").rescale(4)
    assert by_city(table, ["Rome"]) == [(0, 2)]
    assert maintained(table) == 0
    write(table, (1, "Ann", "Rome"))
    assert maintained(table) == 2
    assert by_city(table, ["Oslo", "Rome"]) == [(1, 1), (1, 2)]


def test_an_index_whose_range_has_expired_is_made_anew(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    table.delete_consumer("index-db.by_city")
    write(table, (1, "Ann", "Rome"))
    for number in range(5):
        write(table, (9, "X", f"c{number}"))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    with pytest.raises(wt.NotFoundError):  # the moment that the index fits is gone
        by_city(table, ["Oslo"])
    assert maintained(table) == 3
    assert by_city(table, ["Oslo", "Rome", "c3", "c4"]) == [(1, 1), (1, 2), (3, 9)]


def test_what_an_index_fits_does_not_expire_before_it_is_fed(tmp_path: Path) -> None:
    table = dim(tmp_path)
    maintained(table)
    write(table, (1, "Ann", "Rome"))
    for number in range(5):
        write(table, (9, "X", f"c{number}"))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    assert by_city(table, ["Oslo", "Rome"]) == [(0, 1), (1, 2)]
    assert maintained(table) == 3
    assert by_city(table, ["Oslo", "Rome"]) == [(1, 1), (1, 2)]


def test_an_existing_table_is_indexed(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.d", DIM, primary_key=["k"])
    write(table, (1, "Ann", "Oslo"), (2, None, None))
    assert maintained(table) == 0
    with pytest.raises(wt.NotFoundError, match=r"index\.<column>"):
        table.lookup_index(["Oslo"])
    table = catalog.alter_table("db.d", set_options={"index.city": "db.by_city"})
    with pytest.raises(wt.NotFoundError, match="never fed"):
        table.lookup_index(["Oslo"])
    assert maintained(table) == 1
    assert by_city(table, ["Oslo"]) == [(0, 1)]


def test_an_index_may_have_several_columns_and_a_base_partitions(tmp_path: Path) -> None:
    schema = pa.schema(
        [("dt", pa.string()), ("k", pa.int64()), ("a", pa.int32()), ("b", pa.string())]
    )
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        schema,
        primary_key=["dt", "k"],
        partition_by=["dt"],
        options={"index.b,a": "db.by_b_a", "index.k": "db.by_k"},
    )
    write(table, ("x", 1, 7, "p"), ("y", 1, 7, "p"), ("x", 2, 7, None))
    maintained(table)
    found = table.lookup_index({"a": [7, 8], "b": ["p", "p"]}, ["dt", "k"])
    assert found.to_pylist() == [
        {"_key_number": 0, "dt": "x", "k": 1},
        {"_key_number": 0, "dt": "y", "k": 1},
    ]
    assert table.lookup_index([1, 2], ["dt"])["dt"].to_pylist() == ["x", "y", "x"]


@pytest.mark.parametrize(
    ("key", "value", "names"),
    [
        ("index.nope", "db.i", "'nope'"),
        ("index.city", "i", "db.table"),
        ("index.city", "db.i()", "db.table"),
        ("index.city,city", "db.i", "twice"),
        ("index.city,", "db.i", "commas"),
    ],
)
def test_a_wrong_index_option_is_refused_at_once(
    tmp_path: Path, key: str, value: str, names: str
) -> None:
    with pytest.raises(wt.InvalidError, match=names):
        wt.Catalog(str(tmp_path)).create_table("db.d", DIM, primary_key=["k"], options={key: value})
    table = dim(tmp_path)
    with pytest.raises(wt.InvalidError, match="city"):
        wt.Catalog(str(tmp_path)).alter_table("db.d", drop_columns=["city"])
    assert table.schema.id == 0


def test_another_table_in_the_place_of_an_index_is_refused(tmp_path: Path) -> None:
    wt.Catalog(str(tmp_path)).create_table("db.by_city", DIM, primary_key=["k"])
    table = dim(tmp_path)
    with pytest.raises(wt.InvalidError, match=r"db\.by_city"):
        maintained(table)


def test_the_index_of_a_table_that_was_made_again_is_refused(tmp_path: Path) -> None:
    maintained(dim(tmp_path))
    catalog = wt.Catalog(str(tmp_path))
    catalog.drop_table("db.d")
    table = dim(tmp_path)
    for use in (lambda: maintained(table), lambda: by_city(table, ["Oslo"])):
        with pytest.raises(wt.InvalidError, match="Drop the index"):
            use()
    catalog.drop_table("db.by_city")
    assert maintained(table) == 2
    assert by_city(table, ["Oslo"]) == [(0, 1)]


def test_an_index_whose_columns_were_altered_is_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    schema = pa.schema([("k", pa.int64()), ("a", pa.int32())])
    table = catalog.create_table("db.t", schema, primary_key=["k"], options={"index.a": "db.by_a"})
    table.write(pa.table([[1], [7]], schema=schema))
    maintained(table)
    catalog.alter_table("db.t", change_types={"a": pa.int64()})
    for use in (lambda: maintained(table), lambda: table.lookup_index([7])):
        with pytest.raises(wt.InvalidError, match=r"a int32.*a int64"):
            use()
    catalog.drop_table("db.by_a")
    maintained(table)
    assert table.lookup_index([7], ["k"])["k"].to_pylist() == [1]


def test_an_index_of_a_column_that_its_snapshot_does_not_have_yet_has_no_rows(
    tmp_path: Path,
) -> None:
    catalog = wt.Catalog(str(tmp_path))
    schema = pa.schema([("k", pa.int64()), ("name", pa.string())])
    table = catalog.create_table("db.t", schema, primary_key=["k"])
    table.write(pa.table([[1], ["Ann"]], schema=schema))
    catalog.alter_table(
        "db.t", add_columns={"city": pa.string()}, set_options={"index.city": "db.by_city"}
    )
    maintained(table)
    assert table.lookup_index(["Oslo"]).num_rows == 0
    left = pa.table({"id": [10], "city": ["Oslo"]})
    for columns in (None, ["k"], []):
        (batch,) = wt.lookup_join(left, table, ["city"], columns)
        assert [row["id"] for row in batch.to_pylist()] == [10]
        assert list(wt.lookup_join(left, table, ["city"], columns, how="inner")) == []
    write(table, (1, "Ann", "Oslo"))
    maintained(table)
    (batch,) = wt.lookup_join(left, table, ["city"])
    assert batch.to_pylist() == [{"id": 10, "city": "Oslo", "k": 1, "name": "Ann"}]


@pytest.mark.parametrize("keys", [{}, [{}], pa.table({})], ids=["dict", "rows", "table"])
def test_keys_without_columns_are_told_which_indexes_there_are(tmp_path: Path, keys: Any) -> None:
    table = dim(tmp_path)
    maintained(table)
    with pytest.raises(wt.NotFoundError, match=r"the columns none.*index\.city"):
        table.lookup_index(keys)


def test_who_only_reads_makes_no_index(tmp_path: Path) -> None:
    table = dim(tmp_path)
    table.audit()
    table.inspect()
    with pytest.raises(wt.NotFoundError, match="never fed"):
        table.lookup_index(["Oslo"])
    assert wt.Catalog(str(tmp_path)).list_tables() == ["db.d"]


def test_two_feeders_feed_once(tmp_path: Path) -> None:
    """The second one did not see that the first was at it."""
    table = dim(tmp_path)
    maintained(table)
    write(table, (4, "Cid", "Oslo"))
    (option,) = index_options(table.schema.options)
    assert feed_index(table, option) is not None
    assert feed_index(table, option) is None
    assert by_city(table, ["Oslo"]) == [(0, 1), (0, 4)]


@pytest.mark.parametrize("how", ["missing", "too many"])
def test_an_audit_finds_an_index_that_is_not_that_of_its_base(tmp_path: Path, how: str) -> None:
    table = dim(tmp_path)
    assert table.audit().skipped[-1].startswith("law index")
    maintained(table)
    report = table.audit()
    assert (report.ok, report.checks["index"]) == (True, 2)
    index = wt.Catalog(str(tmp_path)).table("db.by_city")
    key, kind = (1, "-D") if how == "missing" else (17, "+I")
    disturb(index, pa.table({"city": ["Oslo"], "k": [key]}), kind)
    report = table.audit()
    assert set(report.found) == {"index"}


def test_inspect_shows_how_far_an_index_is_behind(tmp_path: Path) -> None:
    table = dim(tmp_path)
    (state,) = table.inspect().derived
    assert (state.option, dict(state.behind)) == ("index.city", {"db.d": None})
    maintained(table)
    write(table, (4, "Cid", "Oslo"))
    (state,) = table.inspect().derived
    assert dict(state.behind) == {"db.d": 1}


class Killed(Exception):
    """At a step."""


_CITY = st.none() | st.sampled_from(["a", "b", ""])
_STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 4), _CITY),
    st.tuples(st.just("delete"), st.integers(0, 4)),
    st.tuples(st.just("overwrite"), st.integers(0, 4), _CITY),
    st.tuples(st.just("compact")),
    st.tuples(st.just("compact index")),
    st.tuples(st.just("expire")),
    st.tuples(st.just("feed"), st.sampled_from([None, "written", "committed"])),
)


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.lists(_STEP, max_size=14))
def test_an_index_is_right_whatever_happens(steps: list[tuple[Any, ...]]) -> None:
    """Feeders are killed after their files are written, and after their commit."""
    with TemporaryDirectory() as folder:
        catalog = wt.Catalog(folder)
        options = {"index.city": "db.by_city", "bucket": "2", "widetable.fsync": "false"}
        table = catalog.create_table("db.d", DIM, primary_key=["k"], options=options)
        for step, *of in steps:
            if step == "write":
                write(table, (of[0], "x", of[1]))
            elif step == "delete":
                table.write(
                    pa.table({"k": [of[0]], "name": [""], "city": [""], "_row_kind": ["-D"]})
                )
            elif step == "overwrite":
                table.overwrite(pa.table([[of[0]], ["y"], [of[1]]], schema=DIM))
            elif step == "compact":
                table.compact(full=True)
            elif step == "compact index" and "db.by_city" in catalog.list_tables():
                catalog.table("db.by_city").compact(full=True)
            elif step == "expire":
                table.expire_snapshots(num_retained_min=1, num_retained_max=1)
            elif step == "feed":
                feed(table, of[0])
        feed(table, None)
        rows = table.scan(["k", "city"]).to_arrow().to_pylist()
        expected = {
            city: sorted(row["k"] for row in rows if row["city"] == city) for city in ("a", "b", "")
        }
        if rows:
            found = by_city(table, ["a", "b", ""])
            cities = {
                city: [k for n, k in found if n == i] for i, city in enumerate(("a", "b", ""))
            }
            assert cities == expected


def feed(table: wt.Table, killed_when: str | None) -> None:
    """One round; after a kill the next one is as good."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    target = {
        "written": "widetable.derive.indexes.index_table._committed_files",
        "committed": "widetable.commit.notes.consumer_store.ConsumerStore.record",
    }
    with pytest.MonkeyPatch.context() as patch:
        if killed_when is not None:
            patch.setattr(target[killed_when], kill)
        try:
            for option in index_options(table.schema.options):
                feed_index(table, option)
        except Killed:
            pass
