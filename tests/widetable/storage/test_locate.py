"""Which storage serves a path or URL."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from widetable.errors import UnsupportedError
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
