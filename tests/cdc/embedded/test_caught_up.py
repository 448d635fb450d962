"""A job has caught up with the first heartbeat that was made after the engine had read the log to its end."""

from __future__ import annotations

import json

from tests.cdc.embedded.recorded_batches import batch_of, recorded
from widetable_cdc.embedded.caught_up import CaughtUp
from widetable_cdc.embedded.engine_batch import EngineBatch


def heartbeat(millis: int) -> EngineBatch:
    record = next(each for each in recorded() if each["topic"].startswith("__debezium-heartbeat"))
    value = json.loads(record["value"])
    value["payload"]["ts_ms"] = millis
    return batch_of([{**record, "value": json.dumps(value)}])


def test_a_heartbeat_before_the_end_was_read_says_nothing() -> None:
    goal = CaughtUp(100, lambda: 5_000)
    goal.see(heartbeat(9_000))
    goal.read_to(None)
    goal.read_to(99)
    goal.see(heartbeat(9_000))
    assert not goal.is_reached


def test_a_heartbeat_that_was_on_its_way_says_nothing() -> None:
    goal = CaughtUp(100, lambda: 5_000)
    goal.read_to(100)
    goal.see(heartbeat(5_000))
    goal.see(batch_of(recorded()[:1]))
    assert not goal.is_reached
    goal.see(heartbeat(5_001))
    assert goal.is_reached
