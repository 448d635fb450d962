"""Tables by file systems of other libraries: as on a disk; published once; nothing kept that others changed."""

from __future__ import annotations

import gc
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.object_stores.faulty_proxy import Fault
from tests.object_stores.given_filesystems import Given
from tests.object_stores.test_tables import (
    create,
)
from tests.support.contracts.storage_contract import StorageContract
from widetable.errors import InvalidError, NotFoundError, StorageError, UnsupportedError
from widetable.storage.file_io import FileIO

# aiohttp's, of 1 MB and more.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.fixture
def file_io(given: Given) -> FileIO:
    return given.file_io


@pytest.fixture
def place(given: Given) -> str:
    return given.url


class TestGivenFilesystem(StorageContract):
    """File systems that a user made."""


@pytest.mark.parametrize("size", [0, 1, 10, (1 << 20) + 1, 8 << 20, (8 << 20) + 1, 20_000_000])
def test_streams(given: Given, size: int, rng: random.Random) -> None:
    file_io, path = given.file_io, f"{given.url}/data-1.parquet"
    data = rng.randbytes(size)
    with file_io.open_output(path) as out:
        for start in range(0, size, 3_000_000):
            out.write(data[start : start + 3_000_000])
    assert file_io.size(path) == size
    assert file_io.exists(path)
    assert file_io.read(path) == data
    with file_io.open_input(path) as source:
        assert source.size() == size
        assert source.read() == data
        for _ in range(10):
            start, length = rng.randrange(size + 1), rng.choice([1, 100, 2_000_000])
            source.seek(start)
            assert source.read(length) == data[start : start + length]
    assert file_io.link(path, f"{given.url}/copy")
    assert not file_io.link(path, f"{given.url}/copy")
    assert file_io.read(f"{given.url}/copy") == data


@pytest.mark.parametrize(
    "name",
    ["dt=a%3Ab c&d", "x[1]{2}", "a*b", "ü/é", "100%", "a+b", "!x", "~", "a;b,c='d'", "a=b@c"],
)
def test_keys_are_taken_as_they_are(given: Given, name: str) -> None:
    file_io, url = given.file_io, given.url
    others = [f"{url}/x1/z", f"{url}/ab/z", f"{url}/{name}z/z", f"{url}/{name[0]}-/y"]
    for path in others:
        file_io.replace(path, b"other")
    file_io.write_new(f"{url}/{name}/x", b"1")
    with pytest.raises(InvalidError, match="expected no object yet"):
        file_io.write_new(f"{url}/{name}/x", b"2")
    assert [(entry.name, entry.is_dir) for entry in file_io.list(f"{url}/{name}")] == [("x", False)]
    assert name.partition("/")[0] in [entry.name for entry in file_io.list(url)]
    assert file_io.delete_dir(f"{url}/{name}")
    assert not file_io.exists(f"{url}/{name}/x")
    assert not file_io.delete_dir(f"{url}/{name}")
    assert [file_io.read(path) for path in others] == [b"other"] * 4
    assert file_io.delete_all([*others, f"{url}/none"])
    assert file_io.list(url) == []


def test_what_is_not_there(given: Given) -> None:
    file_io, path = given.file_io, f"{given.url}/dir/missing"
    file_io.replace(f"{given.url}/dir/there/below", b"")
    assert not file_io.exists(path)
    assert not file_io.exists(f"{given.url}/dir")
    assert not file_io.delete(path)
    assert not file_io.delete(f"{given.url}/dir")
    assert not file_io.delete_dir(path)
    assert not file_io.replace_if(path, b"", b"1")
    assert file_io.list(path) == []
    for ask in (file_io.read, file_io.size, file_io.open_input):
        for missing in (path, f"{given.url}/dir/there"):
            with pytest.raises(NotFoundError, match="no such object"):
                ask(missing)
    with pytest.raises(NotFoundError, match="missing"):
        file_io.link(path, f"{given.url}/other")
    with pytest.raises(InvalidError, match="a path on another storage"):
        file_io.read("s3://elsewhere/x")
    assert file_io.exists(f"{given.url}/dir/there/below")


@pytest.mark.parametrize("marker", ["dir/", "dir"])
def test_an_object_in_the_place_of_a_directory_hides_nothing(given: Given, marker: str) -> None:
    """Some tools put an empty one there; adlfs lists no other then, and expiry would take tags for gone."""
    file_io, dir = given.file_io, f"{given.url}/dir"
    for name in ("x", "deep/down/y", "deep/z"):
        file_io.replace(f"{dir}/{name}", b"12")
    file_io.replace(f"{given.url}/dirs/w", b"")
    given.filesystem.pipe_file(f"{given.place}/{marker}", b"")
    if given.name == "adlfs" and marker == "dir":
        for ask in (file_io.list, file_io.delete_dir):
            with pytest.raises(StorageError, match="name of a directory"):
                ask(dir)
        return
    found = [(entry.name, entry.is_dir, entry.size_bytes) for entry in given.file_io.list(dir)]
    assert found == [("deep", True, 0), ("x", False, 2)]
    assert file_io.delete_dir(dir)
    assert file_io.list(dir) == []
    assert file_io.exists(f"{given.url}/dirs/w")


def test_a_conflict_where_nobody_has_the_name_is_an_error(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adlfs says so of a container that is being deleted."""
    file_io: Any = given.file_io
    assert file_io.publish(f"{given.url}/before", b"")

    def conflict(*args: Any, **more: Any) -> None:
        raise FileExistsError("x")

    monkeypatch.setattr(file_io._served.filesystem, "pipe_file", conflict)
    with pytest.raises(StorageError, match="no object"):
        file_io.publish(f"{given.url}/x", b"1")


def test_a_copy_that_breaks_off_leaves_no_object(given: Given) -> None:
    file_io, source, target = given.file_io, f"{given.url}/from", f"{given.url}/to"
    file_io.replace(source, b"1" * 20_000_000)
    given.proxy.refusal = (403, b"<Error><Code>AccessDenied</Code></Error>")
    asked: list[str] = []

    def plan(method: str, path: str) -> Fault | None:
        asked.extend([path] if method == "GET" and "from" in path else [])
        return Fault.REFUSED if len(asked) > 3 and method == "GET" and "from" in path else None

    given.proxy.plan = plan
    with pytest.raises(StorageError):
        file_io.link(source, target)
    given.proxy.plan = lambda method, path: None
    assert not file_io.exists(target)
    file_io.replace(target, b"former")
    asked.clear()
    given.proxy.plan = plan
    with pytest.raises(StorageError):
        file_io.link(source, target, replace=True)
    given.proxy.plan = lambda method, path: None
    gc.collect()  # a writer that nobody has any more is closed
    assert file_io.read(target) == b"former"


def test_a_put_whose_answer_makes_no_sense_is_read_back(
    s3: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as JSON that was cut: a ValueError of a client, which is no word on conditions once the probe has passed."""
    file_io: Any = s3.file_io
    assert file_io.publish(f"{s3.url}/before", b"")
    put = file_io._served.filesystem.pipe_file

    def no_sense(*args: Any, **more: Any) -> None:
        put(*args, **more)
        raise ValueError("no JSON")

    monkeypatch.setattr(file_io._served.filesystem, "pipe_file", no_sense)
    assert file_io.publish(f"{s3.url}/x", b"1")
    monkeypatch.setattr(file_io._served.filesystem, "pipe_file", lambda *a, **m: int("x"))
    with pytest.raises(StorageError, match="invalid literal"):
        file_io.publish(f"{s3.url}/y", b"1")


def test_a_long_listing_is_whole(given: Given) -> None:
    file_io = given.file_io
    with ThreadPoolExecutor(16) as pool:
        paths = [f"{given.url}/many/{number:04}" for number in range(1_050)]
        [*pool.map(lambda path: file_io.replace(path, b""), paths)]
    listed = [entry.name for entry in file_io.list(f"{given.url}/many")]
    assert listed == [f"{number:04}" for number in range(1_050)]
    assert file_io.delete_dir(f"{given.url}/many")
    assert file_io.list(given.url) == []


def test_what_others_change_is_seen_at_once(given: Given) -> None:
    """Though the file system that was given keeps lists, and has listed what others change."""
    own, file_io, path = given.filesystem, given.file_io, f"{given.url}/dir/x"
    file_io.replace(f"{given.url}/dir/first", b"")
    key = f"{given.place}/dir"
    assert [each["name"] for each in own.ls(key, detail=True)] == [f"{key}/first"]
    other = pickle.loads(pickle.dumps(file_io))
    assert not file_io.exists(path)
    for data in (b"one", b"longer"):
        other.replace(path, data)
        assert file_io.size(path) == len(data)
        assert file_io.read(path) == data
        assert [entry.name for entry in file_io.list(f"{given.url}/dir")] == ["first", "x"]
    other.delete(path)
    assert not file_io.exists(path)
    assert [entry.name for entry in file_io.list(f"{given.url}/dir")] == ["first"]


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER])
def test_a_put_on_condition_whose_answer_fails_is_ours_once(given: Given, fault: Fault) -> None:
    file_io, path = given.file_io, f"{given.url}/snapshot-1"
    assert file_io.publish(f"{given.url}/before", b"")
    left: list[Fault] = []
    given.proxy.plan = lambda method, path: (
        left.pop() if method in ("PUT", "POST") and left else None
    )
    left[:] = [fault] * 2
    assert file_io.publish(path, b"ours")
    assert not left
    assert not file_io.publish(path, b"theirs")
    assert not file_io.publish(path, b"ours"), "who comes later with the same bytes is another"
    left[:] = [fault]
    assert file_io.replace_if(path, b"ours", b"ours again")
    assert not file_io.replace_if(path, b"ours", b"theirs")
    assert file_io.read(path) == b"ours again"


def test_a_look_that_fails_says_nothing(s3: Given) -> None:
    file_io, path = s3.file_io, f"{s3.url}/snapshot-1"
    file_io.replace(path, b"1")
    s3.proxy.refusal = (403, b"<Error><Code>AccessDenied</Code></Error>")
    s3.proxy.plan = lambda method, path: Fault.REFUSED
    for ask in (file_io.exists, file_io.read, file_io.size, file_io.list, file_io.delete_dir):
        with pytest.raises(StorageError, match="credentials"):
            ask(path)


def test_a_store_that_passes_conditions_over_is_refused(s3: Given) -> None:
    s3.proxy.plan = lambda method, path: Fault.LAX
    for write in (
        lambda: s3.file_io.publish(f"{s3.url}/x", b"1"),
        lambda: s3.file_io.open_output(f"{s3.url}/x"),
        lambda: s3.file_io.replace(f"{s3.url}/x", b"1"),
        lambda: create(s3.place, None, s3.filesystem),
    ):
        with pytest.raises(UnsupportedError, match="If-None-Match"):
            write()
    s3.proxy.plan = lambda method, path: None
    assert s3.file_io.list(s3.url) == []
