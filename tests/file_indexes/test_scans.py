"""Scans by file indexes: the rows of random filters are those that Python picks from all rows, in tables of all kinds,
whatever was merged, deleted, marked or compacted. Without a filter no index is asked.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from tests.append.model import frozen, rows_of
from widetable.operations.handle.compaction_threads import wait_for_compactions

Row: TypeAlias = dict[str, Any]
Condition: TypeAlias = tuple[str, Callable[[Row], bool | None]]

COLUMNS: Final = {
    "k": "BIGINT NOT NULL",
    "p": "INT NOT NULL",
    "s": "STRING",
    "d": "DOUBLE",
    "b": "INT",
}
OPTIONS: Final = {
    "widetable.fsync": "false",
    "file-index.bloom-filter.columns": "k, s, d",
    "file-index.bitmap.columns": "p, s, b",
}
KINDS: Final[dict[str, dict[str, str]]] = {
    "append": {},
    "append with vectors": {"deletion-vectors.enabled": "true"},
    "deduplicate": {"merge-engine": "deduplicate"},
    "deduplicate with vectors": {"deletion-vectors.enabled": "true"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.b.aggregate-function": "last_value",
        "fields.s.aggregate-function": "max",
    },
}
_TEXTS: Final = ("", "a", "b" * 20, "grüße", "\U0010ffff")
_DOUBLES: Final = (0.0, -0.0, 1.5, float("nan"), float("inf"))


def drawn_row(rng: random.Random) -> Row:
    return {
        "k": rng.choice([rng.randrange(60), -(2**63), 2**63 - 1]),
        "p": rng.randrange(2),
        "s": rng.choice([None, *_TEXTS, f"t{rng.randrange(40)}"]),
        "d": rng.choice([None, *_DOUBLES, rng.randrange(40) / 2]),
        "b": rng.choice([None, rng.randrange(30), -(2**31)]),
    }


def leaf(rng: random.Random) -> Condition:
    name = rng.choice(list(COLUMNS))
    draws = [drawn_row(rng)[name] for _ in range(3)]
    # The text of a filter has no word for infinity and NaN.
    values = [each for each in draws if each is not None and is_finite(each)]
    values = values or ["x" if name == "s" else 7]
    what = rng.choice(["=", "=", "=", "in", "null", "not null", "<", "<>"])
    if what == "in":
        listed = ", ".join(map(literal, values))
        return f"{name} in ({listed})", lambda row: null_or(row[name], lambda v: v in values)
    if what == "null":
        return f"{name} is null", lambda row: row[name] is None
    if what == "not null":
        return f"{name} is not null", lambda row: row[name] is not None
    one = values[0]
    if what == "<":
        return f"{name} < {literal(one)}", lambda row: null_or(row[name], lambda v: below(v, one))
    if what == "<>":
        return f"{name} <> {literal(one)}", lambda row: null_or(row[name], lambda v: v != one)
    return f"{name} = {literal(one)}", lambda row: null_or(row[name], lambda v: v == one)


def null_or(value: Any, test: Callable[[Any], bool]) -> bool | None:
    return None if value is None else test(value)


def below(value: Any, other: Any) -> bool:
    """Texts by their UTF-8; a NaN is above all numbers, as Python has it."""
    if isinstance(value, str):
        return value.encode() < str(other).encode()
    return bool(value < other)


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def condition(rng: random.Random, depth: int = 0) -> Condition:
    """SQL's three values: an unknown part leaves the whole unknown, unless another part decides."""
    what = rng.choice(["leaf", "leaf", "and", "or", "not"]) if depth < 3 else "leaf"
    if what == "leaf":
        return leaf(rng)
    text, holds = condition(rng, depth + 1)
    if what == "not":
        return f"not ({text})", lambda row: null_or(holds(row), lambda is_true: not is_true)
    other_text, other = condition(rng, depth + 1)
    decides = what == "or"

    def both(row: Row) -> bool | None:
        sides = holds(row), other(row)
        if decides in sides:
            return decides
        return None if None in sides else not decides

    return f"({text}) {what} ({other_text})", both


def made(folder: Path, rng: random.Random, kind: str) -> wt.Table:
    options = OPTIONS | KINDS[kind] | {"target-file-size": rng.choice(["4 kb", "128 mb"])}
    options["file-index.in-manifest-threshold"] = rng.choice(["0 b", "500 b", "1 mb"])
    options["write-only"] = rng.choice(["true", "false"])
    has_key = not kind.startswith("append")
    if has_key:
        options["bucket"] = rng.choice(["1", "2"])
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        COLUMNS,
        primary_key=["p", "k"] if has_key else None,
        partition_by=["p"] if rng.random() < 0.5 else [],
        options=options,
    )


def change(table: wt.Table, rng: random.Random, kind: str) -> None:
    rows = [drawn_row(rng) for _ in range(rng.choice([1, 5, 60]))]
    step = rng.random()
    if step < 0.6:
        table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))
    elif step < 0.75 and kind not in ("first-row", "partial-update", "aggregation"):
        table.delete(condition(rng)[0])
    else:
        table.compact(full=rng.random() < 0.5)
    wait_for_compactions(table.path)


@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_keeps_the_rows_that_it_holds_for(
    tmp_path: Path, rng: random.Random, kind: str, attempt: int
) -> None:
    table = made(tmp_path, rng, kind)
    table.write(
        pa.Table.from_pylist([drawn_row(rng) for _ in range(40)], schema=table.arrow_schema)
    )
    left_out = 0
    for _ in range(8):
        change(table, rng, kind)
        everything = rows_of(table.scan().to_arrow())
        all_files = sum(len(split.files) for split in table.scan().splits())
        for _ in range(8):
            text, holds = condition(rng)
            scan = table.scan(filter=text)
            expected = Counter(frozen(row) for row in everything if holds(row))
            assert Counter(map(frozen, rows_of(scan.to_arrow()))) == expected, text
            assert scan.count() == expected.total()
            left_out += all_files - sum(len(split.files) for split in scan.splits())
    assert left_out


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -0.0])
def test_floats_that_are_equal_are_found(tmp_path: Path, value: float) -> None:
    """A NaN of any bits, and zero with any sign."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        {"d": "DOUBLE", "f": "FLOAT"},
        options={"file-index.bloom-filter.columns": "d, f", "write-only": "true"},
    )
    bits = np.array(
        [0x7FF8000000000000, 0xFFF0000000000001, 0, 1 << 63, 0x7FF0000000000000], np.uint64
    )
    doubles = bits.view(np.float64)
    for double in doubles:
        one = np.array([double, 7.0])
        with np.errstate(invalid="ignore"):
            table.write(pa.table({"d": one, "f": one.astype(np.float32)}))
    same = np.isnan(doubles) if math.isnan(value) else doubles == value
    for name, kind in (("d", pa.float64()), ("f", pa.float32())):
        scan = table.scan(filter=pc.field(name) == pa.scalar(value, kind))
        kept = [] if math.isnan(value) else scan.to_arrow()[name].to_pylist()
        assert len(kept) == (0 if math.isnan(value) else same.sum())
        assert sum(len(split.files) for split in scan.splits()) >= same.sum()
