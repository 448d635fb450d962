"""How many requests operations make, by what went through the proxy: they cost money and time."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.object_stores.faulty_proxy import FaultyProxy
from tests.object_stores.test_tables import create
from widetable.storage import kept_inputs
from widetable.storage.remote import ranged_input

OPTIONS = {"write-only": "true", "changelog-producer": "none"}


def rows(number: int) -> dict[str, list[int]]:
    return {"k": [*range(10)], "a": [number] * 10, "a_at": [number] * 10}


class Requests(Counter[tuple[str, str]]):
    """By method and kind of object."""

    @property
    def lists(self) -> int:
        return sum(count for (_, kind), count in self.items() if kind == "list")

    @property
    def of_data(self) -> int:
        return sum(count for (_, kind), count in self.items() if kind == "data")


@contextlib.contextmanager
def counted(proxy: FaultyProxy) -> Iterator[Requests]:
    found = Requests()
    proxy.heard.clear()
    yield found
    for method, path, *_ in proxy.heard:
        kind = "list" if "list-type" in path else re.split(r"[-?]", path.rsplit("/", 1)[-1])[0]
        found[method, kind] += 1


@pytest.fixture
def table(proxy: FaultyProxy, place: str) -> wt.Table:
    found = create(place, OPTIONS)
    found.write(rows(0))
    return found


def test_a_commit_makes_eight_requests_and_lists_nothing(
    proxy: FaultyProxy, table: wt.Table
) -> None:
    with table.new_writer(["k", "a", "a_at"]) as writer:
        writer.write([pa.RecordBatch.from_pydict(rows(1))])
        messages = writer.finish()
    with counted(proxy) as requests:
        table.commit_append(messages, "user", 1)
    assert requests.total() == 8
    assert requests == {
        ("HEAD", "snapshot"): 1,  # of the next id
        ("HEAD", "schema"): 1,  # of the next id
        ("PUT", "manifest"): 3,
        ("GET", "snapshot"): 1,  # still there, and of this table
        ("PUT", "snapshot"): 1,
        ("PUT", "LATEST"): 1,
    }


def test_a_write_makes_eleven_and_one_per_file(proxy: FaultyProxy, table: wt.Table) -> None:
    for number in (1, 2):
        with counted(proxy) as requests:
            table.write(rows(number), "user", number)
        assert (requests.total() - requests.of_data, requests.of_data) == (11, 2)
        assert not requests.lists


def test_a_commit_after_another_one_makes_few_more(proxy: FaultyProxy, table: wt.Table) -> None:
    other = wt.Table.open(table.path)
    for number in (1, 2, 3):
        with counted(proxy) as requests:
            other.write(rows(number), "other", number)
        assert not requests.lists
        assert requests.total() - requests.of_data <= 17
        table.write(rows(number), "user", number)
    assert table.scan(columns=["a"]).to_arrow()["a"].to_pylist() == [3] * 10


def test_a_table_is_opened_and_written_without_a_list(proxy: FaultyProxy, table: wt.Table) -> None:
    table.alter_options({"write-buffer-size": "8 mb"})
    table.write(rows(1))
    with counted(proxy) as requests:
        wt.Table.open(table.path).write(rows(2))
    assert not requests.lists
    assert requests.total() - requests.of_data <= 25


def test_a_scan_that_follows_another_looks_three_times_and_once_per_file(
    proxy: FaultyProxy, table: wt.Table
) -> None:
    table.scan().to_arrow()
    with counted(proxy) as requests:
        table.scan().to_arrow()
    assert (requests.total() - requests.of_data, requests.of_data) == (3, 2)


def test_a_warm_lookup_asks_the_store_for_nothing(proxy: FaultyProxy, table: wt.Table) -> None:
    """Of level 0 files are kept in memory, of the levels above caches are built."""
    table.write(rows(1))
    for look in ("level 0", "levels above"):
        session = table.lookup_session(columns=["a"])
        for _ in range(3):
            session.lookup([1, 2, 3, 77])
        with counted(proxy) as requests:
            found = session.lookup([1, 2, 3, 77])["a"].to_pylist()
        assert found == [1, 1, 1, None], look
        assert not requests, look
        for _ in range(3):
            with counted(proxy) as requests:
                table.lookup([1])
        assert requests.total() == 3  # what is newest
        table.compact(full=True)


def test_what_lookups_keep_in_memory_has_a_bound(
    proxy: FaultyProxy, table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_inputs, "_MAX_BYTES", 10_000)
    session = table.lookup_session(columns=["a"])
    for _ in range(2):
        with counted(proxy) as requests:
            assert session.lookup([1, 2, 3, 4, 5, 6]).num_rows == 6
    assert kept_inputs.KEPT_FILES._bytes <= 10_000
    monkeypatch.setattr(kept_inputs, "_LARGE_BYTES", 10)
    kept_inputs.KEPT_FILES._reset()
    for _ in range(2):
        with counted(proxy) as requests:
            assert session.lookup([1, 2, 3, 4, 5, 6]).num_rows == 6
        assert requests.of_data >= 2  # in ranges, each time
    assert not kept_inputs.KEPT_FILES._files


def test_expiry_deletes_many_files_at_once_and_asks_for_none(
    proxy: FaultyProxy, table: wt.Table
) -> None:
    for number in range(5):
        table.write(rows(number))
    table.compact(full=True)
    with counted(proxy) as requests:
        gone = table.expire_snapshots(1, 1, 0)
    assert gone.files > 12
    assert (
        0 < requests["POST", "bucket"] <= 3 + 2 * len(gone.ids)
    )  # each snapshot and its note go alone
    assert not requests.of_data
    assert table.remove_orphan_files(older_than_millis=0).paths == ()


def test_a_scan_of_many_columns_asks_for_them_together(
    proxy: FaultyProxy, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranged_input, "_TAIL_BYTES", 64 << 10)
    names = [f"c{number}" for number in range(40)]
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), *((n, pa.int64()) for n in names)]
    )
    table = wt.Catalog(place).create_table(
        "db.wide", schema, primary_key=["k"], options={"bucket": "1"}
    )
    values = np.random.default_rng(1).integers(
        0, 1 << 62, (41, 20_000)
    )  # 6.5 MB that nothing makes smaller
    values[0] = np.arange(20_000)
    table.write(pa.table([pa.array(each) for each in values], schema=schema))
    with counted(proxy) as requests:
        found = table.scan().to_arrow()
    assert found.num_rows == 20_000
    assert requests.of_data == 3  # the footer, and two parts of 4 MiB at most
    with counted(proxy) as requests:
        table.scan(columns=["k", "c3", "c30"]).to_arrow()
    assert requests.of_data == 3  # the footer, what lies together, and one far behind
