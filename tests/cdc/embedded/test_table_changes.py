"""Changes of a round are divided by tables, and those that a table has are left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

import widetable as wt
from tests.cdc.embedded.recorded_batches import batch_of, recorded
from widetable_cdc.embedded.binlog_position import source_position
from widetable_cdc.embedded.table_changes import TableChanges, by_table, last_position


def streamed() -> list[dict[str, Any]]:
    return [
        record
        for record in recorded()
        if record["topic"].count(".") == 2 and '"op":"r"' not in record["value"]
    ]


def place(record: dict[str, Any]) -> int:
    return source_position(json.loads(record["value"])["payload"]["source"])


def changes(relation: str) -> TableChanges:
    records = streamed()
    of = by_table([batch_of(records[:2]), batch_of(records[2:])])
    return next(each for each in of if each.relation == relation)


def test_each_table_gets_its_records_in_their_order() -> None:
    for relation in ("shop.orders", "shop.tags"):
        name = relation.partition(".")[2]
        expected = [each["value"] for each in streamed() if each["topic"].endswith(f".{name}")]
        assert changes(relation).records.column("value").to_pylist() == expected
    assert changes("shop.tags").key() == ("id",)


def test_changes_behind_each_position() -> None:
    assert len(streamed()) == 8
    for relation in ("shop.orders", "shop.tags"):
        name = relation.partition(".")[2]
        own = [each for each in streamed() if each["topic"].endswith(f".{name}")]
        for position in {place(each) + step for each in own for step in (-1, 0)}:
            expected = [each["value"] for each in own if place(each) > position]
            behind = changes(relation).behind(position)
            rest = [] if behind is None else behind.records.column("value").to_pylist()
            assert rest == expected


def test_the_last_position_is_that_of_the_last_change() -> None:
    assert last_position([batch_of(streamed())]) == place(streamed()[-1])


def test_no_changes_and_records_that_are_none() -> None:
    assert by_table([]) == []
    with pytest.raises(wt.DamagedError, match="record of Debezium"):
        by_table([batch_of([{"topic": "a.b.c", "key": "{}", "value": "{}", "offset": "{}"}])])
