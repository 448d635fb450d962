"""File indexes beside what else happens to a table: options, columns that change, compaction, expiry, orphans,
rollback, copies, failed writes, lost and damaged files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.operations.handle.compaction_threads import wait_for_compactions

FILES = {"file-index.in-manifest-threshold": "0 b", "widetable.fsync": "false"}


def made(folder: Path, options: dict[str, str] | None = None, *, key: bool = False) -> wt.Table:
    given = {"file-index.bloom-filter.columns": "s", "file-index.bitmap.columns": "b"}
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"n": "BIGINT NOT NULL", "s": "STRING", "b": "INT"},
        primary_key=["n"] if key else None,
        options=given | FILES | (options or {}),
    )


def rows(first: int, count: int = 20) -> list[dict[str, Any]]:
    return [{"n": n, "s": f"s{n}", "b": n % 4} for n in range(first, first + count)]


def index_files(table: wt.Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.index")}


def named(table: wt.Table) -> set[str]:
    """Names of index files of the newest snapshot."""
    return {
        name for split in table.scan().splits() for file in split.files for name in file.extra_files
    }


def files_of(table: wt.Table, condition: str) -> int:
    return sum(len(split.files) for split in table.scan(filter=condition).splits())


def alter(table: wt.Table, **change: Any) -> wt.Table:
    wt.Catalog(str(Path(table.path).parent.parent)).alter_table("db.t", **change)
    return wt.Table.open(table.path)


@pytest.mark.parametrize(
    ("options", "named_option"),
    [
        ({"file-index.bloom-filter.columns": "x"}, "file-index.bloom-filter.columns"),
        ({"file-index.bloom-filter.columns": "s,,b"}, "file-index.bloom-filter.columns"),
        ({"file-index.bloom-filter.columns": "m[a]"}, "an entry of a map"),
        ({"file-index.bloom-filter.columns": "q"}, "DECIMAL"),
        ({"file-index.bitmap.columns": "m"}, "MAP"),
        ({"file-index.bitmap.columns": "f"}, "FLOAT"),
        ({"file-index.bsi.columns": "b"}, "file-index.bsi.columns"),
        ({"file-index.range-bitmap.columns": "b"}, "file-index.range-bitmap.columns"),
        (
            {"file-index.bitmap.columns": "b", "file-index.bitmap.b.version": "1"},
            "index-block-size",
        ),
        ({"file-index.bloom-filter.b.fpp": "0.1"}, "lacks"),
        ({"file-index.bloom-filter.columns": "b", "file-index.bloom-filter.b.fpp": "1"}, "b.fpp"),
        ({"file-index.bloom-filter.columns": "b", "file-index.bloom-filter.b.fpp": "x"}, "b.fpp"),
        ({"file-index.bloom-filter.columns": "b", "file-index.bloom-filter.b.items": "0"}, "items"),
        (
            {"file-index.bitmap.columns": "b", "file-index.bitmap.b.index-block-size": "1 b"},
            "index-block-size",
        ),
        ({"file-index.in-manifest-threshold": "x"}, "in-manifest-threshold"),
        ({"file-index.read.enabled": "x"}, "read.enabled"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_by_name(
    tmp_path: Path, options: dict[str, str], named_option: str
) -> None:
    columns = {
        "s": "STRING",
        "b": "INT",
        "q": "DECIMAL(9, 2)",
        "f": "FLOAT",
        "m": "MAP<STRING, INT>",
    }
    with pytest.raises(
        wt.WidetableError, match=named_option.replace(".", r"\.").replace("[", r"\[")
    ):
        wt.Catalog(str(tmp_path)).create_table("db.t", columns, options=options)


def test_an_index_is_asked_only_if_the_option_says_so(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(rows(0))
    assert files_of(table, "b = 9 or s = 'none'") == 0
    table = alter(table, set_options={"file-index.read.enabled": "false"})
    assert files_of(table, "s = 's100'") == 1


def test_options_that_come_later_are_for_later_files(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"n": "BIGINT", "s": "STRING"}, options=FILES | {"write-only": "true"}
    )
    table.write([{"n": 1, "s": "a"}, {"n": 2, "s": "c"}])
    table = alter(table, set_options={"file-index.bloom-filter.columns": "s"})
    table.write([{"n": 3, "s": "a"}, {"n": 4, "s": "c"}])
    assert len(index_files(table)) == 1
    assert files_of(table, "s = 'b'") == 1
    table.compact(full=True)
    assert files_of(table, "s = 'b'") == 0
    assert files_of(table, "s = 'c'") == 1


def test_an_index_belongs_to_a_column_not_to_its_name(tmp_path: Path) -> None:
    table = made(tmp_path, {"write-only": "true"})
    table.write(rows(0))
    with pytest.raises(wt.InvalidError, match=r"file-index\.bloom-filter\.columns"):
        alter(table, rename_columns={"s": "t"})
    renamed = {"file-index.bloom-filter.columns": "t"}
    table = alter(table, rename_columns={"s": "t"}, set_options=renamed)
    assert files_of(table, "t = 's3'") == 1
    assert files_of(table, "t = 'none'") == 0
    table = alter(table, add_columns={"s": pa.string()})
    assert table.scan(filter="s is null").count() == 20
    with pytest.raises(wt.InvalidError, match=r"file-index\.bloom-filter\.columns"):
        alter(table, drop_columns=["t"])
    table = alter(table, drop_columns=["t"], remove_options=["file-index.bloom-filter.columns"])
    table = alter(table, add_columns={"t": pa.string()})
    assert table.scan(filter="t is null").count() == 20


def test_an_index_of_another_type_is_not_asked(tmp_path: Path) -> None:
    table = made(tmp_path, {"write-only": "true"})
    table.write(rows(0))
    table = alter(table, change_types={"b": pa.int64()})
    table.write(rows(20))
    assert table.scan(filter="b = 3").count() == 10
    assert files_of(table, "b = 3 and s = 's25'") == 1


@pytest.mark.parametrize("key", [False, True], ids=["append", "key"])
def test_files_go_with_their_data_file(tmp_path: Path, key: bool) -> None:
    """Compacted, expired, found as orphans: an index file is there as long as its data file."""
    table = made(tmp_path, {"write-only": "true"}, key=key)
    for number in range(4):
        table.write(rows(number * 20))
    assert len(index_files(table)) == 4
    before = named(table)
    table.compact(full=True)
    assert len(index_files(table)) == 5
    assert before.isdisjoint(named(table))
    Path(table.path, "bucket-0", "data-foreign.parquet.index").write_bytes(b"x")
    table.remove_orphan_files(older_than_millis=0)
    assert len(index_files(table)) == 5
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    assert index_files(table) == named(table)
    assert table.audit().findings == ()


@pytest.mark.parametrize("key", [False, True], ids=["append", "key"])
def test_a_rollback_and_a_copy_have_their_indexes(tmp_path: Path, key: bool) -> None:
    table = made(tmp_path, key=key)
    table.write(rows(0))
    table.delete("n < 50", rewrite=True)
    table.write(rows(100))
    table.rollback(1)
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    catalog = wt.Catalog(str(tmp_path))
    catalog.copy_table("db.t", "db.copy")
    for each in (table, catalog.table("db.copy")):
        assert index_files(each) == named(each)
        assert len(index_files(each)) == 1
        assert files_of(each, "s = 's7'") == 1
        assert files_of(each, "b = 9 and s = 's8'") == 0
        assert each.scan(filter="b = 3").count() == 5


def test_a_failed_write_leaves_no_index(tmp_path: Path) -> None:
    table = made(tmp_path, {"target-file-size": "1 kb"}, key=True)
    with table.new_writer(["n", "s", "b"]) as writer:
        writer.write(pa.Table.from_pylist(rows(0, 5000), schema=table.arrow_schema))
        writer.finish()
        assert index_files(table)
        writer.abort()
    assert not index_files(table)
    assert not list(Path(table.path).rglob("*.parquet"))


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"], ids=["file", "manifest"])
def test_a_wrong_bit_hides_no_row(tmp_path: Path, rng: random.Random, threshold: str) -> None:
    """Any bit of an index is turned: filters keep the same rows, or the damage is said with the way out."""
    table = made(
        tmp_path,
        {"file-index.in-manifest-threshold": threshold, "file-index.bloom-filter.s.fpp": "0.3"},
    )
    table.write(rows(0, 200))
    conditions = [
        "s = 's7'",
        "s = 's150'",
        "b = 3",
        "b is null",
        "b is not null",
        "b = 2 and s = 's10'",
    ]
    expected = [table.scan(filter=each).count() for each in conditions]
    place = ".index" if threshold == "0 b" else "manifest-"
    (path,) = [p for p in Path(table.path).rglob("*") if place in p.name and "list" not in p.name]
    whole, said = path.read_bytes(), 0
    for _ in range(150):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        MANIFEST_CACHE.clear()
        for condition, count in zip(conditions, expected, strict=True):
            try:
                assert wt.Table.open(table.path).scan(filter=condition).count() == count
            except wt.WidetableError:
                said += 1
    assert said > 100
    path.write_bytes(whole)


def test_damage_is_said_with_a_way_out(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(rows(0))
    (path,) = Path(table.path).rglob("*.index")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(wt.DamagedError, match=r"file-index\.read\.enabled") as raised:
        table.scan(filter="b = 3").to_arrow()
    assert raised.value.subject == str(path)
    assert table.scan().count() == 20
    table = alter(table, set_options={"file-index.read.enabled": "false"})
    assert table.scan(filter="b = 3").count() == 5


@pytest.mark.parametrize("damage", ["gone", "wrong"])
def test_a_lost_index_is_found_and_mended(tmp_path: Path, damage: str) -> None:
    table = made(tmp_path, key=True)
    table.write(rows(0))
    table.compact(full=True)
    (path,) = [path for path in Path(table.path).rglob("*.index") if path.name in named(table)]
    if damage == "gone":
        path.unlink()
    else:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(wt.DamagedError, match=path.name):
        table.scan(filter="b = 3").to_arrow()
    assert not table.doctor(deep=True).ok
    table.repair(deep=True)
    assert table.scan(filter="b = 3").count() == 5
    assert table.scan().count() == 20


@pytest.mark.parametrize("key", [False, True], ids=["append", "key"])
def test_the_audit_finds_an_index_that_lacks_a_value(tmp_path: Path, key: bool) -> None:
    """An index of other rows, as a client with a fault would write it."""
    table, other = made(tmp_path, key=key), made(tmp_path / "other", key=key)
    table.write(rows(0))
    other.write([{"n": n, "s": f"x{n}", "b": 7} for n in range(20)])
    assert table.audit().findings == ()
    (ours,), (theirs,) = (list(Path(t.path).rglob("*.index")) for t in (table, other))
    ours.write_bytes(theirs.read_bytes())
    found = {finding.law for finding in table.audit().findings}
    assert found == {"file-index"}


USES: dict[str, Callable[[wt.Table], Any]] = {
    "update": lambda table: table.update("n = 3", {"s": "new"}),
    "delete": lambda table: table.delete("n = 3"),
    "sort": lambda table: table.sort_compact(["s"]),
    "compact": lambda table: table.compact(full=True),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rewritten_files_have_new_indexes(tmp_path: Path, use: str, vectors: str) -> None:
    table = made(tmp_path, {"deletion-vectors.enabled": vectors, "write-only": "true"})
    table.write(rows(0))
    table.write(rows(20))
    USES[use](table)
    wait_for_compactions(table.path)
    every = {file.file_name for split in table.scan().splits() for file in split.files}
    assert named(table) == {f"{name}.index" for name in every}
    assert table.scan(filter="s = 'new'").count() == (use == "update")
    assert table.scan(filter="s = 's3'").count() == (use in ("sort", "compact"))
    assert table.scan(filter="s = 's30'").count() == 1
    assert table.audit().findings == ()
