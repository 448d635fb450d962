"""The batches of `tests/fixtures/debezium/mariadb.jsonl`, which a real engine gave, and others of the same texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from widetable_cdc.embedded.engine_batch import EngineBatch

PREFIX: Final = "widetable_shop"
_FILE: Final = Path(__file__).resolve().parents[2] / "fixtures/debezium/mariadb.jsonl"

# What the statements of the fixture's page leave in the database.
ORDERS: Final = {
    1: {"city": "Bergen", "amount": "10.50", "big": None, "paid": 7},
    30: {"city": "Paris", "amount": "7.25", "big": None, "paid": 1},
}


def recorded() -> list[dict[str, Any]]:
    """All records, in their order."""
    return [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]


def batch_of(records: Sequence[Mapping[str, Any]]) -> EngineBatch:
    """Records as a batch of the engine."""
    columns = [
        "\n".join(record[name] for record in records).encode()
        for name in ("topic", "key", "value", "offset")
    ]
    return EngineBatch.of(*columns)


def batches() -> list[EngineBatch]:
    """The batches, cut as the engine did."""
    return [
        batch_of(list(group)) for _, group in groupby(recorded(), lambda record: record["batch"])
    ]
