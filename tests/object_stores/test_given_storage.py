"""The arguments `file_io` and `storage_options`: what holds tables, what does not, and which paths it has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import adlfs
import gcsfs
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
from widetable.storage.local import LocalFileIO
from widetable.storage.locate import locate, locate_beside
from widetable.storage.remote import hdfs_client, store_client
from widetable.storage.remote.fsspec_store import FsspecFileIO
from widetable.storage.remote.object_store import ObjectStoreFileIO
from widetable.storage.remote.storage_options import checked_storage_options


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


class LooksFirst(s3fs.S3FileSystem):  # type: ignore[misc]
    async def _pipe_file(self, path: str, data: bytes, mode: str = "overwrite", **more: Any) -> Any:
        if mode == "create" and await self._exists(path):
            raise FileExistsError(path)
        return await super()._pipe_file(path, data, **more)


class Extended(gcsfs.GCSFileSystem):  # type: ignore[misc]
    pass


@pytest.mark.parametrize("cls", [LooksFirst, Extended])
def test_subclasses_whose_puts_are_their_own_are_refused(cls: Any) -> None:
    """One that looks and then writes would pass the probe; gcsfs's extended class may show what is not whole."""
    with pytest.raises(UnsupportedError, match=cls.__name__):
        wt.Catalog("bucket/wh", file_io=cls(token="anon"))


def test_other_subclasses_count_as_what_they_are_made_from() -> None:
    class Named(s3fs.S3FileSystem):  # type: ignore[misc]
        pass

    assert wt.Catalog("bucket/wh", file_io=Named()).warehouse == "s3://bucket/wh"
    plain = given_storage(gcsfs.GCSFileSystem(token="anon"), None).served
    assert plain is not None
    assert type(plain.filesystem) is gcsfs.core.GCSFileSystem


def test_an_account_is_that_of_the_file_system() -> None:
    azure = adlfs.AzureBlobFileSystem(account_name="me", account_key="a2V5")
    host = "dfs.core.windows.net"
    catalog = wt.Catalog(f"abfss://box@me.{host}/wh", file_io=azure)
    assert catalog.warehouse == f"abfss://box@me.{host}/wh"
    with pytest.raises(InvalidError, match="without credentials"):
        wt.Catalog(f"abfss://box@other.{host}/wh", file_io=azure)


@pytest.mark.parametrize("name", ["wh?versionId=5/x", "wh?versionid=5"])
def test_a_path_that_clients_take_for_a_version_is_refused(s3: Any, name: str) -> None:
    catalog = wt.Catalog(f"bucket/{name}", file_io=s3)
    with pytest.raises(InvalidError, match="versionid"):
        catalog.list_tables()


def test_a_path_beside_a_table_is_asked_of_its_file_system(s3: Any, tmp_path: Path) -> None:
    known, _ = given_storage(s3, None).at("bucket/wh")
    found, path = locate_beside(known, "s3://bucket//x/")
    assert (repr(found), path) == (repr(known), "s3://bucket/x")
    assert locate_beside(known, str(tmp_path))[1] == str(tmp_path)
    assert isinstance(locate_beside(known, "s3://other/x")[0], ObjectStoreFileIO)


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("S3://b//w/", "s3://b/w"),
        ("abfss://c@a.dfs.core.windows.net/w", "abfss://c@a.dfs.core.windows.net/w"),
        ("hdfs://n//w/", "hdfs://n/w"),
        ("/w/", "/w"),
    ],
)
def test_a_storage_of_ones_own_needs_no_client_of_others(
    where: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.setattr(store_client, "_CLIENTS", {})
    monkeypatch.setattr(hdfs_client, "_CLIENTS", {})
    own = LocalFileIO()
    assert given_storage(own, None).at(where) == (own, path)


AZURE = "dfs.core.windows.net"


@pytest.mark.parametrize(
    ("known", "beside", "elsewhere"),
    [
        ("s3://b/w", "s3a://b//x/", "s3a://c/x"),
        ("s3a://b/w", "S3://b/x", "gs://b/x"),
        (f"abfss://c@a.{AZURE}/w", "abfs://c@a.blob.core.windows.net/x", f"abfs://d@a.{AZURE}/x"),
        (f"wasb://c@a.{AZURE}/w", f"abfss://c@a.{AZURE}/x", f"abfss://c@b.{AZURE}/x"),
        (f"wasbs://c@a.{AZURE}/w", f"wasbs://c@a.{AZURE}/x", f"wasbs://c@a.{AZURE}.cn/x"),
    ],
)
def test_a_bucket_is_the_same_by_whichever_scheme(known: str, beside: str, elsewhere: str) -> None:
    """What lies beside a table gets the options that were given with it, in no other bucket."""
    options = {"s3.access-key": "me", "s3.secret-key": "mine", "azure.account.key": "a2V5"}
    given, _ = given_storage(None, options).at(known)
    found, path = locate_beside(given, beside)
    assert path == beside.replace("S3:", "s3:").replace("//x/", "/x")
    assert found._key(path) == "x"  # type: ignore[attr-defined]
    assert found._options == checked_storage_options(options)  # type: ignore[attr-defined]
    assert locate_beside(given, elsewhere)[0]._options is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasb", "wasbs"])
def test_a_host_has_no_case(scheme: str) -> None:
    url, same = (f"{scheme}://Box@{host}/Wh" for host in (f"Me.{AZURE.upper()}", f"me.{AZURE}"))
    assert locate(url)[1] == same
    azure = adlfs.AzureBlobFileSystem(account_name="me", account_key="a2V5")
    assert given_storage(azure, None).at(url)[1] == same


def test_a_bucket_of_a_file_system_is_the_same_by_whichever_scheme(s3: Any) -> None:
    azure = adlfs.AzureBlobFileSystem(account_name="me", account_key="a2V5")
    for filesystem, known, beside in (
        (s3, "bucket/wh", "s3a://bucket/x"),
        (s3, "s3a://bucket/wh", "s3://bucket/x"),
        (azure, "c/wh", f"abfss://c@me.{AZURE}/x"),
        (azure, f"wasb://c@me.{AZURE}/wh", "az://c/x"),
    ):
        given, _ = given_storage(filesystem, None).at(known)
        found, path = locate_beside(given, beside)
        assert isinstance(found, FsspecFileIO)
        assert found._served is given._served  # type: ignore[attr-defined]
        assert path == beside
        assert found._key(path) == f"{given._bucket}/x"  # type: ignore[attr-defined]


def test_options_beside_it_are_refused(s3: Any) -> None:
    with pytest.raises(InvalidError, match="storage_options"):
        given_storage(s3, {"s3.region": "x"})
