"""Sessions over tables under barriers: what they hold stays, and they look again only where it may help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.barrier_tables import NAME, new_table, rows_of
from widetable.commit.holds.read_lease import ReadLease, hold
from widetable.errors import NotFoundError
from widetable.operations.barriers import barrier_listing as shown_barriers
from widetable.operations.barriers import session
from widetable.operations.barriers.barrier_listing import ShownBarrier, ShownBarriers
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.read.barrier_view import BarrierViews


def writers(warehouse: Path) -> tuple[wt.BarrierWriter, wt.BarrierWriter]:
    """Of the columns a and b."""
    catalog = wt.Catalog(warehouse)
    return catalog.writer(NAME, "wa", ["a"]), catalog.writer(NAME, "wb", ["b"])


def test_a_session_over_a_table_without_snapshots_stays_without_rows(tmp_path: Path) -> None:
    new_table(tmp_path)
    with wt.Catalog(tmp_path).session(consistency="ReadUncommitted") as opened:
        table = opened.table(NAME)
        wt.Catalog(tmp_path).alter_table(NAME, add_columns=[pa.field("d", pa.int64())])
        wt.Catalog(tmp_path).writer(NAME, "wa", ["a"]).write({"id": [1], "a": [1]})
        assert (opened.snapshot_ids(), rows_of(table.scan())) == ({NAME: None}, [])
        assert table.lookup([1]).to_pylist() == [{"id": None, "a": None, "b": None, "c": None}]


@pytest.mark.parametrize("wanted", [{}, {"as_of": 10}, {"consistency": "ReadCommitted"}])
def test_a_barrier_that_is_not_complete_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]
) -> None:
    new_table(tmp_path)
    wa, _ = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10)
    looks = []

    def noted(*given: Any) -> BarrierViews:
        looks.append(given)
        return barrier_views(*given)

    monkeypatch.setattr(session, "barrier_views", noted)
    with pytest.raises(NotFoundError, match="missing: wa"):
        wt.Catalog(tmp_path).session(**wanted)
    assert len(looks) == 1


@pytest.mark.parametrize("consistency", session.CONSISTENCIES)
def test_a_session_is_chosen_anew_where_an_expiry_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consistency: str
) -> None:
    table = new_table(tmp_path, write_only="true", widetable__barriers_kept="0")
    wa, wb = writers(tmp_path)

    def step(barrier: int) -> None:
        for writer, column in ((wa, "a"), (wb, "b")):
            writer.write({"id": [1], column: [barrier]}, barrier=barrier, complete=True)

    def overtaken(*given: Any) -> ReadLease:
        monkeypatch.undo()
        step(20)
        assert table.expire_snapshots(1, 1, 0).ids
        return hold(*given)

    step(10)
    monkeypatch.setattr(session, "hold_if_taken", overtaken)
    with wt.Catalog(tmp_path).session(consistency=consistency) as opened:
        assert rows_of(opened.table(NAME).scan()) == [(1, 20, 20, None)]


def test_sets_of_tables_are_noted_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one forgets the oldest set just when this one is about to."""

    class Overtaken(dict[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            there = [*super().__iter__()]
            if len(there) > 2:
                self.pop(there[0])
            return iter(there)

    monkeypatch.setattr(shown_barriers, "_MAX_SETS", 2)
    shown = ShownBarriers()
    shown._last = Overtaken()
    for name in "abcd":
        one = SimpleNamespace(barrier=10, revision=0, snapshot_ids=lambda name=name: {name: 1})
        shown.note("RepeatableRead", cast("wt.Session", one))
    assert shown.last("RepeatableRead", ["d"]) == ShownBarrier(10, 0)


@pytest.mark.parametrize("consistency", ["RepeatableRead", "ReadCommitted", "ReadUncommitted"])
def test_a_table_that_cannot_be_read_is_refused_when_it_is_asked_for(
    tmp_path: Path, consistency: str
) -> None:
    new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    options = {"merge-engine": "partial-update", "widetable.barrier-interval": "10 ms"}
    other = catalog.create_table(
        "shop.other", {"id": "BIGINT", "a": "BIGINT"}, primary_key=["id"], options=options
    )
    for name in (NAME, "shop.other"):
        catalog.writer(name, "w").write({"id": [1], "a": [1]}, barrier=10, complete=True)
    schema = Path(other.path, "schema", "schema-0")
    body = json.loads(schema.read_text())
    body["options"]["scan.mode"] = "latest"
    schema.write_text(json.dumps(body))
    with wt.Catalog(tmp_path).session(consistency=consistency) as session:
        assert session.table(NAME).scan().count() == 1
        with pytest.raises(wt.UnsupportedError, match=r"scan\.mode"):
            session.table("shop.other").scan()
        with pytest.raises(wt.UnsupportedError, match=r"scan\.mode"):
            session.table("shop.other").lookup([1])
