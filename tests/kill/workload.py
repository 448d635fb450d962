"""The deterministic work of the kill test: what each writer sends in each batch, the table that must come out, and the
totals that a reader of its changelog keeps.

Writer w owns the group (s<w>; v<w>, n<w>). Its batch i holds random keys, sequence numbers that
mostly grow but are sometimes late, and sometimes null
values. Everything follows from (seed, writer, batch), so a replayed batch is the same batch.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

WRITERS, KEYS, ROWS = 4, 400, 60
# What is summed up per `k % 10` of the changes: rows, sequences, and how many values are not null.
TOTALS = ("rows", *(f"s{w}" for w in range(WRITERS)), *(f"v{w}" for w in range(WRITERS)))


def table_schema() -> pa.Schema:
    fields = [pa.field("k", pa.int64(), nullable=False)]
    for w in range(WRITERS):
        fields += [
            pa.field(f"s{w}", pa.int64()),
            pa.field(f"v{w}", pa.string()),
            pa.field(f"n{w}", pa.float64()),
        ]
    return pa.schema(fields)


def table_options() -> dict[str, str]:
    options = {
        "merge-engine": "partial-update",
        "changelog-producer": "lookup",
        "bucket": "2",
        "widetable.lookup-strategy": "lookup",  # caches of so few rows would not pay
    }
    return options | {f"fields.s{w}.sequence-group": f"v{w},n{w}" for w in range(WRITERS)}


def totals_schema() -> pa.Schema:
    fields = [pa.field(name, pa.int64()) for name in TOTALS]
    return pa.schema([pa.field("bucket", pa.int64(), nullable=False), *fields])


def signed_totals(changes: list[dict[str, Any]]) -> dict[int, dict[str, int]]:
    """What changes add to the totals: rows after count, rows before are taken off. Rows without a kind count."""
    added: dict[int, dict[str, int]] = {}
    for row in changes:
        sign = -1 if row.get("_row_kind", "+I") in ("-U", "-D") else 1
        of_bucket = added.setdefault(row["k"] % 10, dict.fromkeys(TOTALS, 0))
        of_bucket["rows"] += sign
        for w in range(WRITERS):
            of_bucket[f"s{w}"] += sign * (row[f"s{w}"] or 0)
            of_bucket[f"v{w}"] += sign * (row[f"v{w}"] is not None)
    return added


def totals_rows(totals: dict[int, dict[str, int]]) -> pa.Table:
    rows = [{"bucket": bucket, **values} for bucket, values in sorted(totals.items())]
    return pa.Table.from_pylist(rows, schema=totals_schema())


def batch(seed: int, writer: int, number: int) -> pa.Table:
    rng = random.Random(f"{seed} {writer} {number}")
    rows: list[dict[str, Any]] = []
    for key in rng.sample(range(KEYS), ROWS):
        sequence = number - rng.choice((0, 0, 0, 1, 3))
        value = None if rng.random() < 0.1 else f"{writer}/{number}/{key}"
        rows.append(
            {"k": key, f"s{writer}": sequence, f"v{writer}": value, f"n{writer}": rng.random()}
        )
    schema = table_schema()
    return pa.Table.from_pylist(
        rows, schema=pa.schema([schema.field(n) for n in ("k", *_group(writer))])
    )


def expected_rows(seed: int, batches: dict[int, int]) -> dict[int, dict[str, Any]]:
    """The table after `batches[w]` batches of every writer, by plain folding: a record wins when
    its sequence is >= the stored one.

    Writers own disjoint columns, so the order of commits between them does not matter.
    """
    table: dict[int, dict[str, Any]] = {}
    for writer, count in batches.items():
        for number in range(count):
            for row in batch(seed, writer, number).to_pylist():
                stored = table.setdefault(
                    row["k"], dict.fromkeys(table_schema().names) | {"k": row["k"]}
                )
                before = stored[f"s{writer}"]
                if before is None or row[f"s{writer}"] >= before:
                    stored.update(row)
    return table


def _group(writer: int) -> tuple[str, str, str]:
    return f"s{writer}", f"v{writer}", f"n{writer}"
