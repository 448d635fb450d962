"""Looks of a topology while tables are dropped, snapshots expire, and jobs are put in others' places."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import widetable as wt
from tests.widetable.topology.test_topology import HandClock, catalog_of
from widetable.errors import NotFoundError
from widetable.topology.topology import Topology


class DropsAfterListing(wt.Catalog):
    """Somebody drops a table of it between a list of its tables and the look at them."""

    def list_tables(self, database: str | None = None) -> list[str]:
        found = super().list_tables(database)
        super().drop_table("db.gone", if_exists=True)
        return found


class ReplacesBeforeListing(wt.Catalog):
    """Somebody puts job "two" in the place of "one" before the last of so many lists of its tables."""

    left = 0

    def list_tables(self, database: str | None = None) -> list[str]:
        self.left -= 1
        if self.left == 0:
            topology = wt.Catalog(self.warehouse).topology()
            topology.drop("one", force=True)
            topology.register("two", sinks={"db.a": None})
        return super().list_tables(database)


@pytest.mark.parametrize("lists", [1, 2, 3])
def test_a_renewal_brings_no_job_back_into_another_ones_way(tmp_path: Path, lists: int) -> None:
    catalog_of(tmp_path)
    catalog = ReplacesBeforeListing(tmp_path)
    topology = Topology(catalog, for_others=True)
    topology.register("one", sinks={"db.a": None})
    topology.running("one")
    catalog.left = lists
    with contextlib.suppress(NotFoundError):
        topology.renew("one")
    assert len(topology.jobs()) == 1


@pytest.mark.parametrize(
    "look",
    ["jobs", "tables", "delays", "common_barrier", "revisions", "keep", "layers", "rebuild"],
)
def test_a_table_that_is_dropped_meanwhile_is_not_there(tmp_path: Path, look: str) -> None:
    clock = HandClock()
    catalog = catalog_of(tmp_path, "db.kept")
    catalog.writer("db.kept", "w").complete(10)
    expected = getattr(Topology(catalog, clock), look)()
    catalog_of(tmp_path, "db.gone")
    found = getattr(Topology(DropsAfterListing(tmp_path), clock), look)()
    assert "db.gone" not in catalog.list_tables()
    assert repr(found) == repr(expected)


class MissesOnce(wt.Catalog):
    """A snapshot of its table expires between a list of its files and the look at it."""

    is_missed = False

    def table(self, name: str) -> wt.Table:
        if not self.is_missed:
            self.is_missed = True
            raise NotFoundError("snapshot 1", found="nothing", expected="it", action="Look again.")
        return super().table(name)


@pytest.mark.parametrize(
    ("look", "arguments"),
    [
        ("jobs", ()),
        ("tables", ()),
        ("layers", ()),
        ("upstream", ("db.t",)),
        ("downstream", ("db.t",)),
        ("connected", (["db.t"],)),
        ("barriers", ("db.t",)),
        ("delays", ()),
        ("common_barrier", ()),
        ("keep", ()),
        ("rebuild", ()),
    ],
)
def test_a_snapshot_that_expires_meanwhile_is_looked_for_again(
    tmp_path: Path, look: str, arguments: tuple[object, ...]
) -> None:
    catalog_of(tmp_path, "db.t").writer("db.t", "w").complete(10)
    clock = HandClock()
    expected = getattr(Topology(wt.Catalog(tmp_path), clock), look)(*arguments)
    assert getattr(Topology(MissesOnce(tmp_path), clock), look)(*arguments) == expected
