"""A model of an append table: the rows in the order of their commits, as Python has them; and random steps for both.

It knows nothing of files: a step changes the list, and the table must have the same rows afterwards. Rows of a table
with buckets come in the order of the list within each bucket.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

import widetable as wt

Row: TypeAlias = dict[str, Any]
Condition: TypeAlias = tuple[str, Callable[[Row], bool]]

COLUMNS: Final = {
    "p": "INT",
    "n": "BIGINT NOT NULL",
    "s": "STRING",
    "d": "DOUBLE",
    "l": "ARRAY<INT>",
}
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "free": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "buckets": {"bucket": "3", "bucket-key": "s"},
    "buckets and vectors": {"bucket": "2", "bucket-key": "s,n", "deletion-vectors.enabled": "true"},
}
FILE_INDEXES: Final = {
    "file-index.bloom-filter.columns": "s,n,d",
    "file-index.bitmap.columns": "p,s",
}
_TEXTS: Final = ("", "a", "ab", "b" * 16, "b" * 16 + "a", "b" * 200, "\U0010ffff" * 20, "ä\ud7ff")
_DOUBLES: Final = (0.0, -0.0, 1.5, -1e300, 5e-324, math.inf, -math.inf, math.nan)


def made(folder: Any, kind: str, *, parts: bool, **options: str) -> wt.Table:
    """A new table. parts: it has partitions."""
    given = {"widetable.fsync": "false", **KINDS[kind], **options}
    return wt.Catalog(str(folder)).create_table(
        "db.t", COLUMNS, partition_by=["p"] if parts else [], options=given
    )


def frozen(row: Row) -> tuple[Any, ...]:
    """A row that compares equal to another one exactly if all bits are equal."""
    return tuple(
        (name, value.hex() if isinstance(value, float) else repr(value))
        for name, value in sorted(row.items())
    )


@dataclass
class Model:
    """rows: in the order of their commits. appended: those of each append, by snapshot. at: rows by snapshot."""

    rng: random.Random
    rows: list[Row] = field(default_factory=list)
    appended: dict[int, list[Row]] = field(default_factory=dict)
    at: dict[int, list[Row]] = field(default_factory=dict)
    names: list[str] = field(default_factory=lambda: list(COLUMNS))
    next_n: int = 0

    def drawn_rows(self, columns: Sequence[str]) -> list[Row]:
        """New rows with these columns, any bits."""
        rows = [self._drawn_row(columns) for _ in range(self.rng.choice([1, 2, 7, 40]))]
        self.next_n += len(rows)
        return rows

    def _drawn_row(self, columns: Sequence[str]) -> Row:
        rng = self.rng
        values: Row = {
            "p": rng.choice([None, 0, 1, 2]),
            "n": rng.choice([rng.getrandbits(63), -rng.getrandbits(63), rng.randrange(20)]),
            "s": rng.choice([None, *_TEXTS, f"t{rng.randrange(9)}"]),
            "d": rng.choice([None, *_DOUBLES, rng.uniform(-9, 9)]),
            "l": rng.choice([None, [], [1, None], [7]]),
        }
        more = {
            name: rng.choice([None, rng.randrange(5)]) for name in columns if name not in values
        }
        return {name: (values | more)[name] for name in columns}

    def whole(self, row: Row) -> Row:
        return {name: row.get(name) for name in self.names}

    def condition(self) -> Condition:
        """A condition in SQL, and the same in Python: SQL's null is no match, NaN is the largest number."""
        rng = self.rng
        usual: Row = {"n": 1, "s": "a", "p": 1, "d": 1.0}
        some = rng.choice(self.rows) if self.rows else usual
        n, p = some["n"], some["p"] if some["p"] is not None else 1
        text = some["s"] or "a"
        number = some["d"] if some["d"] is not None and math.isfinite(some["d"]) else 0.5
        choices: list[Condition] = [
            (f"n = {n}", lambda row: row["n"] == n),
            (f"n < {n}", lambda row: row["n"] < n),
            (f"s = '{text}'", lambda row: row["s"] == text),
            (f"s >= '{text}'", lambda row: row["s"] is not None and _utf8(row["s"]) >= _utf8(text)),
            ("s IS NULL", lambda row: row["s"] is None),
            (f"p = {p}", lambda row: row["p"] == p),
            (f"p = {p} AND n > {n}", lambda row: row["p"] == p and row["n"] > n),
            (f"d > {number!r}", lambda row: _is_above(row["d"], number)),
            (
                f"d <= {number!r} OR n = {n}",
                lambda row: (
                    row["n"] == n or (row["d"] is not None and not _is_above(row["d"], number))
                ),
            ),
            ("false", lambda row: False),
        ]
        return rng.choice(choices)

    def matching(self, condition: Condition) -> list[Row]:
        return [row for row in self.rows if condition[1](row)]

    def note(self, snapshot_id: int | None, new: list[Row] | None = None) -> None:
        """Remember what a snapshot has. new: rows that it appended."""
        if snapshot_id is not None:
            self.at[snapshot_id] = list(self.rows)
            if new:
                self.appended[snapshot_id] = new


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_above(value: float | None, bound: float) -> bool:
    return value is not None and (math.isnan(value) or value > bound)


def rows_of(table: pa.Table) -> list[Row]:
    return list(table.to_pylist())


def check(table: wt.Table, model: Model, kind: str) -> None:
    """The table has the rows of the model, in their order where it has one."""
    actual = rows_of(table.scan().to_arrow())
    expected = [model.whole(row) for row in model.rows]
    assert Counter(map(frozen, actual)) == Counter(map(frozen, expected))
    assert table.scan().count() == len(expected)
    if "buckets" in kind:
        for place in {(row["p"], row["s"], _second(row, kind)) for row in expected}:
            ours, theirs = (
                [frozen(row) for row in rows if (row["p"], row["s"], _second(row, kind)) == place]
                for rows in (actual, expected)
            )
            assert ours == theirs, f"the order of {place}"


def _second(row: Row, kind: str) -> Any:
    return row["n"] if "vectors" in kind else None
