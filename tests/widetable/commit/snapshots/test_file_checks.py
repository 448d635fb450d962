"""Every size and count that the format records is compared with the file that is there."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.fixture_tables import TABLES, FixtureTable
from tests.widetable.operations.health.table_surgery import Surgery
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.manifest_cache import ManifestCache
from widetable.commit.transaction.committer import Committer
from widetable.format.manifest_file import ManifestFileMeta, read_manifest, write_manifest
from widetable.format.manifest_list import write_manifest_list
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths, content_name, is_named_after, new_file_name

IO = LocalFileIO(fsync=False)
JAVA = next(table for table in TABLES if table.id == "wh_java.cl_lookup")
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])
LISTS = ("base", "delta", "changelog")


def read_all(root: Path, *ids: int) -> None:
    """All manifests of these snapshots, past the cache."""
    paths = TablePaths(str(root))
    files = LiveFiles(IO, paths, [], ManifestCache())
    for id in ids:
        snapshot = Committer(IO, paths).snapshots.load(id)
        for read in (files.live_entries, files.delta_entries, files.changelog_entries):
            read(snapshot)


@pytest.mark.parametrize("fixture", TABLES, ids=lambda table: table.id)
def test_what_other_clients_record_is_exact(fixture: FixtureTable) -> None:
    types = [fixture.schema.field(name).type for name in fixture.schema.partition_keys]
    files = LiveFiles(IO, TablePaths(str(fixture.path)), types, ManifestCache())
    table = wt.Table.open(str(fixture.path))
    for snapshot in [*table.snapshots(), *table.tags().values()]:
        assert len(files.live_entries(snapshot)) >= 0
        files.delta_entries(snapshot)
        files.changelog_entries(snapshot)


@pytest.fixture
def surgery(tmp_path: Path) -> Surgery:
    return Surgery(Path(shutil.copytree(JAVA.path, tmp_path / "table")))


def unfitted(surgery: Surgery, **values: Any) -> None:
    path = surgery.root / "snapshot/snapshot-4"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


SNAPSHOT_NUMBERS = [
    *(f"{which}ManifestListSize" for which in LISTS),
    "totalRecordCount",
    "deltaRecordCount",
    "changelogRecordCount",
]


@pytest.mark.parametrize("key", SNAPSHOT_NUMBERS)
@pytest.mark.parametrize("error", [1, -1])
def test_a_number_of_the_snapshot_that_is_not_what_is_there(
    surgery: Surgery, key: str, error: int
) -> None:
    read_all(surgery.root, 4)
    unfitted(surgery, **{key: surgery.snapshot(4)[key] + error})
    with pytest.raises(wt.DamagedError, match=r"as (the )?snapshot"):
        read_all(surgery.root, 4)


@pytest.mark.parametrize("which", LISTS)
@pytest.mark.parametrize("error", [1, -1])
def test_a_size_of_the_list_that_is_not_the_manifests(
    surgery: Surgery, which: str, error: int
) -> None:
    metas = [replace(m, file_size=m.file_size + error) for m in surgery.metas(4, which)]
    path = surgery._list(4, which)
    path.write_bytes(write_manifest_list(metas))
    unfitted(surgery, **{f"{which}ManifestListSize": path.stat().st_size})
    with pytest.raises(wt.DamagedError, match=r"bytes; expected .* as its list says"):
        read_all(surgery.root, 4)


ALTERED: dict[str, Callable[[ManifestFileMeta], ManifestFileMeta]] = {
    "more added": lambda m: replace(m, num_added_files=m.num_added_files + 1),
    "more deleted": lambda m: replace(m, num_deleted_files=m.num_deleted_files + 1),
    "other buckets": lambda m: replace(m, min_bucket=5, max_bucket=9),
    "other levels": lambda m: replace(m, min_level=7, max_level=7),
}


@pytest.mark.parametrize("which", LISTS)
@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_a_list_that_says_otherwise_than_its_manifests(
    surgery: Surgery, which: str, alter: Callable[[ManifestFileMeta], ManifestFileMeta]
) -> None:
    surgery.alter_list(4, which, alter)
    with pytest.raises(wt.DamagedError, match="as its list says"):
        read_all(surgery.root, 4)


@pytest.mark.parametrize("which", LISTS)
def test_what_a_writer_left_out_is_not_compared(surgery: Surgery, which: str) -> None:
    surgery.alter_list(
        4,
        which,
        lambda m: replace(m, min_bucket=None, max_bucket=None, min_level=None, max_level=None),
    )
    left_out = [*(f"{each}ManifestListSize" for each in LISTS), "changelogRecordCount"]
    unfitted(surgery, **dict.fromkeys(left_out))
    read_all(surgery.root, 4)


def test_a_name_says_which_bytes(tmp_path: Path) -> None:
    for prefix in ("manifest", "manifest-list"):
        name = content_name(prefix, b"bytes")
        assert name != content_name(prefix, b"other")
        assert len(name) == len(new_file_name(prefix))
        assert is_named_after(f"/t/manifest/{name}", b"bytes")
        assert not is_named_after(f"/t/manifest/{name}", b"other")
        assert is_named_after(new_file_name(prefix), b"other")


def test_any_wrong_bit_in_our_manifests_and_lists_is_damage(
    tmp_path: Path, rng: random.Random
) -> None:
    """Also where the file decodes as well as before: numbers in it are then others."""
    table = wt.Catalog(str(tmp_path)).create_table("d.t", SCHEMA, primary_key=["k"])
    for number in range(3):
        table.write(pa.table({"k": [number]}, SCHEMA))
    root = Path(table.path)
    files = sorted(root.glob("manifest/*"))
    assert len(files) > 6
    for path in files:
        whole = path.read_bytes()
        for _ in range(20):
            place = rng.randrange(len(whole))
            wrong = whole[place] ^ 1 << rng.randrange(8)
            path.write_bytes(whole[:place] + bytes([wrong]) + whole[place + 1 :])
            with pytest.raises(wt.DamagedError) as raised:
                read_all(root, 1, 2, 3)
            assert raised.value.subject == str(path)
        path.write_bytes(whole)
    read_all(root, 3)


def test_our_files_are_named_after_their_bytes_and_each_is_another(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", JAVA.schema.arrow_schema(), primary_key=["k"]
    )
    rows = JAVA.schema.arrow_schema().empty_table()
    for _ in range(2):
        table.overwrite(rows)
        table.commit_append([], properties={"a": "b"})
    files = sorted(Path(table.path).glob("manifest/*"))
    assert len(files) == 4
    for one, other in itertools.permutations(files, 2):
        assert is_named_after(one.name, one.read_bytes())
        assert not is_named_after(one.name, other.read_bytes())


def test_equal_entries_make_two_manifests() -> None:
    (path,) = JAVA.manifests()[:1]
    entries = read_manifest(path.read_bytes(), "m")
    one, other = (content_name("manifest", write_manifest(entries)) for _ in range(2))
    assert one != other


def test_snapshots_know_their_lists() -> None:
    table = wt.Table.open(str(JAVA.path))
    for snapshot in table.snapshots():
        lists = snapshot.list_bytes
        assert len(lists) == (2 if snapshot.changelog_manifest_list is None else 3)
        for name, size in lists.items():
            assert (JAVA.path / "manifest" / name).stat().st_size == size
