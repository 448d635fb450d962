"""A data file that is not there: damage while the snapshot that names it is kept, expiry when it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

OPTIONS = {"bucket": "2", "widetable.fsync": "false", "write-only": "true"}
SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.string())])


def rows(*keys: int) -> pa.Table:
    values = {"p": ["a b"] * len(keys), "k": list(keys), "v": [f"v{k}" for k in keys]}
    return pa.table(values, schema=SCHEMA)


def created(root: Path, **options: str) -> wt.Table:
    catalog = wt.Catalog(str(root))
    return catalog.create_table(
        "d.t", SCHEMA, primary_key=["p", "k"], partition_by=["p"], options={**OPTIONS, **options}
    )


def lose(table: wt.Table, pattern: str = "data-*") -> Path:
    path = sorted(Path(table.path).rglob(f"bucket-*/{pattern}"))[0]
    path.unlink()
    return path


READS: dict[str, Callable[[wt.Table], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "batches": lambda table: list(table.scan().to_batches()),
    "lookup": lambda table: table.lookup(rows(*range(10)).select(["p", "k"])),
    "changes": lambda table: table.changes(0, 1),
    "compact": lambda table: table.compact(full=True),
}


@pytest.mark.parametrize("how", READS)
def test_a_missing_live_file_is_damage_that_names_file_bucket_and_partition(
    tmp_path: Path, how: str
) -> None:
    table = created(tmp_path)
    table.write(rows(*range(10)))
    table.write(rows(*range(10)))
    path = lose(table)
    others = [p for p in Path(table.path).rglob("data-*") if p.parent == path.parent]
    for other in others:
        other.unlink()
    with pytest.raises(wt.DamagedError) as raised:
        READS[how](table)
    assert path.parent.name in raised.value.subject
    assert f"bucket {path.parent.name[-1]} of p=a b" in raised.value.expected
    assert "epair" in raised.value.action
    assert "expired" not in str(raised.value)


def test_a_missing_changelog_file_is_damage(tmp_path: Path) -> None:
    table = created(tmp_path, **{"changelog-producer": "input"})
    table.write(rows(1, 2, 3))
    path = lose(table, "changelog-*")
    with pytest.raises(wt.DamagedError, match="snapshot 1") as raised:
        table.changes(0, 1)
    assert raised.value.subject == str(path)


def test_a_file_of_a_snapshot_that_expired_is_not_damage(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write(rows(*range(10)))
    scan = table.scan()
    assert scan.splits()
    table.overwrite(rows(1))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    with pytest.raises(wt.NotFoundError, match="expired"):
        scan.to_arrow()


def test_a_file_that_only_a_tag_keeps_is_damage_when_it_is_missing(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write(rows(*range(10)))
    table.create_tag("kept")
    table.overwrite(rows(1))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert table.scan(tag="kept").to_arrow().num_rows == 10
    live = {f.file_name for s in table.scan().splits() for f in s.files}
    for path in Path(table.path).rglob("data-*"):
        if path.name not in live:
            path.unlink()
    with pytest.raises(wt.DamagedError, match="snapshot 1"):
        table.scan(tag="kept").to_arrow()


def test_an_audit_names_a_missing_file_and_goes_on(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.write(rows(*range(10)))
    path = lose(table)
    report = table.audit()
    assert [finding.file for finding in report.findings] == [path.name]
    assert report.checks["file-order"] > 0


def test_a_table_that_was_made_again_is_not_damaged(tmp_path: Path) -> None:
    """Its snapshot 1 is another one than that whose files are not there any more."""
    table = created(tmp_path)
    table.write(rows(*range(10)))
    scan = table.scan()
    assert scan.splits()
    wt.Catalog(str(tmp_path)).drop_table("d.t")
    created(tmp_path).write(rows(1))
    with pytest.raises(wt.InvalidError, match="dropped and made again"):
        scan.to_arrow()
