"""What every storage promises a table: the tests of `FileIO`, which the tests of each store inherit.

A subclass takes the fixtures `file_io`, the storage, and `place`, an empty directory in it, from its module.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from widetable.errors import InvalidError, NotFoundError
from widetable.storage.file_io import FileIO

_PART_BYTES = 3_000_000


def names_in(file_io: FileIO, path: str) -> list[str]:
    return sorted(entry.name for entry in file_io.list(path))


def winners_of(publish: Callable[[bytes], bool], count: int = 8) -> list[bytes]:
    """Return the data of those threads whose publish succeeded; all publish at once."""
    barrier = threading.Barrier(count)
    winners: list[bytes] = []

    def work(number: int) -> None:
        data = str(number).encode() * 1000
        barrier.wait()
        if publish(data):
            winners.append(data)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return winners


class StorageContract:
    """Each test is run for each store."""

    def test_publish_makes_a_file_once(self, file_io: FileIO, place: str) -> None:
        path = f"{place}/deep/down/snapshot-1"
        assert file_io.publish(path, b"first")
        assert not file_io.publish(path, b"second")
        assert not file_io.publish(path, b"first")
        assert file_io.read(path) == b"first"
        assert names_in(file_io, f"{place}/deep/down") == ["snapshot-1"]

    def test_one_of_many_publishers_wins(self, file_io: FileIO, place: str) -> None:
        for number in range(3):
            path = f"{place}/snapshot-{number}"
            winners = winners_of(lambda data, path=path: file_io.publish(path, data))  # type: ignore[misc]
            assert winners == [file_io.read(path)]
        assert names_in(file_io, place) == ["snapshot-0", "snapshot-1", "snapshot-2"]

    def test_replace_is_whole_whatever_was_there(self, file_io: FileIO, place: str) -> None:
        for data in (b"10", b"9", b""):
            file_io.replace(f"{place}/LATEST", data)
            assert file_io.read(f"{place}/LATEST") == data
        assert file_io.replace_if(f"{place}/LATEST", b"", b"11")
        assert not file_io.replace_if(f"{place}/LATEST", b"", b"12")
        assert not file_io.replace_if(f"{place}/none", b"", b"12")
        assert file_io.read(f"{place}/LATEST") == b"11"
        assert names_in(file_io, place) == ["LATEST"]

    def test_new_files_are_not_written_over(self, file_io: FileIO, place: str) -> None:
        file_io.write_new(f"{place}/manifest-1", b"a")
        with pytest.raises(InvalidError, match="manifest-1"):
            file_io.write_new(f"{place}/manifest-1", b"b")
        assert file_io.read(f"{place}/manifest-1") == b"a"
        assert names_in(file_io, place) == ["manifest-1"]

    @pytest.mark.parametrize("size", [0, 1, 10, 1 << 20, (1 << 20) + 1, 20_000_000])
    def test_streams(self, file_io: FileIO, place: str, size: int, rng: random.Random) -> None:
        data = rng.randbytes(size)
        path = f"{place}/data-1.parquet"
        with file_io.open_output(path) as out:
            for start in range(0, size, _PART_BYTES):
                out.write(data[start : start + _PART_BYTES])
        file_io.sync(path)
        assert file_io.size(path) == size
        with file_io.open_input(path) as source:
            assert source.size() == size
            for _ in range(30):
                start, length = rng.randrange(size + 1), rng.choice([1, 100, 2_000_000])
                source.seek(start)
                assert source.read(length) == data[start : start + length]
            source.seek(0)
            assert source.read() == data

    def test_listing(self, file_io: FileIO, place: str) -> None:
        for path in ("b", "a/inner", "a.b/inner", "dt=a%3Ab c&d#e+f=ü%2F/x"):
            file_io.write_new(f"{place}/{path}", b"xyz")
        entries = {
            entry.name: (entry.is_dir, None if entry.is_dir else entry.size_bytes)
            for entry in file_io.list(place)
        }
        directories = dict.fromkeys(("a", "a.b", "dt=a%3Ab c&d#e+f=ü%2F"), (True, None))
        assert entries == {**directories, "b": (False, 3)}
        assert names_in(file_io, f"{place}/dt=a%3Ab c&d#e+f=ü%2F") == ["x"]
        assert file_io.list(f"{place}/nothing") == []

    def test_what_is_not_there(self, file_io: FileIO, place: str) -> None:
        path = f"{place}/missing"
        assert not file_io.exists(path)
        assert not file_io.delete(path)
        assert not file_io.delete_dir(path)
        for ask in (file_io.read, file_io.size, file_io.open_input):
            with pytest.raises(NotFoundError, match="missing"):
                ask(path)
        with pytest.raises(NotFoundError, match="missing"):
            file_io.link(path, f"{place}/other")

    @pytest.mark.parametrize("size", [10, 9_000_000])
    def test_a_link_is_a_copy_that_replaces_when_asked(
        self, file_io: FileIO, place: str, size: int
    ) -> None:
        file_io.replace(f"{place}/a", b"a" * size)
        file_io.replace(f"{place}/b", b"b" * size)
        assert file_io.link(f"{place}/a", f"{place}/c")
        assert not file_io.link(f"{place}/b", f"{place}/c")
        assert file_io.read(f"{place}/c") == b"a" * size
        assert file_io.link(f"{place}/b", f"{place}/c", replace=True)
        assert file_io.read(f"{place}/c") == b"b" * size
        assert names_in(file_io, place) == ["a", "b", "c"]

    def test_removal(self, file_io: FileIO, place: str) -> None:
        file_io.write_new(f"{place}/d/a", b"")
        assert file_io.delete(f"{place}/d/a")
        file_io.write_new(f"{place}/d/e/b", b"")
        assert file_io.delete_dir(f"{place}/d")
        assert file_io.list(place) == []
