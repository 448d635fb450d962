"""Tables by file systems of other libraries are as on a disk; no commit is lost by their clients."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import random
import threading
import traceback
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.conformance import PASSED, load_cases, run_case
from tests.object_stores import azurite
from tests.object_stores import given_filesystems as made
from tests.object_stores.faulty_proxy import Fault
from tests.object_stores.given_filesystems import Given
from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY
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
from widetable.errors import InvalidError, StorageError, UnsupportedError
from widetable.storage.given_storage import given_storage

# aiohttp's, of 1 MB and more.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
_GIVEN = "WIDETABLE_TEST_GIVEN"
_WRITER = f"""
import base64, os, pickle
given = pickle.loads(base64.b64decode(os.environ["{_GIVEN}"]))
{WRITER.replace("Table.open(path)", "Table.open(path, file_io=given)")}
"""


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


def test_tags_are_kept_though_a_marker_stands_for_their_directory(given: Given) -> None:
    table = create(given.place, None, given.filesystem)
    table.write({"k": [1], "a": [7], "a_at": [1]})
    table.create_tag("keep")
    key = table.path.partition("://")[2]
    for name in ("tag", "schema", "snapshot", "manifest", "bucket-0", "branch"):
        given.filesystem.pipe_file(f"{key}/{name}/", b"")
    for number in range(2):
        table.overwrite({"k": [number], "a": [number], "a_at": [number]})
    assert len(table.expire_snapshots(1, 1, 0).ids) == 3
    table.remove_orphan_files(0)
    again = wt.Table.open(table.path, file_io=given.filesystem)
    assert again.scan(tag="keep", columns=["a"]).to_arrow()["a"].to_pylist() == [7]
    assert wt.Catalog(given.place, file_io=given.filesystem).list_tables() == ["db.t"]
    assert again.audit().findings == ()


def test_those_of_pyarrow_read_and_do_not_write(given: Given) -> None:
    if given.name == "gcsfs":
        pytest.skip("pyarrow's for Google's store is not served")
    table = create(given.place, None, given.filesystem)
    expected = run_of_operations(table)
    table.write({"k": [*range(1000)], "b": ["ä" * 1000] * 1000, "b_at": [9] * 1000})
    files = given.file_io.list(f"{table.path}/snapshot")
    reader = made.of_arrow(given.name, given.proxy.server_port)
    found = wt.Table.open(table.path, file_io=reader)
    assert found.scan().to_arrow().sort_by("k") == table.scan().to_arrow().sort_by("k")
    assert found.lookup([1, 7, 2000]) == table.lookup([1, 7, 2000])
    assert [one.id for one in found.snapshots()] == [one.id for one in table.snapshots()]
    assert wt.Catalog(given.place, file_io=reader).list_tables() == ["db.t"]
    assert pickle.loads(pickle.dumps(found)).scan().count() == 1000
    for write in (
        lambda: found.write({"k": [1], "a": [1], "a_at": [99]}),
        lambda: found.create_tag("t"),
        lambda: wt.Catalog(given.place, file_io=reader).drop_table("db.t"),
        lambda: wt.Catalog(given.place, file_io=reader).create_table(
            "db.u", COLUMNS, primary_key=["k"]
        ),
    ):
        with pytest.raises(UnsupportedError, match="then writes"):
            write()
    assert given.file_io.list(f"{table.path}/snapshot") == files
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


@pytest.mark.parametrize("status", [400, 401, 403, 409])
def test_nobody_sees_what_it_was_made_with(given: Given, status: int) -> None:
    """Not in the answer of a store that says it, either: Azure's errors show all of it."""
    if given.name == "gcsfs":
        pytest.skip("it was made with none")
    secrets = [azurite.ACCOUNT_KEY] if given.name == "adlfs" else [SECRET_KEY, ACCESS_KEY]
    table = create(given.place, None, given.filesystem)
    said = f"<Error><Code>Denied</Code><Message>{' '.join(secrets)}</Message></Error>"
    given.proxy.refusal = (status, said.encode())
    given.proxy.plan = lambda method, path: Fault.REFUSED
    with pytest.raises(StorageError) as refused:
        table.write({"k": [1], "a": [7], "a_at": [1]})
    shown = "".join(traceback.format_exception(refused.value))
    shown += repr([table, table._file_io, given_storage(given.filesystem, None)])
    shown += str(refused.value) + repr(refused.value.__cause__)
    for secret in secrets:
        assert secret not in shown


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
    with table.new_writer(["k", "a", "a_at"]) as writer:
        writer.write([pa.RecordBatch.from_pydict({"k": [1], "a": [7], "a_at": [7]})])
        messages = writer.finish()
    s3.proxy.heard.clear()
    table.commit_append(messages, "user", 3)
    assert not [heard.path for heard in s3.proxy.heard if "list-type" in heard.path]
    assert len(s3.proxy.heard) == 9


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
    with pytest.raises(InvalidError, match="on the file system in file_io"):
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
        if fault in (Fault.LOST_ANSWER, Fault.CUT) and "upload_id=" in path:
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
