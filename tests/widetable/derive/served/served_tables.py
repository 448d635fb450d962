"""A table of users, a table of their tiles, and the requests that tests make of sessions of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt
from tests.widetable.operations.windows.tile_tables import NOON

LOG = "db.served"
WINDOWS = {
    "clicks_1h": wt.window("clicks", "count", "1 h"),
    "clicks_3h": wt.window("clicks", "sum", "3 h"),
    "top_2h": wt.window("top", "max", "2 h"),
}
HALF_PAST = NOON.replace(minute=30)

OWN: dict[str, Any] = {
    "_session": "STRING",
    "_request": "BIGINT",
    "_row": "INT",
    "_at": "TIMESTAMP(6)",
    "_table": "STRING",
    "_branch": "STRING",
    "_snapshot": "BIGINT",
    "_snapshot_mark": "STRING",
    "_schema": "BIGINT",
    "_asked": "STRING",
}
KEY = ["_session", "_request", "_row"]


def users(folder: Path, **options: str) -> wt.Table:
    columns = {"user": "BIGINT", "clicks": "BIGINT", "score": "DOUBLE", "city": "STRING"}
    given = {"bucket": "2", "widetable.fsync": "false"} | options
    return wt.Catalog(str(folder)).create_table(
        "db.users", columns, primary_key=["user"], options=given
    )


def tiles(folder: Path, name: str = "db.tiles", size: str = "1 h") -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        name,
        {"user": "BIGINT", "tile": "TIMESTAMP", "clicks": "BIGINT", "top": "DOUBLE"},
        primary_key=["user", "tile"],
        options={
            "merge-engine": "aggregation",
            "fields.clicks.aggregate-function": "sum",
            "fields.top.aggregate-function": "max",
            "bucket": "2",
            "bucket-key": "user",
            "widetable.fsync": "false",
            "widetable.tile-size": size,
        },
    )


def put(table: wt.Table, of_users: dict[int, Any], **more: list[Any]) -> None:
    """Write clicks by user, and further columns."""
    keys = pa.array(list(of_users), pa.int64())
    table.write({"user": keys, "clicks": pa.array(list(of_users.values()), pa.int64()), **more})


def put_tile(table: wt.Table, user: int, hour: int, clicks: int, top: float) -> None:
    tile = NOON.replace(hour=hour)
    table.write([{"user": user, "tile": tile, "clicks": clicks, "top": top}])


def log_of(table: wt.Table, name: str = LOG) -> wt.Table:
    return wt.Catalog(str(Path(table.path).parent.parent)).table(name)


def logged(table: wt.Table, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the log, in the order of requests."""
    rows = (
        log_of(table).scan().to_arrow().sort_by([("_request", "ascending"), ("_row", "ascending")])
    )
    return [tuple(row.values()) for row in rows.select(list(columns)).to_pylist()]


def forget(table: wt.Table) -> None:
    """Let all snapshots expire but the newest and those that somebody keeps."""
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)


def own_log(folder: Path, change: dict[str, Any], key: list[str], **options: str) -> wt.Table:
    columns = {name: kind for name, kind in (OWN | change).items() if kind}
    return wt.Catalog(str(folder)).create_table(LOG, columns, primary_key=key, options=options)
