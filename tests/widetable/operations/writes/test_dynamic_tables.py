"""Tables with dynamic buckets: written, compacted, changelogged and looked up as tables with fixed ones."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.plain_rows import row_texts
from tests.support.tables.fixture_tables import ROOT
from widetable.format.hash_index import read_hash_index, write_hash_index
from widetable.format.index_manifest import read_index_manifest

COLUMNS = {"p": "INT", "k": "STRING", "v": "BIGINT", "w": "BIGINT"}
OPTIONS = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "4",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "widetable.fsync": "false",
}


def create(warehouse: Path | str, name: str = "db.t", **options: str) -> wt.Table:
    return wt.Catalog(str(warehouse)).create_table(
        name, COLUMNS, primary_key=["p", "k"], partition_by=["p"], options={**OPTIONS, **options}
    )


def rows(
    keys: range | list[int], value: int = 0, column: str = "v", p: int = 1
) -> dict[str, list[Any]]:
    return {"p": [p] * len(keys), "k": [f"k{k}" for k in keys], column: [value + k for k in keys]}


def entries(table: wt.Table) -> dict[tuple[bytes, int], list[int]]:
    """The hashes of each bucket, as the newest snapshot's index has them."""
    body = json.loads(Path(table.path, f"snapshot/snapshot-{table.snapshots()[-1].id}").read_text())
    path = Path(table.path, "manifest", body["indexManifest"])
    return {
        entry.bucket: read_hash_index(
            Path(table.path, "index", entry.file_name).read_bytes(), ""
        ).tolist()
        for entry in read_index_manifest(path.read_bytes(), str(path))
    }


def places(table: wt.Table) -> dict[str, set[int]]:
    """The buckets that have a key."""
    found: dict[str, set[int]] = {}
    scan = table.scan(columns=["p", "k"])
    for split, read in zip(scan.splits(), scan.split_reads(), strict=True):
        for batch in read.to_batches():
            for row in batch.to_pylist():
                found.setdefault(f"{row['p']}/{row['k']}", set()).add(split.bucket.number)
    return found


KEYS = st.tuples(st.integers(0, 1), st.integers(0, 15))


@settings(max_examples=max(5, settings().max_examples // 5))
@given(
    st.lists(
        st.tuples(
            st.lists(KEYS, max_size=12),
            st.sampled_from("vw"),
            st.sampled_from(["", "part", "full"]),
        ),
        max_size=6,
    )
)
def test_a_dynamic_table_has_the_rows_and_changes_of_a_fixed_one(commits: list[Any]) -> None:
    with TemporaryDirectory() as warehouse:
        tables = create(warehouse), create(warehouse, "db.fixed", bucket="2")
        for number, (keys, column, compacts) in enumerate(commits):
            data = {
                "p": pa.array([p for p, _ in keys], pa.int32()),
                "k": pa.array([f"k{k}" for _, k in keys], pa.string()),
                column: pa.array([100 * number + k for _, k in keys], pa.int64()),
            }
            for table in tables:
                table.write(pa.table(data))
                if compacts:
                    table.compact(full=compacts == "full")
        dynamic, fixed = tables
        assert row_texts(dynamic.scan().to_arrow().to_pylist()) == row_texts(
            fixed.scan().to_arrow().to_pylist()
        )
        if not dynamic.snapshots():
            return
        assert all(len(buckets) == 1 for buckets in places(dynamic).values())
        found = [row_texts(t.changes(0, t.snapshots()[-1].id).to_pylist()) for t in tables]
        assert found[0] == found[1]
        asked = pa.table({"p": pa.array([0, 1, 7], pa.int32()), "k": ["k3", "k5", "k3"]})
        assert dynamic.lookup(asked).equals(fixed.lookup(asked))
        assert dynamic.audit().ok


def test_buckets_get_as_many_keys_as_they_may(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(range(10)))
    table.write(rows(range(8, 13), column="w"))
    sizes = [len(hashes) for hashes in entries(table).values()]
    assert sizes == [4, 4, 4, 1]
    assert table.scan().count() == 13
    assert table.scan(filter="k = 'k9' AND p = 1").to_arrow()["w"].to_pylist() == [9]
    assert table.explain({"p": 1, "k": "k9"}).columns[-1].value == 9


def test_an_index_that_is_missing_is_made_of_the_data_files(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(range(10)))
    before = entries(table)
    snapshot = Path(table.path, f"snapshot/snapshot-{table.snapshots()[-1].id}")
    body = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps({k: v for k, v in body.items() if k != "indexManifest"}))
    table = wt.Table.open(table.path)
    assert table.lookup(pa.table({"p": pa.array([1], pa.int32()), "k": ["k7"]}))[
        "v"
    ].to_pylist() == [7]
    table.write(rows([3], column="w"))
    assert entries(table) == before
    assert all(len(buckets) == 1 for buckets in places(table).values())


def test_two_writers_of_one_new_key(tmp_path: Path) -> None:
    """Each would put it into a bucket of its own: the later one is refused, and can write again."""
    table, key = create(tmp_path), [100]
    table.write(rows(range(4)))
    first, second = (table.new_writer(["p", "k", "v"]) for _ in range(2))
    first.write(rows([*range(50, 53), *key]))
    second.write(rows([*range(60, 65), *key]))
    table.commit_append(first.finish())
    with pytest.raises(wt.ConflictError, match="one writer at a time"):
        table.commit_append(second.finish())
    table.write(rows(key, 7))
    assert table.scan(filter="k = 'k100'").to_arrow()["v"].to_pylist() == [107]
    assert all(len(buckets) == 1 for buckets in places(table).values())


def test_two_writers_of_different_keys(tmp_path: Path) -> None:
    table = create(tmp_path)
    first, second = (table.new_writer(["p", "k", "v"]) for _ in range(2))
    first.write(rows(range(6)))
    second.write(rows(range(10, 16)))
    table.commit_append(first.finish())
    table.commit_append(second.finish())
    assert table.scan().count() == 12
    assert sum(map(len, entries(table).values())) == 12


def test_a_commit_of_several_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError, match="one writer at a time"):
        create(tmp_path).new_writer(["p", "k", "v"], task=0, tasks=2)


def test_overwritten_rows_stay_in_their_buckets(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(range(10)))
    before = places(table)
    table.overwrite(rows(range(5, 12), 50))
    found = places(table)
    assert len(found) == 7
    assert {key: found[key] for key in before if key in found} == {
        k: before[k] for k in before if k in found
    }


def test_a_replayed_commit_is_in_once(tmp_path: Path) -> None:
    table = create(tmp_path)
    for _ in range(2):
        table.write(rows(range(10)), commit_user="job", commit_identifier=1)
    assert sum(map(len, entries(table).values())) == 10
    assert len([s for s in table.snapshots() if s.commit_kind == "APPEND"]) == 1


def test_index_files_go_with_their_snapshots(tmp_path: Path) -> None:
    table = create(tmp_path, **{"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"})
    for number in range(5):
        table.write(rows(range(3 * number, 3 * number + 3)))
    kept = entries(table)
    table.expire_snapshots()
    assert entries(table) == kept
    assert len(list(Path(table.path, "index").iterdir())) == len(kept)
    table.write(rows([1, 77]))
    assert table.scan().count() == 16


def test_the_bytes_of_an_index() -> None:
    assert (
        write_hash_index(read_hash_index(b"\x00\x00\x00\x02\xff\xff\xff\xfe", ""))
        == b"\xff\xff\xff\xfe\x00\x00\x00\x02"
    )


def test_dynamic_buckets_go_by_the_whole_key(tmp_path: Path) -> None:
    with pytest.raises(wt.InvalidError, match="bucket-key"):
        create(tmp_path, **{"bucket-key": "k"})


def test_postponed_rows_beside_dynamic_buckets_are_refused(tmp_path: Path) -> None:
    """Nobody else can place them: the index of a dynamic bucket says which keys it has."""
    table = create(tmp_path)
    table.write(rows(range(3)))
    schema = Path(table.path, "schema/schema-0")
    schema.write_text(schema.read_text().replace('"-1"', '"-2"'))
    table = wt.Table.open(table.path)
    assert table.scan().count() == 3
    table.write(rows([5]))
    with pytest.raises(wt.UnsupportedError, match="'bucket'"):
        table.compact()
    assert table.scan().count() == 3


def test_postponed_rows_of_another_client_are_placed(tmp_path: Path) -> None:
    """Their files are found, named and, once nothing names them, expired."""
    path = str(tmp_path / "wh")
    shutil.copytree(ROOT / "wh_others", path)
    table = wt.Table.open(f"{path}/others.db/postponed")
    (file,) = table.inspect.files().to_pylist()
    assert Path(file["path"]).is_file()
    assert table.scan().count() == 0
    # Nobody has compacted them since the fixture was made.
    assert [finding.check for finding in table.doctor(deep=True).findings] == ["upkeep"]
    table.maintain(once=True)
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == [
        {"k": k, "v": f"a{k}"} for k in range(4)
    ]
    assert table.doctor(deep=True).ok
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert not Path(file["path"]).exists()
    assert table.scan().count() == 4


# Found by an attack


def test_writers_of_one_commit_that_share_buckets(tmp_path: Path) -> None:
    table = create(tmp_path, **{"dynamic-bucket.target-row-num": "2"})
    one, two = table.new_writer(["p", "k", "v"]), table.new_writer(["p", "k", "w"])
    one.write(rows([1, 2]))
    two.write(rows([3, 4], column="w"))
    table.commit_append(one.finish() + two.finish())
    asked = [{"p": 1, "k": f"k{k}"} for k in (1, 2, 3, 4)]
    assert table.lookup(asked)["k"].to_pylist() == ["k1", "k2", "k3", "k4"]
    table.write(rows([1, 2, 3, 4], 10))
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == ["k1", "k2", "k3", "k4"]


def test_writers_of_one_commit_that_part_a_key_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path, **{"dynamic-bucket.target-row-num": "1"})
    one, two = table.new_writer(["p", "k", "v"]), table.new_writer(["p", "k", "w"])
    one.write({"p": [1, 1], "k": ["a", "b"], "v": [1, 1]})
    two.write({"p": [1, 1], "k": ["b", "a"], "w": [1, 1]})
    with pytest.raises(wt.ConflictError, match="writers of this commit"):
        table.commit_append(one.finish() + two.finish())


@pytest.mark.parametrize("damage", ["shorter", "missing", "empty"])
def test_index_files_that_are_damaged_are_made_anew_of_the_rows(
    tmp_path: Path, damage: str
) -> None:
    table = create(tmp_path)
    table.write(rows(range(10)))
    for path in Path(table.path, "index").iterdir():
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-4] if damage == "shorter" else b"")
    table = wt.Table.open(table.path)
    asked = [{"p": 1, "k": f"k{k}"} for k in range(10)]
    assert None not in table.lookup(asked)["v"].to_pylist()
    table.write(rows(range(12), 100))
    assert all(len(buckets) == 1 for buckets in places(table).values())
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [100 + k for k in range(12)]
    assert sum(map(len, entries(table).values())) == 12


def test_a_rollback_takes_the_index_of_its_rows(tmp_path: Path) -> None:
    """Another client began the index anew when it wrote the table over."""
    table = create(tmp_path, **{"dynamic-bucket.target-row-num": "3"})
    table.write(rows(range(10)))
    before = places(table)
    table.overwrite(rows(range(30, 40)), whole_table=True)
    folder = Path(table.path)
    newest = folder / f"snapshot/snapshot-{table.snapshots()[-1].id}"
    body = json.loads(newest.read_text())
    manifest = folder / "manifest" / body.pop("indexManifest")
    newest.write_text(json.dumps(body))
    assert manifest.exists()
    table = wt.Table.open(table.path)
    table.write(rows([8, 7, 30]))
    table.rollback(1)
    asked = [{"p": 1, "k": f"k{k}"} for k in range(10)]
    assert None not in table.lookup(asked)["v"].to_pylist()
    table.write(rows(range(10), 5))
    assert places(table) == before


def test_lost_races_leave_no_index_files(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(range(4)))

    def write(number: int) -> None:
        for step in range(8):
            table.write(rows([100 * number + step], p=number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    found = table.remove_orphan_files(older_than_millis=0, dry_run=True)
    assert not [path for path in found.paths if "index" in path]


def test_an_index_of_a_dynamic_table_is_fed(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.base",
        {"k": "BIGINT", "c": "BIGINT"},
        primary_key=["k"],
        options={"bucket": "-1", "index.c": "db.by_c", "widetable.fsync": "false"},
    )
    table.write({"k": [1, 2], "c": [7, 7]})
    table.maintain(once=True)
    assert sorted(table.lookup_index({"c": [7]})["k"].to_pylist()) == [1, 2]
    table.write({"k": [2], "c": [8]})
    table.maintain(once=True)
    assert table.lookup_index({"c": [7]})["k"].to_pylist() == [1]


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_keys_without_the_partition_are_scanned_and_nothing_else(
    tmp_path: Path, bucket: str
) -> None:
    options = {"bucket": bucket, "partial-update.remove-record-on-delete": "true"}
    table = create(tmp_path, **options)
    table.write(rows(range(3)))
    path = Path(table.path, "schema/schema-0")
    path.write_text(json.dumps({**json.loads(path.read_text()), "primaryKeys": ["k"]}))
    table = wt.Table.open(table.path)
    assert table.scan().count() == 3
    tries = (
        lambda: table.write(rows([1])),
        lambda: table.lookup(["k1"]),
        lambda: table.explain("k1"),
        lambda: table.delete_keys(["k1"]),
        lambda: table.delete("k = 'k1'"),
        lambda: table.lookup_session().lookup(["k1"]),
    )
    for one in tries:
        with pytest.raises(wt.UnsupportedError, match="primary key"):
            one()


def in_small_buckets(folder: Path) -> wt.Table:
    """12 keys, at most 5 to a bucket."""
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "5", "widetable.fsync": "false"}
    columns = {"id": "BIGINT", "a": "INT"}
    table = wt.Catalog(folder).create_table("db.t", columns, primary_key=["id"], options=options)
    table.write([{"id": n, "a": 0} for n in range(12)])
    return table


def with_a_wrong_hash(table: wt.Table) -> Path:
    """In the index of a full bucket, so that the key goes to another one; its file."""
    damaged = max(Path(table.path, "index").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(damaged.read_bytes())
    data[-3] ^= 1
    damaged.write_bytes(data)
    return damaged


def test_a_hash_that_an_index_lost_is_found_and_made_anew(tmp_path: Path) -> None:
    """A wrong bit in a file that has no checksum: the key would be put into another bucket, too."""
    table = in_small_buckets(tmp_path)
    assert table.audit().checks["hash-index"] > 1
    assert table.doctor(deep=True).ok
    damaged = with_a_wrong_hash(table)
    table = wt.Table.open(table.path)
    assert table.audit().found == {"hash-index": 1}
    (found,) = table.doctor(deep=True).findings
    assert found.subject == str(damaged)
    damaged.unlink()
    table.write([{"id": n, "a": 1} for n in range(12)])
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(12))
    assert table.audit().ok
    assert table.doctor(deep=True).ok


def test_a_key_in_two_buckets_is_found(tmp_path: Path) -> None:
    """Which a wrong hash has led to."""
    table = in_small_buckets(tmp_path)
    with_a_wrong_hash(table)
    table = wt.Table.open(table.path)
    table.write([{"id": n, "a": 1} for n in range(12)])
    assert table.scan().count() == 13
    report = table.audit()
    assert {found.found for found in report.findings} >= {"1 key that is in several"}
    table.overwrite([{"id": n, "a": 2} for n in range(12)], whole_table=True)
    assert table.scan().count() == 12
    assert table.audit().ok
