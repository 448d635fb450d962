"""Batches are cut into whole transactions, whatever the batches are, and each round says where to begin again."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.cdc.embedded.recorded_batches import PREFIX, batch_of, batches, recorded
from widetable_cdc.embedded.engine_batch import EngineBatch
from widetable_cdc.embedded.rounds import EngineRound, RoundCutter


def cut(parts: list[EngineBatch], offset: str | None = None) -> list[EngineRound]:
    cutter, rounds = RoundCutter(PREFIX, offset), []
    for part in parts:
        cutter.add(part)
        rounds += cutter.take()
    return rounds


def values(rounds: list[EngineRound]) -> list[str]:
    return [
        value for each in rounds for batch in each.changes for value in batch.values.to_pylist()
    ]


def transactions(each: EngineRound) -> list[str]:
    return [
        json.loads(value)["payload"]["source"]["gtid"]
        for batch in each.changes
        for value in batch.values.to_pylist()
    ]


def changes_of(records: list[dict[str, Any]]) -> list[str]:
    return [record["value"] for record in records if record["topic"].count(".") == 2]


def test_no_change_is_lost_or_moved(rng: random.Random) -> None:
    records = recorded()
    for _ in range(40):
        ends = sorted(rng.sample(range(1, len(records)), rng.randrange(1, 12)))
        parts = [
            batch_of(records[start:end])
            for start, end in zip([0, *ends], [*ends, len(records)], strict=True)
        ]
        rounds = cut(parts)
        assert values(rounds) == changes_of(records)
        streamed = [each for each in rounds if not each.is_copied]
        seen: set[str] = set()
        for each in streamed:
            own = set(transactions(each))
            assert not own & seen, "a transaction lies in two rounds"
            seen |= own
        assert len(seen) == 5


def test_a_transaction_waits_for_its_end() -> None:
    records = recorded()
    end = next(at for at, record in enumerate(records) if '"status":"END"' in record["value"])
    before, cutter = batch_of(records[:end]), RoundCutter(PREFIX, None)
    cutter.add(before)
    assert not any(transactions(each) for each in cutter.take() if not each.is_copied)
    assert cutter.waiting == 3
    cutter.add(batch_of(records[end : end + 1]))
    assert [transactions(each) for each in cutter.take()] == [["0-1-" + _number(records)] * 3]


def _number(records: list[dict[str, Any]]) -> str:
    """The number of the first transaction in the log."""
    ends = [record for record in records if '"status":"END"' in record["value"]]
    return str(json.loads(ends[0]["value"])["payload"]["id"]).rpartition("-")[2]


def test_offsets_are_at_the_begin_of_a_transaction_and_never_go_back() -> None:
    offsets = [json.loads(each.offset) for each in cut(batches()) if each.offset is not None]
    assert offsets
    assert not any("event" in offset or "snapshot" in offset for offset in offsets)
    places = [(offset["file"], offset["pos"]) for offset in offsets]
    assert places == sorted(places)
    assert min(pos for _, pos in places) > 4


def test_only_the_end_of_the_copy_has_an_offset() -> None:
    copied = [each for each in cut(batches()) if each.is_copied]
    assert [each.offset is None for each in copied] == [True] * (len(copied) - 1) + [False]
    assert [each.ends_copy for each in copied] == [False] * (len(copied) - 1) + [True]
    assert sum(map(len, copied)) == 2


def test_a_change_of_the_schema_begins_a_round() -> None:
    streamed = [each for each in cut([batch_of(recorded())]) if not each.is_copied]
    altered = [at for at, each in enumerate(streamed) if each.schema_changes]
    assert len(altered) == 1
    before, after = streamed[: altered[0]], streamed[altered[0] :]
    assert not any('"paid"' in value for value in values(before))
    assert all('"paid"' in value or '"tags"' in value for value in values(after))


def test_a_change_of_the_schema_waits_for_nothing() -> None:
    """Only heartbeats come behind it, whose offsets are within its transaction."""
    records = recorded()
    altered = max(at for at, record in enumerate(records) if record["topic"] == PREFIX)
    rounds = cut([batch_of(records[: altered + 1])])
    assert [len(each.schema_changes) for each in rounds[-1:]] == [1]
    assert "alter table" in rounds[-1].schema_changes[0]


def test_a_log_that_was_read_before_is_cut_without_a_copy() -> None:
    records = recorded()
    first = next(at for at, record in enumerate(records) if '"status":"BEGIN"' in record["value"])
    rounds = cut([batch_of(records[first:])], records[first]["offset"])
    assert not any(each.is_copied for each in rounds)
    assert values(rounds) == changes_of(records[first:])
