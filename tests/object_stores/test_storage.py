"""An object store: what appears, when, and what answers that get lost, fail or are cut leave behind."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from http.client import HTTPConnection

import pytest

from tests.object_stores.conftest import ROOT
from tests.object_stores.faulty_proxy import Fault, FaultyProxy
from tests.object_stores.s3_server import BUCKET
from tests.support.contracts.storage_contract import StorageContract, names_in
from widetable.commit.notes.lease import try_lease
from widetable.errors import InvalidError, NotFoundError, StorageError, UnsupportedError
from widetable.storage.locate import locate
from widetable.storage.paths import TablePaths
from widetable.storage.remote.object_store import ObjectStoreFileIO


class TestObjectStore(StorageContract):
    """An S3 store behind a proxy."""


def test_an_object_is_there_once_it_is_closed(file_io: ObjectStoreFileIO, place: str) -> None:
    out = file_io.open_output(f"{place}/data-1.parquet")
    out.write(b"a" * 6_000_000)
    assert not file_io.exists(f"{place}/data-1.parquet")
    out.close()
    assert file_io.exists(f"{place}/data-1.parquet")


def test_a_long_listing_is_whole(file_io: ObjectStoreFileIO, place: str) -> None:
    """S3 answers with 1,000 keys at once."""
    for number in range(1_050):
        file_io.replace(f"{place}/many/{number:04}", b"")
    assert names_in(file_io, f"{place}/many") == [f"{number:04}" for number in range(1_050)]
    assert file_io.delete_dir(f"{place}/many")
    assert file_io.list(f"{place}/many") == []


def test_keys_are_the_bytes_of_the_path(
    file_io: ObjectStoreFileIO, place: str, server: int
) -> None:
    """As Paimon's Java has them: partitions are escaped once, by the table."""
    name = "dt=a%3Ab c&d#e+f=ü"
    file_io.write_new(f"{place}/{name}/x", b"1")
    assert names_in(file_io, place) == [name]
    assert names_in(file_io, f"{place}/{name}") == ["x"]
    connection = HTTPConnection("127.0.0.1", server)
    connection.request("GET", f"/{BUCKET}?list-type=2&prefix={place[len(ROOT) + 1 :]}")
    assert "dt=a%3Ab c&amp;d#e+f=ü/x" in connection.getresponse().read().decode()


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER])
def test_a_publish_whose_answer_fails_is_ours_once(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str, fault: Fault
) -> None:
    """The client tries again, and after a lost answer finds what its first try has put there."""
    assert file_io.publish(f"{place}/before", b"")
    left = [fault]
    proxy.plan = lambda method, path: left.pop() if method == "PUT" and left else None
    assert file_io.publish(f"{place}/snapshot-1", b"ours")
    assert left == []
    assert not file_io.publish(f"{place}/snapshot-1", b"theirs")
    assert file_io.read(f"{place}/snapshot-1") == b"ours"


def test_a_publish_that_lost_against_another_is_not_ours(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    assert file_io.publish(f"{place}/snapshot-1", b"theirs")
    left = [Fault.LOST_ANSWER]
    proxy.plan = lambda method, path: left.pop() if method == "PUT" and left else None
    assert not file_io.publish(f"{place}/snapshot-1", b"ours")


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.BROKEN, Fault.CUT])
def test_a_read_that_fails_is_made_again(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str, fault: Fault
) -> None:
    file_io.replace(f"{place}/a", b"0123456789")
    left = [fault]
    proxy.plan = lambda method, path: left.pop() if method == "GET" and left else None
    assert file_io.read(f"{place}/a") == b"0123456789"
    assert left == []


def test_answers_that_were_cut_are_asked_for_again(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    """What is said of an object that is not there has a body, too."""
    left: list[Fault] = []
    proxy.plan = lambda method, path: left.pop() if left and method != "HEAD" else None

    def cut(answers: int) -> None:
        left[:] = [Fault.CUT] * answers

    cut(2)
    with pytest.raises(NotFoundError):
        file_io.read(f"{place}/none")
    cut(0)
    file_io.replace(f"{place}/a", b"0123456789")
    for _ in range(2):
        cut(1)
        with file_io.open_input(f"{place}/a") as opened:
            assert opened.read() == b"0123456789"
    cut(1)
    assert file_io.replace_if(f"{place}/a", b"0123456789", b"1")
    cut(1)
    file_io.delete_all([f"{place}/a", f"{place}/none"])
    cut(0)
    assert file_io.list(place) == []


def test_a_store_that_passes_conditions_over_is_refused(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    proxy.plan = lambda method, path: Fault.LAX
    with pytest.raises(UnsupportedError, match="If-None-Match"):
        file_io.publish(f"{place}/snapshot-1", b"ours")
    assert file_io.list(place) == []


def test_credentials_are_in_no_pickle_repr_or_error(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    file_io.replace(f"{place}/a", b"1")
    copy = pickle.loads(pickle.dumps(file_io))
    assert copy.read(f"{place}/a") == b"1"
    proxy.plan = lambda method, path: Fault.REFUSED if method == "PUT" else None
    told = [repr(file_io), repr(pickle.dumps(file_io))]
    with pytest.raises(StorageError) as refused:
        file_io.replace(f"{place}/a", b"2")
    told.append(str(refused.value))
    assert "secret-of-nobody" not in " ".join(told)


def test_a_forked_child_says_that_it_cannot(file_io: ObjectStoreFileIO, place: str) -> None:
    """The threads of obstore are not there, and it would wait for ever."""
    file_io.replace(f"{place}/a", b"1")
    child = os.fork()
    if not child:
        try:
            file_io.read(f"{place}/a")
        except StorageError as refused:
            os._exit(0 if "forked" in str(refused) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_urls(proxy: FaultyProxy) -> None:
    for url in ("s3://bucket/wh/", "s3://bucket//wh", "S3://bucket/wh"):
        file_io, path = locate(url)
        assert (repr(file_io), path) == ("ObjectStoreFileIO('s3://bucket')", "s3://bucket/wh")
    azure = "c@a.dfs.core.windows.net"
    for root in (
        "s3a://b",
        "gs://b.x_y-z",
        f"abfs://{azure}",
        f"wasbs://{azure}",
        f"abfss://{azure}",
    ):
        assert locate(f"{root}/wh")[1] == f"{root}/wh"
    for url in (
        "s3://",
        "s3:///wh",
        "s3://bucket/../wh",
        "gs://b c/wh",
        "abfss://a/wh",
        "wasb://c@a.b/wh",
    ):
        with pytest.raises(InvalidError, match="a URL with a bucket"):
            locate(url)
    with pytest.raises(InvalidError, match="below s3://bucket"):
        ObjectStoreFileIO(ROOT).read("s3://bucketeer/wh")


def test_without_the_package_it_is_named() -> None:
    program = (
        "import sys; sys.modules['obstore'] = None\n"
        "import widetable as wt\n"
        "try: wt.Catalog('s3://bucket/wh')\n"
        "except wt.UnsupportedError as error: print(error.action)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "pip install 'widetable[object-store]'\n"


def test_one_of_many_takers_of_what_a_file_holds_gets_it(
    file_io: ObjectStoreFileIO, place: str
) -> None:
    """As of a lease that has run out."""
    path = f"{place}/lease"
    for _ in range(5):
        file_io.replace(path, b"over")
        barrier = threading.Barrier(8)
        won: list[bytes] = []

        def take(number: int, barrier: threading.Barrier = barrier, won: list[bytes] = won) -> None:
            barrier.wait()
            if file_io.replace_if(path, b"over", str(number).encode()):
                won.append(str(number).encode())

        threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [file_io.read(path)] == won
    assert not file_io.replace_if(path, b"over", b"late")
    assert not file_io.replace_if(f"{place}/none", b"", b"x")
    assert not file_io.exists(f"{place}/none")


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER])
def test_a_takeover_whose_answer_fails_is_ours_once(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str, fault: Fault
) -> None:
    file_io.replace(f"{place}/lease", b"over")
    left = [fault]
    proxy.plan = lambda method, path: left.pop() if method == "PUT" and left else None
    assert file_io.replace_if(f"{place}/lease", b"over", b"ours")
    assert left == []
    assert not file_io.replace_if(f"{place}/lease", b"over", b"theirs")
    assert file_io.read(f"{place}/lease") == b"ours"


def test_two_takers_of_a_lease_that_has_run_out_do_not_both_have_it(
    file_io: ObjectStoreFileIO, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks while the old one is there, whatever they do then."""
    paths = TablePaths(place)
    file_io.publish(paths.lease, b'{"owner": "gone", "expires_millis": 1, "process": null}')
    looked = threading.Barrier(2)
    read = ObjectStoreFileIO.read

    def read_together(self: ObjectStoreFileIO, path: str) -> bytes:
        found = read(self, path)
        if path == paths.lease:
            looked.wait()
        return found

    monkeypatch.setattr(ObjectStoreFileIO, "read", read_together)
    found: list[object] = []

    def take(owner: str) -> None:
        found.append(try_lease(file_io, paths, owner, 60_000))

    takers = [threading.Thread(target=take, args=(owner,)) for owner in ("a", "b")]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert [lease is None for lease in found].count(False) == 1


def test_a_publish_that_is_refused_at_once_is_not_ours_whatever_is_there(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    """Another may have put the same bytes there; nothing is read back."""
    assert file_io.publish(f"{place}/schema-0", b"same")
    proxy.heard.clear()
    assert not file_io.publish(f"{place}/schema-0", b"same")
    assert [each.method for each in proxy.heard] == ["PUT"]
    assert file_io.link(f"{place}/schema-0", f"{place}/copy")
    assert not file_io.link(f"{place}/schema-0", f"{place}/copy")


def test_what_is_denied_is_not_asked_again(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    assert file_io.publish(f"{place}/before", b"")
    proxy.heard.clear()
    proxy.refusal = (403, b"<Error><Code>AccessDenied</Code><Message>not you</Message></Error>")
    proxy.plan = lambda method, path: Fault.REFUSED
    with pytest.raises(StorageError, match="AccessDenied not you"):
        file_io.publish(f"{place}/snapshot-1", b"ours")
    assert [each.method for each in proxy.heard] == ["PUT"]


def test_a_path_elsewhere_is_no_proof_of_an_honest_store(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    with pytest.raises(InvalidError, match="below s3://bucket"):
        file_io.publish("s3://bucketeer/wh/snapshot-1", b"ours")
    proxy.plan = lambda method, path: Fault.LAX
    with pytest.raises(UnsupportedError, match="If-None-Match"):
        file_io.publish(f"{place}/snapshot-1", b"ours")


def test_a_list_that_was_cut_is_asked_for_again(
    file_io: ObjectStoreFileIO, proxy: FaultyProxy, place: str
) -> None:
    file_io.write_new(f"{place}/a", b"1")
    left: list[Fault] = []
    proxy.plan = lambda method, path: left.pop() if left and "list-type" in path else None
    left += [Fault.CUT] * 2
    assert [each.name for each in file_io.list(place)] == ["a"]
    left += [Fault.CUT] * 2
    assert file_io.delete_dir(place)
    assert not left
    assert file_io.list(place) == []
    left += [Fault.CUT] * 9
    with pytest.raises(StorageError, match="response body"):
        file_io.list(place)
