"""After our expiry and cleaning, pypaimon reads what is kept: the newest rows, older snapshots, tags; and writes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.kept_rows import (
    KeptRows,
    batch,
    expire_all,
    leftovers,
    lived_in_table,
    rows,
)

pytestmark = pytest.mark.interop
Reader = Callable[..., list[str]]


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_kept_snapshots_and_tags_are_read(
    tmp_path: Path, pypaimon_rows: Reader, producer: str
) -> None:
    table = lived_in_table(tmp_path, {"changelog-producer": producer})
    kept = KeptRows.of(table)
    table.expire_snapshots(num_retained_min=3, time_retained_millis=0)
    table.remove_orphan_files(older_than_millis=0)
    assert pypaimon_rows(table) == rows(table)
    ids = [snapshot.id for snapshot in table.snapshots()]
    assert len(ids) == 3
    for id in ids:
        assert pypaimon_rows(table, snapshot=id) == kept.snapshots[id]
    for name, expected in kept.tags.items():
        assert pypaimon_rows(table, tag=name) == expected


def test_both_write_and_we_expire(
    tmp_path: Path, pypaimon_rows: Reader, pypaimon_write: Callable[[wt.Table, pa.Table], None]
) -> None:
    """It knows no EARLIEST hint, and names its files in its own way."""
    table = lived_in_table(tmp_path)
    for number in range(8, 11):
        pypaimon_write(table, batch(number).cast(table.arrow_schema))
        table.write(batch(number + 10))
        expire_all(table)
        assert pypaimon_rows(table) == rows(table)
        assert leftovers(table) == set()
    assert len(table.snapshots()) == 1
