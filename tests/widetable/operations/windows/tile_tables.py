"""Tile tables of users, with tiles of one hour, and the questions that tests ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt

NOON = datetime(2026, 1, 2, 12)
HOUR = timedelta(hours=1)
CLICKS = {
    f"{function}_{hours}h": wt.window("clicks", function, f"{hours} h")
    for hours in (1, 2, 3)
    for function in ("sum", "count")
}


def create(folder: Path, values: dict[str, tuple[str, str]], **options: str) -> wt.Table:
    """A tile table of users. values: type and function of each column."""
    columns = {"user": "BIGINT", "tile": "TIMESTAMP", **{name: v[0] for name, v in values.items()}}
    always = {
        "merge-engine": "aggregation",
        "widetable.fsync": "false",
        "bucket": "2",
        "bucket-key": "user",
        **{f"fields.{name}.aggregate-function": v[1] for name, v in values.items()},
    }
    catalog = wt.Catalog(str(folder))
    keys = ["user", "tile"]
    given = {key: value for key, value in (always | options).items() if value}
    return catalog.create_table("db.t", columns, primary_key=keys, options=given)


def clicks(folder: Path, **options: str) -> wt.Table:
    return create(folder, {"clicks": ("BIGINT", "sum")}, **options)


def write(table: wt.Table, column: str, of_hours: dict[int, Any], user: int = 1) -> None:
    """Write tiles of one hour, by their hours after 2026-01-02 00:00."""
    day = NOON - 12 * HOUR
    kind = table.arrow_schema.field(column).type
    rows = {
        "user": [user] * len(of_hours),
        "tile": [day + hour * HOUR for hour in of_hours],
        column: pa.array(list(of_hours.values()), kind),
    }
    table.write(rows)


def entities(users: Sequence[int | None], times: Sequence[datetime]) -> pa.Table:
    return pa.table(
        {"user": pa.array(users, pa.int64()), "at": pa.array(times, pa.timestamp("us"))}
    )


def one(table: wt.Table, time: datetime, window: wt.TimeWindow, **more: Any) -> Any:
    given = entities([1], [time])
    return table.windows(given, "at", features={"f": window}, **more)["f"].to_pylist()[0]
