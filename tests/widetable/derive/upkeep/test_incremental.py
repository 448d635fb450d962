"""Changes between snapshots, tags and times, in all modes; `diff` against the rows of both ends as dicts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from widetable.format.snapshot import Tag

LAYOUTS: list[dict[str, str]] = [
    {},
    {"changelog-producer": "lookup"},
    {"deletion-vectors.enabled": "true"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
]
MODES = ("auto", "changelog", "delta", "diff")
Key = tuple[int, int]


def create(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"p": "INT", "k": "BIGINT", "v": "BIGINT", "w": "STRING"},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": "2", "widetable.fsync": "false", **options},
    )


def write(table: wt.Table, rng: random.Random) -> None:
    rows = range(rng.randint(1, 8))
    table.write(
        {
            "p": [rng.randint(0, 1) for _ in rows],
            "k": [rng.randint(0, 15) for _ in rows],
            "v": [rng.choice([None, 1, 2]) for _ in rows],
            "w": [None for _ in rows],
            "_row_kind": [rng.choice(["+I", "+I", "-D"]) for _ in rows],
        }
    )


def state(table: wt.Table, end: int | str) -> dict[Key, int | None]:
    if end == 0:
        return {}
    how: Mapping[str, Any] = {"tag": end} if isinstance(end, str) else {"snapshot_id": end}
    return {(row["p"], row["k"]): row["v"] for row in table.scan(**how).to_arrow().to_pylist()}


def difference(old: Mapping[Key, Any], new: Mapping[Key, Any]) -> list[str]:
    found = [("+I", key, new[key]) for key in new.keys() - old.keys()]
    found += [("-D", key, old[key]) for key in old.keys() - new.keys()]
    for key in old.keys() & new.keys():
        if old[key] != new[key]:
            found += [("-U", key, old[key]), ("+U", key, new[key])]
    return sorted(map(str, found))


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_diff_is_what_both_ends_differ_in(tmp_path: Path, rng: random.Random, options: Any) -> None:
    table = create(tmp_path, **options)
    for number in range(12):
        write(table, rng)
        if number == 5:
            table.create_tag("x")
        if number == 8:
            table.compact(full=True)
    last = table.snapshots()[-1].id
    table.expire_snapshots(num_retained_min=1, num_retained_max=4, time_retained_millis=0)
    first = table.snapshots()[0].id
    ends: list[tuple[int | str, int | str]] = [
        (0, last),
        ("x", last),
        (first, "x"),
        (last, first),
        (last, 0),
        ("x", "x"),
    ]
    for start, end in ends:
        found = table.changes(start, end, mode="diff").to_pylist()
        texts = sorted(str((row["_row_kind"], (row["p"], row["k"]), row["v"])) for row in found)
        assert texts == difference(state(table, start), state(table, end)), (start, end)


def test_columns_are_those_that_are_asked_for(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"p": [1], "k": [1], "v": [5]})
    assert table.changes(0, 1, ["v"], mode="diff").to_pylist() == [{"v": 5, "_row_kind": "+I"}]


def test_ends_are_snapshots_tags_and_times(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"p": [1], "k": [1], "v": [5]})
    table.create_tag("one")
    table.write({"p": [1], "k": [2], "v": [6]})
    after = datetime.now() + timedelta(hours=1)
    assert table.changes("one", 2)["k"].to_pylist() == [2]
    assert table.changes(0, "one")["k"].to_pylist() == [1]
    assert table.changes("one", after)["k"].to_pylist() == [2]
    with pytest.raises(wt.NotFoundError, match="no such tag"):
        table.changes("two", 2)
    with pytest.raises(wt.NotFoundError):
        table.changes(datetime(1999, 1, 1), 2)


def test_modes_choose_the_changelog_or_the_records(tmp_path: Path) -> None:
    table = create(tmp_path, **{"changelog-producer": "lookup"})
    for value in (1, 2):
        table.write({"p": [1], "k": [1], "v": [value]})
    last = table.snapshots()[-1].id
    kinds = {mode: table.changes(0, last, mode=mode)["_row_kind"].to_pylist() for mode in MODES}
    assert kinds == {
        "auto": ["+I", "-U", "+U"],
        "changelog": ["+I", "-U", "+U"],
        "delta": ["+I", "+I"],
        "diff": ["+I"],
    }


def test_what_a_mode_cannot_give_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write({"p": [1], "k": [1], "v": [5]})
    with pytest.raises(wt.InvalidError, match="changelog producer"):
        table.changes(0, 1, mode="changelog")
    with pytest.raises(wt.InvalidError, match="mode"):
        table.changes(0, 1, mode="all")
    with pytest.raises(wt.InvalidError, match="commit_columns"):
        table.changes(0, 1, mode="diff", commit_columns=True)


def test_a_tag_whose_name_is_a_number(tmp_path: Path, rng: random.Random) -> None:
    """As automatic tags may have them; other texts of digits are no snapshots' ids."""
    table = create(tmp_path)
    write(table, rng)
    snapshot = table.snapshots()[-1]
    table._tags.keep("20260131", Tag(snapshot=snapshot))
    write(table, rng)
    last = table.snapshots()[-1].id
    by_tag = table.changes("20260131", last).to_pylist()
    assert by_tag == table.changes(snapshot.id, last).to_pylist() != []
    with pytest.raises(wt.InvalidError, match=r"no tag.*id as an int"):
        table.changes("7", last)


@pytest.mark.parametrize("mode", ["auto", "delta", "changelog"])
def test_only_a_difference_may_run_backwards(tmp_path: Path, mode: str) -> None:
    table = create(tmp_path, **{"changelog-producer": "input"})
    for key in (1, 2):
        table.write({"p": [1], "k": [key], "v": [key]})
    with pytest.raises(wt.InvalidError, match="end"):
        table.changes(2, 1, mode=mode)
    assert table.changes(2, 1, mode="diff")["_row_kind"].to_pylist() == ["-D"]


@pytest.mark.parametrize("mode", ["auto", "delta", "diff"])
def test_an_end_that_is_not_there_is_refused_before_rows_are_asked_for(
    tmp_path: Path, mode: str
) -> None:
    table = create(tmp_path)
    table.write({"p": [1], "k": [1], "v": [5]})
    for ask in (table.scan_changes, table.change_batches):
        for ends in ((0, 9), (8, 9), (0, "none")):
            with pytest.raises(wt.NotFoundError):
                ask(*ends, mode=mode)
    assert table.scan_changes(0, 1, mode=mode).count() == 1
