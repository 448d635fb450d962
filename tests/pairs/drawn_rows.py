"""The one small table of all scenarios, under any merge engine, and the batches that are written to it.

Values are few, so that records meet: two partitions, four keys. Columns are known by the names that they begin with,
whatever they are called later: `Names` says what they are called now.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tests.support.models.model import Record, Row
from tests.support.models.strategies import Commit

COLUMNS: Final = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.int64()),
        pa.field("a", pa.int32()),
        pa.field("b", pa.string()),
        pa.field("r", pa.int64()),
        pa.field("c", pa.int32()),
        pa.field("t", pa.timestamp("us", "UTC")),
    ]
)
KEY: Final = ("p", "k")
KEYS: Final = tuple({"p": p, "k": k} for p in (1, 2) for k in (0, 1))
_GROUPS: Final = {"fields.s.sequence-group": "a,b", "fields.r.sequence-group": "c"}
_FOLDS: Final = {
    "fields.default-aggregate-function": "last_non_null_value",
    "fields.a.aggregate-function": "sum",
    "fields.c.aggregate-function": "max",
}
_PARTIAL: Final = {"merge-engine": "partial-update"}
_AGGREGATION: Final = {"merge-engine": "aggregation", **_FOLDS}
ENGINES: Final[Mapping[str, Mapping[str, str]]] = {
    "deduplicate": {"merge-engine": "deduplicate"},
    "deduplicate by order": {"merge-engine": "deduplicate", "sequence.field": "s"},
    "partial-update": _PARTIAL,
    "partial-update by order": {**_PARTIAL, "sequence.field": "s"},
    "groups": {**_PARTIAL, **_GROUPS},
    "groups that remove": {
        **_PARTIAL,
        **_GROUPS,
        "partial-update.remove-record-on-sequence-group": "s",
    },
    "partial-update that removes": {**_PARTIAL, "partial-update.remove-record-on-delete": "true"},
    "aggregation": _AGGREGATION,
    "aggregation that removes": {**_AGGREGATION, "aggregation.remove-record-on-delete": "true"},
    "first-row": {"merge-engine": "first-row"},
    "append": {},
}
# What may be written without the others; an engine of whole rows has null in what is not.
_TOGETHER: Final = (("s", "a", "b"), ("r", "c"))
# -U takes nothing back there, or means what no oracle knows.
_UPDATES_BEFORE: Final = ("deduplicate", "deduplicate by order", "groups")


@dataclass
class Names:
    """What columns are called now; a column that was dropped is not there."""

    of: dict[str, str] = field(default_factory=lambda: {name: name for name in COLUMNS.names})

    def rename(self, renamed: Mapping[str, str]) -> None:
        """Old names to new ones, all at once."""
        self.of = {column: renamed.get(name, name) for column, name in self.of.items()}

    def now(self, row: Row) -> Row:
        """A row under the names of now, without what was dropped."""
        return {self.of[name]: value for name, value in row.items() if name in self.of}


def batch(rng: random.Random, engine: str, names: Names, *, retracts: bool) -> Commit:
    """What one writer commits: some records of some columns. retracts: records of -D and -U are among them."""
    columns = _columns(rng, engine, retracts=retracts)
    kinds = ["+I"] if engine == "append" else ["+I", "+I", "+U"]
    if retracts:
        kinds.append("-D")
        if engine in _UPDATES_BEFORE:
            kinds.append("-U")
    records: list[Record] = []
    for _ in range(rng.randint(1, 6)):
        row = {**rng.choice(KEYS), **{n: _value(rng, engine, n) for n in columns if n not in KEY}}
        records.append((rng.choice(kinds), names.now(row)))
    return Commit(tuple(names.of[n] for n in columns if n in names.of), tuple(records))


def condition_on_values(
    rng: random.Random, names: Names, rows: Sequence[Row]
) -> tuple[str, list[Row]]:
    """A condition on columns that are not the key, in SQL, and the rows that it is true of."""
    a, b, c = (names.of[name] for name in "abc")
    number, text = rng.randint(0, 6), rng.choice(["", "x", "y"])
    choices: list[tuple[str, Callable[[Row], bool]]] = [
        (f"{c} = {number}", lambda row: row[c] == number),
        (f"{a} in ({number}, 2)", lambda row: row[a] in (number, 2)),
        (f"{b} = '{text}'", lambda row: row[b] == text),
        (f"{b} is null", lambda row: row[b] is None),
        (f"{b} <> '{text}'", lambda row: row[b] not in (text, None)),
        (f"{a} = {number} and k = 1", lambda row: row[a] == number and row["k"] == 1),
        (f"{a} = {number} or {b} = '{text}'", lambda row: row[a] == number or row[b] == text),
    ]
    condition, applies = rng.choice(choices)
    return condition, [row for row in rows if applies(row)]


def _columns(rng: random.Random, engine: str, *, retracts: bool) -> list[str]:
    """A -D without any sequence would change nothing, and is refused."""
    if engine == "first-row" or engine.startswith("deduplicate"):
        return list(COLUMNS.names)
    has_groups = engine.startswith("groups")
    wanted = {*KEY, "s" if engine == "partial-update by order" or not has_groups else "k"}
    always = rng.choice(_TOGETHER) if has_groups and retracts else ()
    for together in _TOGETHER:
        if together == always or rng.random() < 0.7:
            wanted |= set(together if has_groups else rng.sample(together, 1))
    wanted |= {name for name in ("t", "new") if rng.random() < 0.6}
    if "new" in wanted:
        return [*(name for name in COLUMNS.names if name in wanted), "new"]
    return [name for name in COLUMNS.names if name in wanted]


def _value(rng: random.Random, engine: str, name: str) -> int | str | None:
    is_order = name in ("s", "r")
    if rng.random() < 0.2 and not (is_order and engine.startswith("groups")):
        return None
    if name in ("b", "new"):
        return rng.choice(["", "x", "\u00e9\u20ac"])
    if name == "t":
        return rng.choice([-1, 0, 1_711_846_800_000_000])
    return rng.randint(0, 5)
