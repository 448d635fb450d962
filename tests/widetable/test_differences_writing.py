"""How we write, keep and expire otherwise than Paimon's Java (docs/differences-from-paimon.md), where no test of the
part that does it says so.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from widetable.lsm.levels import levels_of
from widetable.schema.new_schema import new_schema
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

COLUMNS = {"k": "BIGINT", "a": "BIGINT", "b": "BIGINT"}


class NotingFileIO(LocalFileIO):
    """done: what was done, and to which file, in order."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.done: list[tuple[str, str]] = []

    def publish(self, path: str, data: bytes) -> bool:
        self.done.append(("publish", path))
        return super().publish(path, data)

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        self.done.append(("link", source))
        return super().link(source, target, replace=replace)

    def delete(self, path: str) -> bool:
        self.done.append(("delete", path))
        return super().delete(path)

    @contextlib.contextmanager
    def turn(self, path: str) -> Iterator[bool]:
        self.done.append(("begin", path))
        with super().turn(path) as is_ours:
            yield is_ours
        self.done.append(("end", path))


def create(
    folder: Path, options: dict[str, str] | None = None, file_io: LocalFileIO | None = None
) -> wt.Table:
    return wt.Catalog(str(folder), file_io=file_io).create_table(
        "db.t",
        COLUMNS,
        primary_key=["k"],
        options={"bucket": "1", "widetable.fsync": "false", **(options or {})},
    )


def data_files(table: wt.Table) -> dict[str, int]:
    """The live files and their levels."""
    files = [file for split in table.scan().splits() for file in split.files]
    return {file.file_name: file.level for file in files}


def test_the_first_commit_of_a_lookup_table_is_merged_to_whole_rows(tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    table = create(tmp_path, options)
    table.write({"k": [1], "a": [1]})
    assert [s.commit_kind for s in table.snapshots()] == ["APPEND", "COMPACT"]
    ((name, level),) = data_files(table).items()
    assert level > 0
    (appended,) = {path.name for path in Path(table.path).glob("bucket-0/data-*")} - {name}
    files = [pq.read_table(f"{table.path}/bucket-0/{file}") for file in (appended, name)]
    assert [file.column_names[2:] for file in files] == [["k", "a"]] * 2
    assert files[0]["_SEQUENCE_NUMBER"][0].as_py() > files[1]["_SEQUENCE_NUMBER"][0].as_py() == 0


def test_rows_of_a_lookup_compaction_have_the_number_of_their_level(tmp_path: Path) -> None:
    """0 where nothing is older, else 2^40 or one more than the level below (decision 0008)."""
    options = {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    table = create(tmp_path, options)
    table.write({"k": list(range(20_000)), "a": [1] * 20_000})
    table.write({"k": list(range(2_000)), "b": [2] * 2_000})
    table.write({"k": [1], "b": [3]})
    table.wait_for_compactions()
    files = [file for split in table.scan().splits() for file in split.files]
    numbers = [
        (file.min_sequence_number, file.max_sequence_number)
        for file in sorted(files, key=lambda file: -file.level)
    ]
    assert numbers == [(number, number) for number in (0, 2**40, 2**40 + 1)]


@pytest.mark.parametrize(
    ("producer", "trigger", "expected"),
    [("lookup", t, n) for t, n in [(1, 7), (2, 7), (3, 8), (5, 10), (9, 14)]]
    + [("none", t, t + 1) for t in (1, 5, 9)],
)
def test_the_default_of_num_levels_follows_trigger_and_producer(
    producer: str, trigger: int, expected: int
) -> None:
    options = {
        "changelog-producer": producer,
        "num-sorted-run.compaction-trigger": str(trigger),
    }
    schema = new_schema(pa.schema([("k", pa.int64())]), primary_key=["k"], options=options)
    assert levels_of([], schema.typed_options).num_levels == expected


def test_a_commit_is_published_in_its_turn(tmp_path: Path) -> None:
    file_io = NotingFileIO()
    table = create(tmp_path, {"write-only": "true"}, file_io)
    paths = TablePaths(table.path)
    for id in (1, 2):
        file_io.done.clear()
        table.write({"k": [1], "a": [id]})
        done = [
            what for what in file_io.done if what[1] in (paths.commit_queue, paths.snapshot(id))
        ]
        assert [what for what, _ in done] == ["begin", "publish", "end"]


def misshapen(kind: pa.DataType, *buffers: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, 2, [None, *map(pa.py_buffer, buffers)])


INTS = [int(n).to_bytes(4, "little", signed=True) for n in (0, 1, 2, 86_400_000, -1)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("STRING", misshapen(pa.string(), INTS[0] + INTS[1] + INTS[2], b"a\xff")),
        ("TIME(3)", misshapen(pa.time32("ms"), INTS[1] + INTS[3])),
        ("TIME(3)", misshapen(pa.time32("ms"), INTS[1] + INTS[4])),
    ],
    ids=["not UTF-8", "24:00", "before 00:00"],
)
def test_values_that_readers_understand_differently_are_refused(
    tmp_path: Path, kind: str, values: pa.Array
) -> None:
    """The first value of each is right, the second one is not."""
    table = wt.Catalog(tmp_path).create_table("db.t", {"k": "INT", "v": kind}, primary_key=["k"])
    with pytest.raises(wt.InvalidError, match=r"'v'.*row 1\b"):
        table.write(pa.table({"k": pa.array([1, 2], pa.int32()), "v": values}))
    assert table.snapshots() == []
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": values.slice(0, 1)}))


def test_what_came_back_by_a_rollback_has_another_name(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-only": "true"})
    table.write({"k": [1], "a": [1]})
    (old,) = data_files(table)
    table.write({"k": [1], "a": [2]})
    table.compact(full=True)
    table.rollback(1)
    assert [s.id for s in table.snapshots()] == [1, 2, 3, 4]
    (new,) = data_files(table)
    assert new != old
    folder = Path(table.path, "bucket-0")
    assert os.path.samefile(folder / new, folder / old)


@pytest.mark.parametrize("option", ["index.a", "widen.a", "join.left", "widetable.index-of"])
def test_tables_that_are_tied_to_others_have_no_branches(tmp_path: Path, option: str) -> None:
    table = create(tmp_path)
    path = Path(table.path, "schema/schema-0")
    body = json.loads(path.read_text())
    body["options"][option] = "db.other"
    path.write_text(json.dumps(body))
    with pytest.raises(wt.UnsupportedError, match=option):
        wt.Table.open(table.path).create_branch("b")


def test_a_snapshot_goes_before_its_files(tmp_path: Path) -> None:
    """Each has another name by then, from which what is left can be deleted after a stop."""
    file_io = NotingFileIO()
    table = create(tmp_path, {"write-only": "true"}, file_io)
    for value in range(4):
        table.write({"k": [1], "a": [value]})
        table.compact(full=True)
    last = table.snapshots()[-1].id
    file_io.done.clear()
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    snapshots = [TablePaths(table.path).snapshot(id) for id in range(1, last)]
    gone = [path for what, path in file_io.done if what == "delete"]
    named = [path for what, path in file_io.done if what == "link"]
    first_file = min(gone.index(path) for path in gone if "/data-" in path or "/manifest/" in path)
    assert {path for path in gone[:first_file] if "/snapshot-" in path} >= set(snapshots)
    for path in snapshots:
        assert path in named
        assert file_io.done.index(("link", path)) < file_io.done.index(("delete", path))


def test_a_commit_expires_nothing(tmp_path: Path) -> None:
    options = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "snapshot.time-retained": "1 ms",
        "write-only": "false",
    }
    table = create(tmp_path, options)
    for value in range(4):
        table.write({"k": [1], "a": [value]})
    table.wait_for_compactions()
    ids = [snapshot.id for snapshot in table.snapshots()]
    assert ids[0] == 1
    assert len(ids) >= 4
    assert table.expire_snapshots().ids == tuple(ids[:-1])
