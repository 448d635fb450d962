"""Reads of a table on a storage that is read-only: they go on without a lease, or say why they need write access."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.read_only_disk import make_read_only
from widetable.commit.holds.lookup_pin import PinnedBatch
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.derive.lookups.joined_tables import new_lookup_join

LEFT = pa.RecordBatch.from_pylist([{"ref": 7}])


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Catalog:
    """A dim with a row and an index, a table under barriers; from then on read-only."""
    made = wt.Catalog(str(tmp_path))
    dim = made.create_table(
        "shop.dim",
        {"id": "BIGINT", "code": "BIGINT"},
        primary_key=["id"],
        options={"bucket": "1", "index.code": "shop.by_code"},
    )
    dim.write([{"id": 7, "code": 70}])
    dim.maintain(once=True)
    made.create_table(
        "shop.facts",
        {"id": "BIGINT", "v": "INT"},
        primary_key=["id"],
        options={"bucket": "1", "widetable.barrier-interval": "1 s"},
    )
    writer = made.writer("shop.facts", "loader")
    writer.write([{"id": 1, "v": 2}], barrier=2_000)
    writer.complete(2_000)
    make_read_only(monkeypatch)
    return made


READS: dict[str, Callable[[wt.Catalog, wt.Table], Any]] = {
    "scan": lambda _, dim: dim.scan(columns=["code"]).to_arrow()["code"].to_pylist() == [70],
    "lookup": lambda _, dim: dim.lookup([7])["code"].to_pylist() == [70],
    "session of lookups": lambda _, dim: dim.lookup_session().lookup([7]).num_rows == 1,
    "lookup by an index": lambda _, dim: dim.lookup_index([70])["id"].to_pylist() == [7],
    "join": lambda _, dim: _codes(wt.lookup_join([LEFT], dim, {"ref": "id"})) == [70],
    "join of a snapshot": lambda _, dim: (
        _codes(wt.lookup_join([LEFT], dim, {"ref": "id"}, snapshot_id=1)) == [70]
    ),
    "join by an index": lambda _, dim: (
        _codes(wt.lookup_join([_by_code()], dim, {"ref": "code"}, columns=["id", "code"])) == [70]
    ),
    "changes": lambda _, dim: dim.changes(0, 1).num_rows == 1,
    "follow": lambda _, dim: sum(b.num_rows for b in dim.follow(timeout=0)) == 1,
    "audit": lambda _, dim: dim.audit().ok,
    "doctor": lambda _, dim: dim.doctor(deep=True).ok,
    **{
        consistency: lambda catalog, _, consistency=consistency: (  # type: ignore[misc]
            _rows_of_session(catalog, consistency) == [{"id": 1, "v": 2}]
        )
        for consistency in ("RepeatableRead", "ReadCommitted", "ReadUncommitted")
    },
}


def _codes(batches: Any) -> list[Any]:
    return [code for batch in batches for code in batch["code"].to_pylist()]


def _by_code() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"ref": 70}])


def _rows_of_session(catalog: wt.Catalog, consistency: str) -> list[dict[str, Any]]:
    with catalog.session(["shop.facts"], consistency=consistency) as session:
        rows: list[dict[str, Any]] = session.table("shop.facts").scan().to_arrow().to_pylist()
        return rows


@pytest.mark.parametrize("name", READS)
def test_a_read_goes_on_without_a_lease(catalog: wt.Catalog, name: str) -> None:
    assert READS[name](catalog, catalog.table("shop.dim"))


def test_what_a_query_keeps_in_the_table_needs_write_access(catalog: wt.Catalog) -> None:
    dim = catalog.table("shop.dim")
    join = new_lookup_join(LEFT.schema, dim.path, JoinArguments({"ref": "id"}))
    with pytest.raises(wt.StorageError, match=r"write access .*which snapshot each micro-batch"):
        join.pin(PinnedBatch("query", "join", 0))
    with pytest.raises(wt.StorageError, match=r"write access .*a consumer's progress"):
        list(dim.follow("reader", timeout=0))
