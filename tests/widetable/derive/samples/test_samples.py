"""Samples: each key once, when it is complete or due, whatever happens to who gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.samples.sample_model import (
    OPTIONS,
    Commit,
    made,
    moment,
    watermark,
)
from widetable.derive.samples.sample_rule import SampleRule
from widetable.derive.samples.sample_tables import tables_of

CASE_10: dict[str, Any] = {
    "complete": ["exposed_at"],
    "eager": ["clicked_at"],
    "wait": "30 min",
    "on": "exposed_at",
    "defaults": {"label": 0},
}


def given(table: wt.Table, consumer: str = "c", **rule: Any) -> list[dict[str, Any]]:
    """Follow to the end: the rows of all batches."""
    with table.follow_samples(consumer, timeout=0, **rule) as follower:
        return [row for batch in follower for row in batch.to_pylist()]


def table_of(table: wt.Table, name: str = "t_samples") -> wt.Table:
    return wt.Table.open(str(Path(table.path).with_name(name)))


def told(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted((row["_row_kind"], *(row[name] for name in names)) for row in rows)


@pytest.mark.parametrize("late", ["drop", "correct"])
def test_case_10(tmp_path: Path, late: str) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "late": late}
    assert given(table, **rule) == []
    Commit("e", 1, [{"id": 1, "exposed_at": 0}, {"id": 2, "exposed_at": 0}], reached=0).make(table)
    assert given(table, **rule) == []
    Commit("c", 1, [{"id": 1, "clicked_at": 5, "label": 1}], reached=5).make(table)
    assert told(given(table, **rule), "id", "label", "_correction") == [("+I", 1, 1, False)]
    Commit("e", 2, reached=30).make(table)
    assert given(table, **rule) == []  # the clicks may still come
    Commit("c", 2, reached=29).make(table)
    assert given(table, **rule) == []
    Commit("c", 3, reached=30).make(table)
    assert told(given(table, **rule), "id", "label", "_correction") == [("+I", 2, 0, False)]
    Commit("c", 4, [{"id": 2, "clicked_at": 20, "label": 1}], reached=40).make(table)
    expected = [] if late == "drop" else [("+U", 2, 1, True)]
    assert told(given(table, **rule), "id", "label", "_correction") == expected
    assert given(table, **rule) == []


def test_the_moment_of_a_round_changes_no_sample(tmp_path: Path) -> None:
    """Whoever was away while a click came late gets the sample as it was when it was due."""
    table = made(tmp_path)
    assert given(table, **CASE_10) == []
    Commit("e", 1, [{"id": 2, "exposed_at": 0}], reached=30).make(table)
    Commit("c", 1, reached=30).make(table)
    Commit("c", 2, [{"id": 2, "clicked_at": 20, "label": 1}], reached=40).make(table)
    table.compact(full=True)
    assert told(given(table, **CASE_10), "id", "label") == [("+I", 2, 0)]


def test_without_a_wait_a_row_is_given_as_soon_as_it_is_complete(tmp_path: Path) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {"complete": ["exposed_at", "clicked_at"], "columns": ["label"]}
    assert given(table, **rule) == []
    Commit("e", 1, [{"id": 1, "exposed_at": 0}, {"id": 2, "exposed_at": 0}]).make(table)
    assert given(table, **rule) == []
    Commit("c", 1, [{"id": 2, "clicked_at": 1}]).make(table)
    (row,) = given(table, **rule)
    assert row == {
        "id": 2,
        "label": None,
        "_snapshot": 2,
        "_correction": False,
        "_row_kind": "+I",
    }


def test_without_eager_columns_all_wait_for_their_time(tmp_path: Path) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "eager": []}
    Commit("e", 1, [{"id": 1, "exposed_at": 0, "clicked_at": 1}], reached=29).make(table)
    assert given(table, **rule) == []
    Commit("e", 2, reached=30).make(table)
    assert told(given(table, **rule), "id") == [("+I", 1)]


def test_what_is_complete_only_after_its_time_is_given_then(tmp_path: Path) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "complete": ["exposed_at", "price"]}
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=50).make(table)
    assert given(table, **rule) == []
    Commit("e", 2, [{"id": 1, "price": 2.0}], reached=60).make(table)
    assert told(given(table, **rule), "id", "price") == [("+I", 1, 2.0)]


def test_a_column_of_complete_with_a_default_may_be_missing_once_the_row_is_due(
    tmp_path: Path,
) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {
        **CASE_10,
        "complete": ["exposed_at", "price"],
        "defaults": {"price": 0.5},
    }
    Commit("e", 1, [{"id": 1, "exposed_at": 0, "clicked_at": 0}], reached=29).make(table)
    assert given(table, **rule) == []  # neither complete nor due
    Commit("e", 2, reached=30).make(table)
    assert told(given(table, **rule), "id", "price") == [("+I", 1, 0.5)]


def test_a_row_whose_time_moves_waits_for_the_new_time(tmp_path: Path) -> None:
    table = made(tmp_path)
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=10).make(table)
    assert given(table, **CASE_10) == []
    Commit("e", 2, [{"id": 1, "exposed_at": 20}], reached=20).make(table)
    Commit("e", 3, reached=49).make(table)
    assert given(table, **CASE_10) == []
    Commit("e", 4, reached=50).make(table)
    assert told(given(table, **CASE_10), "id") == [("+I", 1)]


def test_a_row_whose_old_and_new_time_come_at_once_is_given_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert given(table, **CASE_10) == []
    for number, at in enumerate((0, 1, 2)):
        Commit("e", number, [{"id": 1, "exposed_at": at}], reached=10).make(table)
    Commit("e", 4, reached=90).make(table)
    assert told(given(table, **CASE_10), "id") == [("+I", 1)]


def test_a_deleted_row_is_no_sample_and_a_given_one_is_taken_back_by_correct(
    tmp_path: Path,
) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "late": "correct"}
    Commit("e", 1, [{"id": key, "exposed_at": 0} for key in (1, 2)], reached=10).make(table)
    assert given(table, **rule) == []
    Commit("e", 2, deletes=[1], reached=30).make(table)
    assert told(given(table, **rule), "id") == [("+I", 2)]
    Commit("e", 3, deletes=[2], reached=31).make(table)
    assert told(given(table, **rule), "id", "_correction") == [("-D", 2, True)]


def test_case_16_labels_over_landing_windows(tmp_path: Path) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {
        "complete": ["exposed_at"],
        "on": "exposed_at",
        "labels": {
            "bought": wt.label("clicked_at", within="7 h"),
            "paid": wt.label("clicked_at", within="7 h", value="price"),
        },
        "defaults": {"paid": 0.0},
    }
    hour = 60
    clicks = {1: 6 * hour + 59, 2: 7 * hour, 3: 7 * hour + 1, 4: -1}
    rows = [{"id": key, "exposed_at": hour, "price": 2.0} for key in (*clicks, 5)]
    Commit("e", 1, rows, reached=hour).make(table)
    late = [{"id": key, "clicked_at": hour + at} for key, at in clicks.items()]
    Commit("c", 1, late, reached=8 * hour).make(table)
    assert given(table, **rule) == []
    Commit("e", 2, reached=8 * hour - 1).make(table)
    assert given(table, **rule) == []
    Commit("e", 3, reached=8 * hour).make(table)
    assert told(given(table, **rule), "id", "bought", "paid") == [
        ("+I", 1, True, 2.0),
        ("+I", 2, True, 2.0),
        ("+I", 3, False, 0.0),
        ("+I", 4, False, 0.0),
        ("+I", 5, False, 0.0),
    ]


def test_labels_keep_the_order_of_the_first_call(tmp_path: Path) -> None:
    table = made(tmp_path)
    labels = {"z": wt.label("clicked_at", "1 h"), "a": wt.label("clicked_at", "2 h", "price")}
    rule: dict[str, Any] = {"complete": ["exposed_at"], "on": "exposed_at", "labels": labels}
    assert given(table, **rule) == []
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=120).make(table)
    other = {**rule, "labels": dict(reversed(labels.items()))}
    (row,) = given(table, **other)
    assert list(row)[-5:] == ["z", "a", "_snapshot", "_correction", "_row_kind"]
    assert tables_of(table_of(table)).plan.fields.names[-4:-2] == ["z", "a"]


def splitmix(value: int) -> int:
    """The finalizer of SplitMix64, by its definition."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
    return value ^ (value >> 31)


def murmur(key: int) -> int:
    """Paimon's hash of a BIGINT key: MurmurHash3 of the row's 16 bytes in words of 4, seed 42, as 32 bits."""
    row = bytes(8) + key.to_bytes(8, "little", signed=True)
    state = 42
    for start in range(0, 16, 4):
        word = int.from_bytes(row[start : start + 4], "little") * 0xCC9E2D51 % 2**32
        word = (word << 15 | word >> 17) % 2**32 * 0x1B873593 % 2**32
        state ^= word
        state = ((state << 13 | state >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    state ^= 16
    state = (state ^ state >> 16) * 0x85EBCA6B % 2**32
    state = (state ^ state >> 13) * 0xC2B2AE35 % 2**32
    return state ^ state >> 16


def keeps(key: int, seed: int, share: float) -> bool:
    """The rule of the module's text, in Python's integers."""
    gamma = 0x9E3779B97F4A7C15
    drawn = splitmix((splitmix((seed + gamma) % 2**64) + (murmur(key) + 1) * gamma) % 2**64)
    return drawn < int(share * 2**64)


def test_case_16_negatives_are_kept_by_their_key_alone(tmp_path: Path) -> None:
    """In one run, in a backfill, and on another machine: a rule in plain Python."""
    keys = np.arange(100_000)
    rows = pa.table(
        {
            "id": keys,
            "exposed_at": pa.array([moment(0)] * len(keys), pa.timestamp("ms")),
            "label": (keys % 50 == 0).astype(np.int32),
        }
    )
    table = made(tmp_path)
    rule: dict[str, Any] = {
        "complete": ["exposed_at"],
        "negatives": 0.1,
        "seed": 7,
        "columns": ["label"],
    }
    assert given(table, **rule) == []
    half = len(keys) // 2
    table.write(rows.slice(0, half))
    first = given(table, **rule)
    table.write(rows.slice(half))
    live = first + given(table, **rule)
    backfill = given(table, into="db.again", **rule)
    assert told(live, "id", "label", "_weight") == told(backfill, "id", "label", "_weight")
    positive = {int(key) for key in keys if key % 50 == 0}
    negative = {row["id"] for row in live if row["label"] == 0}
    assert {row["id"] for row in live if row["label"] == 1} == positive
    assert {row["_weight"] for row in live if row["label"] == 1} == {1.0}
    assert {row["_weight"] for row in live if row["label"] == 0} == {10.0}
    some = [int(key) for key in keys[:4000] if key % 50]
    assert [key in negative for key in some] == [keeps(key, 7, 0.1) for key in some]
    others = {row["id"] for row in given(table, into="db.other", **{**rule, "seed": 8})}
    assert len(others & negative) < len(negative) / 5


def test_negatives_of_a_label(tmp_path: Path) -> None:
    key = next(key for key in range(100) if not keeps(key, 0, 0.5))
    table = made(tmp_path)
    rule: dict[str, Any] = {
        "complete": ["exposed_at"],
        "on": "exposed_at",
        "labels": {"soon": wt.label("clicked_at", within="30 min")},
        "negatives": {"soon": 0.5},
    }
    rows = [{"id": key, "exposed_at": 0}, {"id": 100, "exposed_at": 0, "clicked_at": 5}]
    Commit("e", 1, rows, reached=30).make(table)
    assert told(given(table, **rule), "id", "soon", "_weight") == [("+I", 100, True, 1.0)]


def test_a_dropped_negative_that_becomes_positive_is_a_correction(tmp_path: Path) -> None:
    dropped = next(key for key in range(100) if not keeps(key, 0, 0.5))
    kept = next(key for key in range(100) if keeps(key, 0, 0.5))
    for late in ("drop", "correct"):
        table = made(tmp_path / late)
        rule: dict[str, Any] = {**CASE_10, "negatives": 0.5, "late": late, "columns": ["label"]}
        rows = [{"id": key, "exposed_at": 0} for key in (dropped, kept)]
        Commit("e", 1, rows, reached=30).make(table)
        assert told(given(table, **rule), "id", "label", "_weight") == [("+I", kept, 0, 2.0)]
        rows = [{"id": key, "label": 1} for key in (dropped, kept)]
        Commit("c", 1, rows, reached=31).make(table)
        corrected = [("+I", dropped, 1, 1.0, True), ("+U", kept, 1, 1.0, True)]
        expected = corrected if late == "correct" else []
        assert told(given(table, **rule), "id", "label", "_weight", "_correction") == expected
        Commit("c", 2, [{"id": dropped, "label": 0}], reached=32).make(table)
        back = [("-D", dropped, 1)] if late == "correct" else []
        assert told(given(table, **rule), "id", "label") == back


def test_a_consumer_that_died_gets_its_batch_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=30).make(table)
    follower = table.follow_samples("c", timeout=0, **CASE_10)
    first = next(follower)
    follower.close()
    again = next(table.follow_samples("c", timeout=0, **CASE_10))
    assert again.equals(first)
    assert again.schema.metadata == first.schema.metadata


def test_two_consumers_share_samples(tmp_path: Path) -> None:
    table = made(tmp_path)
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=30).make(table)
    assert given(table, "a", **CASE_10) == given(table, "b", **CASE_10) != []


def test_named_writers_are_those_that_samples_wait_for(tmp_path: Path) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "writers": ["clicks"]}
    Commit("exposures", 1, [{"id": 1, "exposed_at": 0}], reached=90).make(table)
    assert given(table, **rule) == []
    Commit("clicks", 1, reached=30).make(table)
    assert told(given(table, **rule), "id") == [("+I", 1)]


def test_an_overwrite_and_a_rollback_are_changes_like_others(tmp_path: Path) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "late": "correct", "columns": ["price"], "defaults": {}}
    rows = [{"id": key, "exposed_at": 0, "price": 1.0} for key in (1, 2)]
    Commit("e", 1, rows, reached=30).make(table)
    assert told(given(table, **rule), "id") == [("+I", 1), ("+I", 2)]
    table.overwrite([{"id": 2, "exposed_at": moment(0), "price": 5.0}])
    assert told(given(table, **rule), "id", "price") == [("+U", 2, 5.0), ("-D", 1, 1.0)]
    table.rollback(snapshot_id=1)
    assert told(given(table, **rule), "id", "price") == [("+I", 1, 1.0), ("+U", 2, 1.0)]


def test_columns_that_are_added_later_are_not_in_the_samples(tmp_path: Path) -> None:
    table = made(tmp_path)
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=30).make(table)
    first = given(table, **CASE_10)
    wt.Catalog(str(tmp_path)).alter_table("db.t", add_columns={"extra": "INT"})
    table.write([{"id": 3, "exposed_at": moment(0), "extra": 4}], "e", 2, watermark=watermark(31))
    (later,) = given(table, **CASE_10)
    assert list(later) == list(first[0])


def test_a_bigint_of_times_has_a_unit(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "at": "BIGINT", "x": "INT"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["id"], options=OPTIONS
    )
    rule: dict[str, Any] = {
        "complete": ["at"],
        "on": "at",
        "wait": "10 s",
        "event_times": {"at": "seconds"},
    }
    table.write([{"id": 1, "at": 100}, {"id": 2, "at": 101}, {"id": 3}], "w", 1, watermark=110_000)
    assert told(given(table, **rule), "id") == [("+I", 1)]
    table.write([], "w", 2, watermark=110_999)
    assert given(table, **rule) == []
    table.write([], "w", 3, watermark=111_000)
    assert told(given(table, **rule), "id") == [("+I", 2)]


def test_a_default_has_the_type_of_its_column(tmp_path: Path) -> None:
    table = made(tmp_path)
    defaults = {"price": 2, "clicked_at": moment(7), "label": 1}
    rule = {**CASE_10, "eager": [], "defaults": defaults}
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=30).make(table)
    (row,) = given(table, **rule)
    assert (row["price"], row["clicked_at"], row["label"]) == (2.0, moment(7), 1)
    stored = table_of(table).schema.options["widetable.samples-rule"]
    assert SampleRule.from_text(stored).to_text() == stored
