"""Small tables that one version writes and another one reads: their schemas, batches, and the rows that follow by SQL.

The SQL runs in DuckDB over the batches themselves: `inputs` has their rows, `batch` and `n` number batches and rows. So
the expected rows come from no version of ours. `later` are batches that the reading version goes on with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

Row = dict[str, Any]
Batch = Sequence[Row]

KIND: Final = "_row_kind"
LATEST: Final = """
    SELECT * EXCLUDE (batch, n, _row_kind) FROM
    (SELECT * FROM inputs QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order} DESC) = 1)
    WHERE _row_kind IS DISTINCT FROM '-D'"""
PARTIAL: Final = """
    SELECT id,
        last(a1 ORDER BY g1, n) FILTER (g1 IS NOT NULL) AS a1, max(g1) AS g1,
        last(b1 ORDER BY g2, n) FILTER (g2 IS NOT NULL) AS b1,
        last(b2 ORDER BY g2, n) FILTER (g2 IS NOT NULL) AS b2, max(g2) AS g2,
        last(free ORDER BY n) FILTER (free IS NOT NULL) AS free
    FROM inputs GROUP BY id"""
TOTALS: Final = """
    SELECT id, sum(total)::BIGINT AS total, max(high) AS high, min(low) AS low,
        last(note ORDER BY n) FILTER (note IS NOT NULL) AS note, first(born ORDER BY n) AS born,
        string_agg(words, ',' ORDER BY n) AS words
    FROM inputs GROUP BY id"""
FIRST: Final = "SELECT id, v FROM inputs QUALIFY row_number() OVER (PARTITION BY id ORDER BY n) = 1"
CHANGED: Final = """
    SELECT id, coalesce(name, old) AS name, amount, extra FROM inputs
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY n DESC) = 1"""

_KEYED = {"id": pa.int64(), "v": pa.string()}
_GROUPS = {
    "fields.g1.sequence-group": "a1",
    "fields.g2.sequence-group": "b1,b2",
    "merge-engine": "partial-update",
}
NESTED: Final = {
    "point": pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))]),
    "sizes": pa.map_(pa.string(), pa.int64()),
}


@dataclass(frozen=True)
class Sample:
    """alter: arguments of `Catalog.alter_table` after the first batch. rescale: buckets after the last batch. columns:
    of `inputs` beyond those of the table. has_history: whether the SQL holds at each earlier batch, too.
    """

    name: str
    schema: Mapping[str, Any]
    key: Sequence[str]
    sql: str
    batches: Sequence[Batch]
    later: Sequence[Batch]
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: Sequence[str] = ()
    alter: Mapping[str, Any] = field(default_factory=dict)
    rescale: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_history(self) -> bool:
        return not self.alter

    def inputs(self, batches: Sequence[Batch]) -> pa.Table:
        """The rows of batches, numbered."""
        rows = [{**row, "batch": b} for b, batch in enumerate(batches) for row in batch]
        types = {**self.schema, **self.columns, KIND: pa.string(), "batch": pa.int64()}
        schema = pa.schema([*types.items(), ("n", pa.int64())])
        return pa.Table.from_pylist([{**row, "n": n} for n, row in enumerate(rows)], schema)


def _texts(ids: range, word: str, **more: Any) -> Batch:
    return [{"id": id, "v": f"{word}{id}", **more} for id in ids]


def _ordered(ids: range, at: int, kind: str = "+I") -> Batch:
    return [
        {"day": f"d{id % 2}", "id": id, "v": f"{kind}{at}", "at": at - id % 3, KIND: kind}
        for id in ids
    ]


def _totals(ids: range, k: int) -> Batch:
    return [
        {
            "id": id,
            "total": k * id,
            "high": (id * 7 + k) % 11,
            "low": (id * 5 + k) % 7 / 2,
            "note": None if (id + k) % 3 else f"n{k}",
            "born": k,
            "words": f"w{k}",
        }
        for id in ids
    ]


def _nested(ids: range, k: int) -> Batch:
    return [
        {
            "id": id,
            "point": None if id % 4 == 3 else {"x": id * k, "tags": [f"t{k}", None]},
            "sizes": [(f"s{i}", k) for i in range(id % 3)],
        }
        for id in ids
    ]


def _first_group(ids: range, k: int) -> Batch:
    return [{"id": id, "g1": (id * 3 + k) % 5, "a1": f"a{k}" if id % 4 else None} for id in ids]


def _second_group(ids: range, k: int) -> Batch:
    return [
        {"id": id, "g2": (id + k * 2) % 6, "b1": k, "b2": f"b{k}" if id % 3 else None} for id in ids
    ]


def _free(ids: range, k: int) -> Batch:
    return [{"id": id, "free": f"f{k}"} for id in ids]


def latest(key: str = "id", order: str = "n") -> str:
    return LATEST.format(key=key, order=order)


SAMPLES: Final = (
    Sample(
        "ordered",
        {"day": pa.string(), "id": pa.int64(), "v": pa.string(), "at": pa.int64()},
        ("day", "id"),
        latest("day, id", '"at" DESC, n'),
        (_ordered(range(9), 10), _ordered(range(4, 12), 9), _ordered(range(2, 5), 20, "-D")),
        (_ordered(range(3, 8), 30), _ordered(range(6, 7), 5), _ordered(range(9, 11), 40, "-D")),
        {"bucket": "2", "sequence.field": "at", "changelog-producer": "lookup"},
        ("day",),
    ),
    Sample(
        "groups",
        {
            "id": pa.int64(),
            "a1": pa.string(),
            "g1": pa.int64(),
            "b1": pa.int64(),
            "b2": pa.string(),
            "g2": pa.int64(),
            "free": pa.string(),
        },
        ("id",),
        PARTIAL,
        (
            _first_group(range(8), 1),
            _second_group(range(4, 12), 1),
            _free(range(0, 12, 3), 1),
            _first_group(range(2, 10), 2),
        ),
        (_second_group(range(2, 14), 2), _free(range(5), 2), _first_group(range(12), 3)),
        {**_GROUPS, "bucket": "1", "changelog-producer": "lookup"},
    ),
    Sample(
        "totals",
        {
            "id": pa.int64(),
            "total": pa.int64(),
            "high": pa.int64(),
            "low": pa.float64(),
            "note": pa.string(),
            "born": pa.int64(),
            "words": pa.string(),
        },
        ("id",),
        TOTALS,
        (_totals(range(8), 1), _totals(range(3, 10), 2), _totals(range(6), 3)),
        (_totals(range(2, 12), 4), _totals(range(4), 5)),
        {
            "merge-engine": "aggregation",
            "fields.total.aggregate-function": "sum",
            "fields.high.aggregate-function": "max",
            "fields.low.aggregate-function": "min",
            "fields.note.aggregate-function": "last_non_null_value",
            "fields.born.aggregate-function": "first_value",
            "fields.words.aggregate-function": "listagg",
            "changelog-producer": "full-compaction",
            "bucket": "1",
        },
    ),
    Sample(
        "firsts",
        _KEYED,
        ("id",),
        FIRST,
        (_texts(range(6), "a"), _texts(range(3, 9), "b")),
        (_texts(range(12), "c"),),
        {"merge-engine": "first-row", "changelog-producer": "lookup", "bucket": "1"},
    ),
    Sample(
        "recorded",
        _KEYED,
        ("id",),
        latest(),
        (
            _texts(range(6), "a", _row_kind="+I"),
            [*_texts(range(2), "a", _row_kind="-U"), *_texts(range(2), "b", _row_kind="+U")],
            _texts(range(4, 5), "a", _row_kind="-D"),
        ),
        (_texts(range(5, 6), "a", _row_kind="-D"), _texts(range(6, 9), "c", _row_kind="+I")),
        {"changelog-producer": "input", "bucket": "1"},
    ),
    Sample(
        "vectors",
        _KEYED,
        ("id",),
        latest(),
        (_texts(range(40), "a"), _texts(range(5, 9), "b"), _texts(range(30, 44), "c")),
        (_texts(range(7, 20), "d"), _texts(range(3), "e", _row_kind="-D")),
        {"deletion-vectors.enabled": "true", "bucket": "1", "changelog-producer": "lookup"},
    ),
    Sample(
        "dynamic",
        {"day": pa.string(), **_KEYED},
        ("day", "id"),
        latest("day, id"),
        (
            [{"day": f"d{i % 2}", "id": i, "v": "a"} for i in range(30)],
            [{"day": f"d{i % 2}", "id": i, "v": "b"} for i in range(20, 40)],
        ),
        ([{"day": f"d{i % 3}", "id": i, "v": "c"} for i in range(15, 60)],),
        {"bucket": "-1", "dynamic-bucket.target-row-num": "8"},
        ("day",),
    ),
    Sample(
        "nested",
        {"id": pa.int64(), **NESTED},
        ("id",),
        latest(),
        (_nested(range(8), 1), _nested(range(4, 10), 2)),
        (_nested(range(6, 12), 3),),
        {"bucket": "1", "changelog-producer": "lookup"},
    ),
    Sample(
        "changed",
        {"id": pa.int64(), "old": pa.string(), "amount": pa.int64(), "gone": pa.string()},
        ("id",),
        CHANGED,
        (
            [{"id": i, "old": f"o{i}", "amount": i, "gone": "g"} for i in range(6)],
            [{"id": i, "name": f"n{i}", "amount": 2**40 + i, "extra": i} for i in range(3, 9)],
        ),
        ([{"id": i, "name": f"m{i}", "amount": -i, "extra": None} for i in range(7, 12)],),
        {"bucket": "1"},
        alter={
            "rename_columns": {"old": "name"},
            "drop_columns": ["gone"],
            "add_columns": pa.schema([("extra", pa.int32())]),
        },
        columns={"name": pa.string(), "extra": pa.int32()},
    ),
    Sample(
        "rescaled",
        _KEYED,
        ("id",),
        latest(),
        (_texts(range(20), "a"), _texts(range(10, 30), "b")),
        (_texts(range(5, 35), "c"),),
        {"bucket": "1"},
        rescale=3,
    ),
)
