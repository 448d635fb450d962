"""Bad input: each case names the file or column, says what was found, what was expected and what to
do, and leaves the table as it was.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.damage import damaged_copies
from tests.support.faults.faults import Fault, FaultyFileIO
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO

KEY = pa.field("k", pa.int64(), nullable=False)
SCHEMA = pa.schema([KEY, pa.field("a", pa.int32()), pa.field("s", pa.string())])
GROUPS = {"merge-engine": "partial-update", "fields.a.sequence-group": "s"}


def keyed(keys: list[Any], **columns: Any) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), **columns})


def create(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    """A table with two commits."""
    table = wt.Catalog(str(folder)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"widetable.fsync": "false", **(options or {})}
    )
    for commit in range(2):
        columns = {"a": pa.array([commit] * 3, pa.int32()), "s": [f"s{commit}"] * 3}
        table.write(keyed(list(range(commit, commit + 3)), **columns))
    return table


def files_of(table: wt.Table) -> dict[str, bytes]:
    """Every file of the table but the compaction lease."""
    root = Path(table.path)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "service" not in path.parts
    }


def assert_reported(error: wt.WidetableError, says: str) -> None:
    assert says in error.subject, error
    assert error.found
    assert error.expected
    assert error.action.endswith(".")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[wt.Table]:
    """A table that must be the same after the test."""
    table = create(tmp_path)
    before = files_of(table)
    yield table
    assert files_of(table) == before
    assert table.scan().to_arrow().num_rows == 4


# Data that the table cannot take

WRONG_DATA: dict[str, tuple[Any, type[wt.WidetableError], str]] = {
    "missing key column": (pa.table({"a": pa.array([1], pa.int32())}), wt.InvalidError, "'k'"),
    "null key": (keyed([7, None]), wt.InvalidError, "'k'"),
    "wrong type": (keyed([7], a=["x"]), wt.InvalidError, "'a'"),
    "wrong type of the key": (pa.table({"k": ["7"]}), wt.InvalidError, "'k'"),
    "value that does not fit": (keyed([7], a=[2**31]), wt.InvalidError, "'a'"),
    "duplicate column": (
        pa.Table.from_arrays([pa.array([7])] * 2, names=["k", "k"]),
        wt.InvalidError,
        "'k'",
    ),
    "unknown column": (keyed([7], nope=[1]), wt.InvalidError, "'nope'"),
    "unknown row kind": (keyed([7], _row_kind=["+X"]), wt.InvalidError, "_row_kind"),
    "null row kind": (
        keyed([7], _row_kind=pa.array([None], pa.string())),
        wt.InvalidError,
        "_row_kind",
    ),
    "values, not rows": ([7], wt.UnsupportedError, "data"),
    "no data": (None, wt.UnsupportedError, "data"),
}


@pytest.mark.parametrize("case", WRONG_DATA)
@pytest.mark.parametrize("how", ["write", "overwrite"])
def test_wrong_data(table: wt.Table, case: str, how: str) -> None:
    data, kind, says = WRONG_DATA[case]
    with pytest.raises(kind) as raised:
        getattr(table, how)(data)
    assert_reported(raised.value, says)


def test_wrong_data_after_right_data(table: wt.Table) -> None:
    """Nothing of a write is committed when a later batch is wrong."""
    wrong = [keyed([7]).to_batches()[0], keyed([None]).to_batches()[0]]
    with pytest.raises(wt.InvalidError, match="'k'"):
        table.write(wrong)
    other_columns = [keyed([7]).to_batches()[0], keyed([8], s=["x"]).to_batches()[0]]
    with pytest.raises(wt.InvalidError, match="'s'"):
        table.write(other_columns)


def test_data_that_fails_while_it_is_read(table: wt.Table) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from keyed([7]).to_batches()
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.write(failing())


def test_columns_that_break_a_sequence_group(tmp_path: Path) -> None:
    table = create(tmp_path, GROUPS)
    before = files_of(table)
    with pytest.raises(wt.InvalidError) as raised:
        table.write(keyed([7], s=["x"]))
    assert "'a'" in str(raised.value)
    assert files_of(table) == before


def test_an_identifier_without_a_user(table: wt.Table) -> None:
    with pytest.raises(wt.InvalidError) as raised:
        table.write(keyed([7]), commit_identifier=3)
    assert_reported(raised.value, "commit_identifier")


# Tables that are none, or that another version made


def test_a_directory_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("nowhere", "empty", "file"):
        with pytest.raises(wt.WidetableError) as raised:
            wt.Table.open(str(tmp_path / name))
        assert_reported(raised.value, str(tmp_path / name))
    with pytest.raises(wt.UnsupportedError) as raised:
        wt.Table.open("oss://bucket/table")
    assert_reported(raised.value, "oss://bucket/table")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def edit(path: Path, **changes: Any) -> None:
    body = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**body, **changes}), encoding="utf-8")


def assert_refused(table: wt.Table, kind: type[wt.WidetableError], says: str) -> None:
    """Neither read nor written, and nothing changes."""
    before = files_of(table)
    uses: list[Callable[[], object]] = [
        lambda: wt.Table.open(table.path).scan().to_arrow(),
        lambda: wt.Table.open(table.path).write(keyed([7])),
        lambda: wt.Table.open(table.path).compact(full=True),
    ]
    for use in uses:
        with pytest.raises(kind) as raised:
            use()
        assert_reported(raised.value, says)
    assert files_of(table) == before


def test_a_schema_of_a_newer_version(tmp_path: Path) -> None:
    table = create(tmp_path)
    edit(Path(table.path, "schema/schema-0"), version=4)
    assert_refused(table, wt.UnsupportedError, "schema-0")


def test_a_snapshot_of_a_newer_version(tmp_path: Path) -> None:
    table = create(tmp_path)
    edit(Path(table.path, "snapshot/snapshot-2"), version=4)
    assert_refused(table, wt.UnsupportedError, "snapshot-2")


@pytest.mark.parametrize(
    "option",
    [
        {"row-tracking.enabled": "true"},
        {"bucket": "0"},
        {"type": "format-table"},
        {"sequence.snapshot-ordering": "true"},
        {"data-file.external-paths": "file:/elsewhere"},
        {"data-file.path-directory": "data"},
    ],
    ids=str,
)
def test_a_table_made_with_an_option_that_changes_rows(
    tmp_path: Path, option: dict[str, str]
) -> None:
    table = create(tmp_path)
    edit(Path(table.path, "schema/schema-0"), options=option)
    assert_refused(table, wt.UnsupportedError, next(iter(option)))


def test_a_table_made_with_an_option_that_only_writers_honour(tmp_path: Path) -> None:
    table = create(tmp_path)
    edit(
        Path(table.path, "schema/schema-0"),
        options={"bucket": "1", "file-index.bsi.columns": "a"},
    )
    opened = wt.Table.open(table.path)
    assert opened.scan().to_arrow().num_rows == 4
    uses: list[Callable[[], object]] = [lambda: opened.write(keyed([7])), opened.compact]
    for use in uses:
        with pytest.raises(wt.UnsupportedError) as raised:
            use()
        assert_reported(raised.value, "file-index.bsi.columns")


def test_a_type_that_is_not_read(tmp_path: Path) -> None:
    table = create(tmp_path)
    path = Path(table.path, "schema/schema-0")
    body = json.loads(path.read_text(encoding="utf-8"))
    body["fields"].append({"id": 3, "name": "v", "type": "VARIANT"})
    path.write_text(json.dumps(body), encoding="utf-8")
    assert_refused(table, wt.UnsupportedError, "VARIANT")


# Damaged files


def spoiled(table: wt.Table, pattern: str, spoil: Callable[[bytes], bytes]) -> Path:
    """The newest file of that name, with other bytes."""
    path = max(Path(table.path).glob(pattern), key=lambda each: each.stat().st_mtime_ns)
    path.write_bytes(spoil(path.read_bytes()))
    MANIFEST_CACHE.clear()  # as in a process that has not read the table yet
    return path


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\x00" * len(data),
    "text": lambda data: b"not what you look for",
}
FILES = {
    "schema": "schema/schema-0",
    "snapshot": "snapshot/snapshot-2",
    "manifest list": "manifest/manifest-list-*",
    "manifest": "manifest/manifest-[!l]*",
    "data file": "bucket-0/data-*.parquet",
}


@pytest.mark.parametrize("how", SPOIL)
@pytest.mark.parametrize("what", FILES)
def test_a_damaged_file_is_named(tmp_path: Path, what: str, how: str) -> None:
    table = create(tmp_path)
    path = spoiled(table, FILES[what], SPOIL[how])
    before = files_of(table)
    with pytest.raises(wt.DamagedError) as raised:
        wt.Table.open(table.path).scan().to_arrow()
    assert_reported(raised.value, path.name)
    assert files_of(table) == before


@pytest.mark.parametrize("what", ["manifest list", "manifest", "data file"])
def test_a_missing_file_is_named(tmp_path: Path, what: str) -> None:
    table = create(tmp_path)
    path = spoiled(table, FILES[what], lambda data: data)
    path.unlink()
    with pytest.raises(wt.DamagedError) as raised:
        wt.Table.open(table.path).scan().to_arrow()
    assert_reported(raised.value, path.name)


def test_hints_may_be_garbage(tmp_path: Path) -> None:
    table = create(tmp_path)
    for hint, ahead in (("LATEST", b"0"), ("EARLIEST", b"99")):
        for text in (b"", b"x", ahead, b"-1", b"\xff"):
            Path(table.path, "snapshot", hint).write_bytes(text)
            assert wt.Table.open(table.path).scan().to_arrow().num_rows == 4


def test_older_snapshots_of_a_damaged_table_are_read(tmp_path: Path) -> None:
    table = create(tmp_path)
    spoiled(table, FILES["data file"], SPOIL["garbage"])
    with pytest.raises(wt.DamagedError):
        table.scan().to_arrow()
    assert table.scan(snapshot_id=1).to_arrow().num_rows == 3


def test_any_wrong_byte_gives_rows_or_one_of_our_errors(tmp_path: Path, rng: random.Random) -> None:
    table = create(tmp_path)
    for pattern in FILES.values():
        path = max(Path(table.path).glob(pattern), key=lambda each: each.stat().st_mtime_ns)
        whole = path.read_bytes()
        for copy in damaged_copies(whole, rng):
            path.write_bytes(copy)
            MANIFEST_CACHE.clear()
            with contextlib.suppress(wt.WidetableError):
                wt.Table.open(table.path).scan().to_arrow()
        path.write_bytes(whole)
    MANIFEST_CACHE.clear()
    assert wt.Table.open(table.path).scan().to_arrow().num_rows == 4


# A full disk


@pytest.mark.parametrize(
    ("operation", "name"),
    [("open_output", "data-"), ("write_new", "manifest-"), ("publish", "snapshot-3")],
)
def test_a_full_disk_commits_nothing(tmp_path: Path, operation: str, name: str) -> None:
    path = create(tmp_path).path
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = wt.Table.open(path, file_io=file_io)
    before = table.scan().to_arrow()
    file_io.fail(operation, Fault.FULL, name)
    with pytest.raises(wt.StorageError) as raised:
        table.write(keyed([7]), "stream", 0)
    assert_reported(raised.value, name)
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    assert table.scan().to_arrow() == before
    file_io.heal()
    assert table.write(keyed([7]), "stream", 0).committed
    assert table.scan().to_arrow().num_rows == before.num_rows + 1


def test_a_full_disk_while_compacting(tmp_path: Path) -> None:
    path = create(tmp_path).path
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = wt.Table.open(path, file_io=file_io)
    before = files_of(table)
    file_io.fail("open_output", Fault.FULL, "data-")
    with pytest.raises(wt.StorageError) as raised:
        table.compact(full=True)
    assert_reported(raised.value, "data-")
    assert files_of(table) == before
    file_io.heal()
    assert table.compact(full=True).committed
