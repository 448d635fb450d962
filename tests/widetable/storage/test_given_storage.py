"""The arguments `file_io` and `storage_options`: what holds tables, what does not, and which paths it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import s3fs
from fsspec.implementations.cached import SimpleCacheFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from obstore.fsspec import FsspecStore
from obstore.store import MemoryStore
from pyarrow import fs

import widetable as wt
from tests.object_stores import given_filesystems as made
from widetable.errors import InvalidError, UnsupportedError
from widetable.storage.given_storage import given_storage


@pytest.fixture
def s3() -> Any:
    """Of a store that is not there: nothing is asked."""
    return made.s3(1)


def test_others_are_refused_by_name(s3: Any) -> None:
    others: list[Any] = [
        MemoryFileSystem(),
        DirFileSystem("bucket", s3),
        SimpleCacheFileSystem(fs=s3),
        fs.SubTreeFileSystem("/", fs.LocalFileSystem()),
        fs.PyFileSystem(fs.FSSpecHandler(s3)),
        FsspecStore("s3"),
    ]
    for other in others:
        with pytest.raises(UnsupportedError, match=r"lost.*storage_options") as refused:
            wt.Catalog("bucket/wh", file_io=other)
        assert type(other).__name__ in refused.value.found
    stores: list[Any] = [MemoryStore()]
    with pytest.raises(UnsupportedError, match="give the URL"):
        wt.Catalog("bucket/wh", file_io=stores[0])


def test_a_local_file_system_is_a_disk(tmp_path: Path) -> None:
    for number, local in enumerate((fs.LocalFileSystem(), LocalFileSystem())):
        catalog = wt.Catalog(tmp_path, file_io=local)
        table = catalog.create_table(f"db.t{number}", {"k": "BIGINT"}, primary_key=["k"])
        table.write({"k": [1]})
        assert wt.Table.open(table.path).scan().count() == 1


@pytest.mark.parametrize(
    "path",
    [
        "/bucket/x",
        "~/x",
        "./x",
        "file:///tmp/x",
        "gs://bucket/x",
        "bucket/../x",
        "s3://key:secret@bucket/x",
        "s3://",
        "key:secret@bucket/x",
        "",
    ],
)
def test_paths_that_are_none_on_the_file_system_are_refused(s3: Any, path: str) -> None:
    with pytest.raises(InvalidError, match="path") as refused:
        wt.Catalog(path, file_io=s3)
    assert "secret" not in str(refused.value)


def test_what_is_no_storage_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="publish"):
        wt.Catalog(tmp_path, file_io=object())


def test_one_that_cannot_be_made_again_is_refused() -> None:
    """Lists that it keeps would hide what other writers did."""

    class Stubborn(s3fs.S3FileSystem):  # type: ignore[misc]
        def __init__(self, secret: str) -> None:
            super().__init__(key="k", secret=secret)

    with pytest.raises(InvalidError, match="use_listings_cache") as refused:
        wt.Catalog("bucket/wh", file_io=Stubborn("my secret"))
    assert "my secret" not in str(refused.value)


def test_options_beside_it_are_refused(s3: Any) -> None:
    with pytest.raises(InvalidError, match="storage_options"):
        given_storage(s3, {"s3.region": "x"})
