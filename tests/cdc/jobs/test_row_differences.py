"""Differences of two sets of rows, against a dict of each."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from widetable_cdc.jobs.row_differences import row_differences

SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.string()), ("f", pa.float64()), ("list", pa.list_(pa.int32()))]
)


def drawn(rng: random.Random) -> dict[str, Any]:
    return {
        "f": rng.choice([None, 1.0, -0.5, float("nan")]),
        "list": rng.choice([None, [], [1, None], [2]]),
    }


def plain(row: dict[str, Any]) -> str:
    return repr(row)


@pytest.mark.parametrize("number", range(20))
def test_they_are_those_of_dicts(rng: random.Random, number: int) -> None:
    keys = [(a, b) for a in range(6) for b in "xy"]
    sides = []
    for _ in range(2):
        chosen = rng.sample(keys, rng.randrange(len(keys)))
        sides.append({key: drawn(rng) for key in chosen})
    for key in sides[0]:
        if rng.random() < 0.5 and key in sides[1]:
            sides[1][key] = sides[0][key]
    one, other = (
        pa.Table.from_pylist([{"a": a, "b": b, **row} for (a, b), row in side.items()], SCHEMA)
        for side in sides
    )
    result = row_differences(one, other, ["a", "b"])
    both = sides[0].keys() & sides[1].keys()
    differing = {key for key in both if plain(sides[0][key]) != plain(sides[1][key])}
    assert keys_of(result.missing) == sides[0].keys() - sides[1].keys()
    assert keys_of(result.extra) == sides[1].keys() - sides[0].keys()
    assert keys_of(result.different) == differing
    columns = {
        name
        for key in differing
        for name in ("f", "list")
        if repr(sides[0][key][name]) != repr(sides[1][key][name])
    }
    assert set(result.columns) == columns


def keys_of(table: pa.Table) -> set[tuple[int, str]]:
    return {(row["a"], row["b"]) for row in table.to_pylist()}
