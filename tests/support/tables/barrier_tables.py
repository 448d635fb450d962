"""Tables under barriers for tests: an interval of 10, one column for each writer, and commits of a client that knows
nothing of barriers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt
from tests.support.models.barrier_labels import INTERVAL
from widetable.operations.barriers.barrier_writer import BarrierWriter

NAME = "shop.items"
UNDER_BARRIERS = {"widetable.barrier-interval": f"{INTERVAL} ms"}


def new_table(warehouse: Path, **options: str) -> wt.Table:
    """Columns id, a, b, c; rows are merged column by column."""
    return named_table(warehouse, NAME, **options)


def named_table(warehouse: Path, name: str, **options: str) -> wt.Table:
    """Another one of the same."""
    return _created(warehouse, name, UNDER_BARRIERS, options)


def plain_table(warehouse: Path, **options: str) -> wt.Table:
    """The same under no barriers."""
    return _created(warehouse, NAME, {}, options)


def _created(
    warehouse: Path, name: str, barriers: Mapping[str, str], options: Mapping[str, str]
) -> wt.Table:
    return wt.Catalog(warehouse).create_table(
        name,
        {"id": pa.int64(), "a": pa.int64(), "b": pa.int64(), "c": pa.int64()},
        primary_key=["id"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "widetable.fsync": "false",
            **barriers,
            **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
        },
    )


def writers(warehouse: Path) -> tuple[wt.BarrierWriter, wt.BarrierWriter]:
    """Of the columns a and b of that table."""
    catalog = wt.Catalog(warehouse)
    return catalog.writer(NAME, "wa", ["a"]), catalog.writer(NAME, "wb", ["b"])


def rows_of(scan: wt.TableScan) -> list[tuple[Any, ...]]:
    """(id, a, b, c), by id."""
    return sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())


def newest_snapshot(table: wt.Table) -> Path:
    """Its file."""
    newest = max(snapshot["id"] for snapshot in _ids(table))
    return Path(table.path) / "snapshot" / f"snapshot-{newest}"


def properties(table: wt.Table) -> dict[str, str]:
    """Of the newest snapshot."""
    found: dict[str, str] = json.loads(newest_snapshot(table).read_bytes())["properties"]
    return found


def write_as_another_client(table: wt.Table, rows: Mapping[str, list[Any]]) -> None:
    """As another client does, to a table that is under no barriers."""
    table.write(dict(rows))
    forget_barriers(table)


def commit_without_barriers(table: wt.Table, rows: Mapping[str, list[Any]]) -> None:
    """As another client does: what the snapshots of two commits say of barriers, and of commits, is taken out."""
    writer = BarrierWriter(table, "a stranger", None)
    forget_barriers(table)
    writer.write(dict(rows))
    forget_barriers(table)


def compact_without_barriers(table: wt.Table) -> None:
    """As another client does: a compaction of all that is there, whatever it belongs to."""
    schema = max(
        (Path(table.path) / "schema").glob("schema-*"), key=lambda file: int(file.name[7:])
    )
    kept = schema.read_text()
    body = json.loads(kept)
    del body["options"]["widetable.barrier-interval"]
    schema.write_text(json.dumps(body))
    try:
        result = wt.Table.open(table.path).compact(full=True)
    finally:
        schema.write_text(kept)
    if result.committed:
        forget_barriers(table)


def _ids(table: wt.Table) -> list[dict[str, int]]:
    files = (Path(table.path) / "snapshot").glob("snapshot-*")
    return [{"id": int(file.name.rpartition("-")[2])} for file in files]


def forget_barriers(table: wt.Table) -> None:
    """Make the newest snapshot one of another client: it says nothing of barriers or of its commit."""
    file = newest_snapshot(table)
    body = json.loads(file.read_bytes())
    body["properties"] = {}
    file.write_text(json.dumps(body))
