"""A root whose tables nothing registers as one job leaves when all have come equally far."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.widetable.topology.test_topology import catalog_of
from widetable.errors import ConflictError


def two_writers(tmp_path: Path, debits: int, credits: int) -> wt.Catalog:
    """A root that has a writer for each of its tables, which nothing registers as one job."""
    catalog = catalog_of(tmp_path, "db.debits", "db.credits")
    lead, follower = (catalog.writer(name, "transfers") for name in ("db.debits", "db.credits"))
    for barrier in range(10, debits + 1, 10):
        lead.write({"id": [barrier], "p": [1]}, barrier=barrier, complete=True)
    for barrier in range(10, credits + 1, 10):
        follower.write({"id": [barrier], "p": [1]}, barrier=barrier, complete=True)
    return catalog


@pytest.mark.parametrize("further", ["debits", "credits"])
def test_writers_of_one_name_are_not_dropped_while_one_is_behind(
    tmp_path: Path, further: str
) -> None:
    catalog = two_writers(tmp_path, **{"debits": 10, "credits": 10, further: 20})
    topology = catalog.topology()
    for dry_run in (True, False):
        with pytest.raises(ConflictError, match=f"db.{further} at 20") as refusal:
            topology.drop("transfers", dry_run=dry_run)
        assert "different barriers in its tables" in str(refusal.value)
        with pytest.raises(ConflictError, match="different barriers in its tables"):
            topology.leave("db.credits", "transfers", dry_run=dry_run)
    with catalog.session(["db.debits", "db.credits"]) as session:
        assert [session.table(name).scan().count() for name in ("db.debits", "db.credits")] == [
            1,
            1,
        ]
    assert topology.drop("transfers", force=True) == ["db.credits", "db.debits"]


def test_writers_of_one_name_that_came_equally_far_are_dropped(tmp_path: Path) -> None:
    topology = two_writers(tmp_path, 20, 20).topology()
    assert topology.drop("transfers") == ["db.credits", "db.debits"]
    assert topology.jobs() == []


def test_tables_of_other_intervals_do_not_keep_a_writer(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.a")
    catalog_of(tmp_path, "db.b", **{"widetable__barrier-interval": "20 ms"})
    catalog.writer("db.a", "one").complete(30)
    catalog.writer("db.b", "one").complete(20)
    assert catalog.topology().drop("one") == ["db.a", "db.b"]
