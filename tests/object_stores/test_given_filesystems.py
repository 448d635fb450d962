"""Tables by file systems of other libraries: as on a disk; published once; nothing kept that others changed."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import random
import threading
import traceback
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.conformance import PASSED, load_cases, run_case
from tests.object_stores import given_filesystems as made
from tests.object_stores.faulty_proxy import Fault
from tests.object_stores.given_filesystems import Given, given_filesystem
from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY
from tests.object_stores.test_more_stores import one_of_many
from tests.object_stores.test_tables import (
    COLUMNS,
    VECTORS,
    WRITER,
    check_all_commits_are_in,
    check_what_killed_writers_said,
    create,
    run_of_operations,
    writers,
)
from widetable.errors import InvalidError, NotFoundError, StorageError, UnsupportedError

# aiohttp's, of 1 MB and more.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
_GIVEN = "WIDETABLE_TEST_GIVEN"
_WRITER = f"""
import base64, os, pickle
given = pickle.loads(base64.b64decode(os.environ["{_GIVEN}"]))
{WRITER.replace("Table.open(path)", "Table.open(path, file_io=given)")}
"""


@pytest.fixture(params=made.PARAMETERS)
def given(request: pytest.FixtureRequest) -> Iterator[Given]:
    with given_filesystem(request.param, lambda: request.getfixturevalue("server")) as found:
        yield found


@pytest.fixture
def s3(server: int) -> Iterator[Given]:
    with given_filesystem("s3fs", lambda: server) as found:
        yield found


def test_operations_give_what_they_give_on_a_disk(given: Given, tmp_path: Path) -> None:
    table = create(given.place, None, given.filesystem)
    assert table.path == f"{given.url}/db.db/t"
    assert given.place in table.path
    found = run_of_operations(pickle.loads(pickle.dumps(table)))
    assert found == run_of_operations(create(str(tmp_path)))
    catalog = wt.Catalog(given.url, file_io=given.filesystem)
    assert catalog.list_tables() == ["db.t"]
    catalog.drop_table("db.t")
    assert catalog.list_tables() == []
    assert given.file_io.list(given.url) == []


@pytest.mark.parametrize(
    "case", load_cases(VECTORS)[20::120], ids=lambda case: f"{case['area']}-{case['id']}"
)
def test_conformance(given: Given, case: dict[str, Any]) -> None:
    def warehouses() -> AbstractContextManager[str]:
        return contextlib.nullcontext(f"{given.place}/{uuid.uuid4().hex}")

    outcome = run_case(case, warehouses, lambda place: wt.Catalog(place, file_io=given.filesystem))
    assert outcome.verdict == PASSED, outcome.detail


def test_one_of_many_publishes(given: Given) -> None:
    file_io, url = given.file_io, given.url
    for number in range(5):
        path = f"{url}/deep/snapshot-{number}"
        won = one_of_many(lambda data, path=path: file_io.publish(path, data))  # type: ignore[misc]
        assert won == [file_io.read(path)]


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
    with pytest.raises(InvalidError, match="expected none"):
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
    with pytest.raises(InvalidError, match="another place"):
        file_io.read("s3://elsewhere/x")
    assert file_io.exists(f"{given.url}/dir/there/below")


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


def test_those_of_pyarrow_read_and_do_not_write(s3: Given) -> None:
    table = create(s3.place, None, s3.filesystem)
    expected = run_of_operations(table)
    table.write({"k": [*range(1000)], "b": ["ä" * 1000] * 1000, "b_at": [9] * 1000})
    files = s3.file_io.list(f"{table.path}/snapshot")
    reader = made.arrow_s3(s3.proxy.server_port)
    found = wt.Table.open(table.path, file_io=reader)
    assert found.scan().to_arrow().sort_by("k") == table.scan().to_arrow().sort_by("k")
    assert found.lookup([1, 7, 2000]) == table.lookup([1, 7, 2000])
    assert [one.id for one in found.snapshots()] == [one.id for one in table.snapshots()]
    assert wt.Catalog(s3.place, file_io=reader).list_tables() == ["db.t"]
    assert pickle.loads(pickle.dumps(found)).scan().count() == 1000
    for write in (
        lambda: found.write({"k": [1], "a": [1], "a_at": [99]}),
        lambda: found.create_tag("t"),
        lambda: wt.Catalog(s3.place, file_io=reader).drop_table("db.t"),
        lambda: wt.Catalog(s3.place, file_io=reader).create_table(
            "db.u", COLUMNS, primary_key=["k"]
        ),
    ):
        with pytest.raises(UnsupportedError, match="then writes"):
            write()
    assert s3.file_io.list(f"{table.path}/snapshot") == files
    assert expected


def test_paths_may_be_of_either_form(s3: Given) -> None:
    table = create(s3.place, None, s3.filesystem)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    for path in (
        table.path,
        table.path.removeprefix("s3://"),
        f"{table.path}/",
        Path(table.path.removeprefix("s3://")),
        table.path.replace("s3:", "s3a:"),
    ):
        assert wt.Table.open(path, file_io=s3.filesystem).scan().count() == 1
    table.create_tag("t")
    table.create_branch("b", tag="t")
    branch = wt.Table.open(table.path, branch="b", file_io=s3.filesystem)
    assert branch.scan().count() == 1
    joined = [*wt.lookup_join([pa.record_batch({"k": [1]})], table, on=["k"])]
    assert pa.Table.from_batches(joined)["a"].to_pylist() == [7]


def test_nobody_sees_what_it_was_made_with(s3: Given) -> None:
    table = create(s3.place, None, s3.filesystem)
    s3.proxy.refusal = (
        403,
        f"<Error><Code>Denied</Code><Message>{SECRET_KEY} {ACCESS_KEY}</Message></Error>".encode(),
    )
    s3.proxy.plan = lambda method, path: Fault.REFUSED
    with pytest.raises(StorageError) as refused:
        table.write({"k": [1], "a": [7], "a_at": [1]})
    shown = "".join(traceback.format_exception(refused.value))
    shown += repr(table) + repr(table._file_io) + str(refused.value) + repr(refused.value.__cause__)
    assert "***" in shown
    assert SECRET_KEY not in shown
    assert ACCESS_KEY not in shown


def test_a_forked_child_is_told_to_begin_anew(s3: Given) -> None:
    """Their threads are gone in it, and who waits for them waits for ever."""
    table = create(s3.place, None, s3.filesystem)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            table.scan().to_arrow()
        except StorageError as refused:
            os.write(write, str(refused).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        assert b"forked" in said.read()
    os.waitpid(child, 0)


def test_a_commit_lists_nothing(s3: Given) -> None:
    options = {"write-only": "true", "changelog-producer": "none"}
    table = create(s3.place, options, s3.filesystem)
    for number in range(2):
        table.write({"k": [1], "a": [number], "a_at": [number]})
    s3.proxy.heard.clear()
    table.write({"k": [1], "a": [7], "a_at": [7]}, "user", 3)
    asked = [heard.path for heard in s3.proxy.heard]
    assert not [path for path in asked if "list-type" in path]
    assert len([path for path in asked if "data-" not in path]) <= 15


def test_an_event_loop_may_run(s3: Given) -> None:
    """As in notebooks; and one that was made for a loop of the user's own is asked by ours."""
    import asyncio

    async def job() -> int:
        table = create(s3.place, None, made.s3(s3.proxy.server_port, asynchronous=True))
        table.write({"k": [1], "a": [7], "a_at": [1]})
        return table.scan().count()

    assert asyncio.run(job()) == 1


def test_tables_are_copied_by_it(s3: Given, tmp_path: Path) -> None:
    table = create(s3.place, None, s3.filesystem)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    catalog = wt.Catalog(s3.place, file_io=s3.filesystem)
    catalog.copy_table("db.t", "db.u")
    catalog.copy_table("db.t", "db.v", target_warehouse=f"{s3.place}/other")
    assert catalog.table("db.u").scan().count() == 1
    other = wt.Catalog(f"{s3.url}/other", file_io=s3.filesystem)
    assert other.table("db.v").lookup([1], columns=["a"]).to_pylist() == [{"a": 7}]
    with pytest.raises(InvalidError, match="on the file system that was given"):
        catalog.copy_table("db.t", "db.w", target_warehouse=tmp_path)


def test_threads_share_a_file_system(s3: Given) -> None:
    table = create(s3.place, {"bucket": "1"}, s3.filesystem)
    errors: list[BaseException] = []

    def work(user: int) -> None:
        try:
            for number in range(3):
                table.write({"k": [user * 100 + number], "a": [1], "a_at": [1]}, f"u{user}", number)
                table.scan().to_arrow()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert table.scan().count() == 12
    assert table.audit().findings == ()


def variables(given: Given) -> dict[str, str]:
    return {_GIVEN: base64.b64encode(pickle.dumps(given.filesystem)).decode()}


def test_no_commit_of_many_writers_is_lost_or_doubled_on_a_network_that_fails(
    given: Given, rng: random.Random
) -> None:
    table = create(given.place, None, given.filesystem)
    faults = [Fault.REFUSED, Fault.BROKEN, Fault.LOST_ANSWER, Fault.CUT, Fault.LATE]
    share = 1 / 150 if given.name == "adlfs" else 1 / 15  # Azure's client waits 15 s to try again

    def plan(method: str, path: str) -> Fault | None:
        fault = rng.choice(faults) if rng.random() < share else None
        if fault is Fault.LOST_ANSWER and "upload_id=" in path:
            return None  # of what was uploaded in parts, and to its end, the emulator knows no more when asked again
        return fault

    given.proxy.plan = plan
    with writers(table.path, 4, 3, variables(given), _WRITER) as started:
        ends = [each.communicate() for each in started]
        assert [each.returncode for each in started] == [0, 0, 0], ends
    given.proxy.plan = lambda method, path: None
    check_all_commits_are_in(table)


def test_what_killed_writers_said_is_there(given: Given, rng: random.Random) -> None:
    table = create(given.place, None, given.filesystem)
    check_what_killed_writers_said(table, rng, variables(given), _WRITER)
