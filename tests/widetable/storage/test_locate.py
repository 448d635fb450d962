"""Which storage serves a path or URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

import widetable as wt
from widetable.errors import InvalidError, UnsupportedError
from widetable.storage.local import LocalFileIO
from widetable.storage.locate import locate


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("/a/../b", "/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:///a%20b/c%25d", "/a b/c%d"),
        ("/a%20b", "/a%20b"),
        ("/a b:c", "/a b:c"),
        ("~/t", str(Path.home() / "t")),
        ("t", os.path.join(os.getcwd(), "t")),
    ],
)
def test_local_paths(url: str, path: str) -> None:
    file_io, found = locate(url)
    assert isinstance(file_io, LocalFileIO)
    assert found == path


@pytest.mark.parametrize(
    "url",
    [
        "oss://b/k",
        "az://c/p",
        "cosn://b/p",
        "obs://b/p",
        "file://host/share",
        "http://x/y",
    ],
)
def test_other_storages_are_refused_by_name(url: str) -> None:
    with pytest.raises(UnsupportedError, match=url.split(":")[0]):
        locate(url)


def test_file_systems_of_other_libraries_are_refused_with_the_reason(tmp_path: Path) -> None:
    """Those of pyarrow cannot give a name once; those of fsspec that can are not served yet."""

    class Foreign:
        pass

    Foreign.__module__ = "fsspec.implementations.memory"
    foreign: list[Any] = [fs.SubTreeFileSystem("/", fs.LocalFileSystem()), Foreign()]
    for given in foreign:
        with pytest.raises(UnsupportedError, match=r"lost.*storage_options") as refused:
            wt.Catalog(tmp_path, file_io=given)
        assert type(given).__name__ in refused.value.found
    with pytest.raises(InvalidError, match="publish"):
        wt.Catalog(tmp_path, file_io=object())  # type: ignore[arg-type]


def test_a_local_file_system_of_pyarrow_is_a_disk(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path, file_io=fs.LocalFileSystem())
    table = catalog.create_table("db.t", {"k": "BIGINT"}, primary_key=["k"])
    table.write({"k": [1]})
    assert wt.Table.open(table.path, file_io=fs.LocalFileSystem()).scan().count() == 1
