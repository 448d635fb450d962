"""Targets under barriers of the clock: a wide table of two groups, the configuration of a job, what readers see."""

from __future__ import annotations

from typing import Any, Final

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import SyncConfig
from widetable_cdc.applying.target import BarrierTarget

INTERVAL: Final = {"widetable.barrier-interval": "200 ms", "widetable.fsync": "false"}
WIDE: Final = {
    "id": "INT",
    "name": "STRING",
    "crm_lsn": "BIGINT",
    "clicks": "BIGINT",
    "click_seq": "BIGINT",
}
GROUPS: Final = {
    "merge-engine": "partial-update",
    "fields.crm_lsn.sequence-group": "name",
    "fields.click_seq.sequence-group": "clicks",
}


def clock_target(shop: SyncedDatabase) -> dict[str, Any]:
    return {
        "warehouse": str(shop.warehouse),
        "database": "shop",
        "barriers": "clock",
        "options": INTERVAL,
    }


def by_clock(shop: SyncedDatabase, **entries: Any) -> SyncConfig:
    return shop.config(**({"target": clock_target(shop)} | entries))


def ids_at(shop: SyncedDatabase, tables: list[str], barrier: int | None) -> list[list[int]]:
    catalog = wt.Catalog(str(shop.warehouse))
    with catalog.session([f"shop.{name}" for name in tables], as_of=barrier) as session:
        found = [session.table(f"shop.{name}").scan(columns=["id"]).to_arrow() for name in tables]
    return [sorted(rows["id"].to_pylist()) for rows in found]


def barriers_of(table: wt.Table) -> set[int]:
    labels = {s.properties.get("widetable.barrier") for s in table.snapshots()}
    return {int(label) for label in labels if label is not None}


def end_behind_the_first_commit(patch: pytest.MonkeyPatch) -> None:
    apply = BarrierTarget.apply
    commits: list[Any] = []

    def stopping(target: BarrierTarget, round: Any) -> Any:
        if commits:
            raise KeyboardInterrupt
        commits.append(apply(target, round))
        return commits[-1]

    patch.setattr(BarrierTarget, "apply", stopping)
