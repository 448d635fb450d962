"""What `Table.windows` refuses: rows, tables, columns and arguments that do not fit, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.operations.windows.tile_tables import (
    CLICKS,
    HOUR,
    NOON,
    clicks,
    create,
    entities,
    one,
    write,
)


def test_coarse_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    fine = clicks(tmp_path / "fine", **{"widetable.tile-size": "1 h"})
    day = clicks(tmp_path / "day", **{"widetable.tile-size": "1 d"})
    odd = clicks(tmp_path / "odd")
    ints = create(tmp_path / "ints", {"clicks": ("INT", "sum")}, **{"widetable.tile-size": "1 d"})
    wrong: list[tuple[Any, str]] = [
        ([odd], r"coarse\[0\]: found a table that does not say how long its tiles are"),
        ({"90 min": odd}, "coarse: found tiles of 3600000, 5400000 ms"),
        ({"30 min": odd}, "coarse: found tiles of 3600000, 1800000 ms"),
        ([fine], "coarse: found tiles of 3600000, 3600000 ms"),
        ([ints], r"coarse\[0\]: found a table with .*clicks int32"),
        (day, "coarse: found "),
        ([7], "coarse: found"),
    ]
    window = wt.window("clicks", "sum", "2 h")
    for coarse, text in wrong:
        with pytest.raises(wt.InvalidError, match=text):
            one(fine, NOON, window, coarse=coarse)
    with pytest.raises(wt.InvalidError, match="snapshot_id: "):
        one(fine, NOON, window, coarse=[day], snapshot_id=1)
    doubles = [
        create(tmp_path / size, {"v": ("DOUBLE", "sum")}, **{"widetable.tile-size": size})
        for size in ("1 h", "1 d")
    ]
    with pytest.raises(wt.UnsupportedError, match="a sum of double values over tiles of several"):
        one(doubles[0], NOON, wt.window("v", "sum", "2 h"), coarse=doubles[1:])


def test_a_null_time_is_refused_with_its_row(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    given = pa.table({"user": [1, 2], "at": pa.array([NOON, None], pa.timestamp("us"))})
    with pytest.raises(wt.InvalidError, match=r"column 'at' of the entities: found null in row 1;"):
        table.windows(given, "at", features=CLICKS)


def test_a_column_with_the_name_of_a_feature_is_refused(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    given = entities([1], [NOON]).append_column("sum_1h", pa.array([3]))
    with pytest.raises(wt.InvalidError, match=r"Give a `prefix`"):
        table.windows(given, "at", features=CLICKS)


@pytest.mark.parametrize("bucket_key", ["user", "user,tile"])
def test_a_tile_between_two_starts_is_refused(tmp_path: Path, bucket_key: str) -> None:
    table = clicks(tmp_path, **{"bucket-key": bucket_key})
    write(table, "clicks", {11: 1})
    table.write({"user": [1], "tile": [NOON - HOUR / 2], "clicks": [1]})
    text = (
        r"column 'tile': found the row user=1, tile=2026-01-02 11:30:00; .* multiples of 3600000 ms"
    )
    with pytest.raises(wt.InvalidError, match=text):
        one(table, NOON, wt.window("clicks", "sum", "1 h"))
    assert one(table, NOON, wt.window("clicks", "sum", "1 h"), tile_size="30 min") == 2


def test_a_length_that_is_no_multiple_of_the_tile_is_refused(tmp_path: Path) -> None:
    table = clicks(tmp_path, **{"widetable.tile-size": "1 h"})
    with pytest.raises(wt.InvalidError, match=r"feature 'f': found a window of 5400000 ms"):
        one(table, NOON, wt.window("clicks", "sum", "90 min"))
    with pytest.raises(wt.InvalidError, match=r"tile_size: .*widetable.tile-size"):
        one(table, NOON, wt.window("clicks", "sum", "90 min"), tile_size="30 min")


def test_the_function_must_be_that_of_the_column(tmp_path: Path) -> None:
    values = {"clicks": ("BIGINT", "sum"), "top": ("BIGINT", "max"), "d": ("DOUBLE", "sum")}
    table = create(tmp_path, values)
    wrong = {
        ("top", "sum"): r"found column 'top', whose aggregate function is max; expected .* sum",
        ("clicks", "max"): r"found column 'clicks', .* is sum; expected .* function max",
        ("user", "max"): r"column 'user', whose aggregate function is none",
        ("d", "count"): r"column 'd' of the type double; expected a column of integers",
    }
    for (column, function), text in wrong.items():
        with pytest.raises(wt.InvalidError, match=f"feature 'f': .*{text}"):
            one(table, NOON, wt.window(column, function, "1 h"))
    with pytest.raises(wt.NotFoundError, match="'nothing'"):
        one(table, NOON, wt.window("nothing", "sum", "1 h"))


def test_tables_that_hold_no_tiles_are_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    columns = {"user": "BIGINT", "tile": "TIMESTAMP", "day": "DATE", "clicks": "BIGINT"}
    sums = {"merge-engine": "aggregation", "fields.clicks.aggregate-function": "sum"}
    cases = [
        (["user", "tile"], {}, "merge-engine = deduplicate"),
        (["tile", "user"], sums, r"the primary key \(tile, user\)"),
        (["tile"], sums, r"the primary key \(tile\)"),
        (["user"], sums, r"the primary key \(user\)"),
    ]
    for number, (key, options, text) in enumerate(cases):
        name = f"db.t{number}"
        table = catalog.create_table(name, columns, primary_key=key, options=options)
        with pytest.raises(wt.UnsupportedError, match=text):
            one(table, NOON, wt.window("clicks", "sum", "1 h"))
    days = catalog.create_table("db.days", columns, primary_key=["user", "day"], options=sums)
    with pytest.raises(wt.UnsupportedError, match=r"column 'day': found the type date32"):
        one(days, NOON, wt.window("clicks", "sum", "1 d"), tile="day")


def test_entities_of_another_form_are_refused(tmp_path: Path) -> None:
    table = clicks(tmp_path)
    good = entities([1], [NOON])
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (good.drop_columns("user"), {}, "column 'user' of the entities: found no such column"),
        (good.rename_columns(["user", "user"]), {}, "found 2 columns of this name"),
        (good.drop_columns("at"), {}, "column 'at' of the entities: found no such column"),
        (pa.table({"user": [1], "at": ["today"]}), {}, "found the type string"),
        (pa.table({"user": ["x"], "at": [NOON]}), {}, "column 'user'"),
        (good, {"on": {"user": "tile"}}, "on: found column 'user' for 'tile'"),
        (good, {"features": {}}, "features: "),
        (good, {"features": {"f": "sum"}}, "feature 'f': "),
    ]
    for given, more, text in wrong:
        with pytest.raises(wt.InvalidError, match=text):
            table.windows(given, "at", **{"features": CLICKS, **more})
    for rows in (7, [1, 2]):
        with pytest.raises(wt.UnsupportedError, match="data"):
            table.windows(rows, "at", features=CLICKS)
    with pytest.raises(wt.InvalidError, match="entities: found no rows"):
        table.windows([], "at", features=CLICKS)
