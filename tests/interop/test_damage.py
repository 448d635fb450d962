"""What a repair and a rollback leave, pypaimon reads: the same rows at every snapshot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.test_pypaimon import ours
from tests.widetable.operations.health.damaged_table import (
    create,
    damage_group,
    live,
    path_of,
    rows,
)

pytestmark = pytest.mark.interop
Reader = Callable[..., list[str]]


def test_after_a_rollback_and_the_expiry_of_what_it_undid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pypaimon_rows: Reader
) -> None:
    table = create(tmp_path, monkeypatch)
    table.write(rows("a"))
    table.compact(full=True)
    table.write(rows("b", range(30)))
    table.compact(full=True)
    then = ours(table, snapshot_id=2)
    table.rollback(2)
    for id in range(1, 6):
        assert pypaimon_rows(table, snapshot=id) == ours(table, snapshot_id=id)
    assert pypaimon_rows(table) == then
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert pypaimon_rows(table) == then


@pytest.mark.parametrize("full", [False, True])
def test_after_a_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pypaimon_rows: Reader, full: bool
) -> None:
    table = create(tmp_path, monkeypatch)
    table.write(rows("a"))
    table.write(rows("b", range(60)))
    if full:
        table.compact(full=True)
    damage_group(path_of(table, live(table)[-1]), 1)
    assert table.repair().files
    assert pypaimon_rows(table) == ours(table)
