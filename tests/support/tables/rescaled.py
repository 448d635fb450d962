"""A table with few keys in three partitions, and what it must hold whatever buckets it gets."""

from __future__ import annotations

import random
from pathlib import Path

import widetable as wt

COLUMNS = {"p": "INT", "k": "BIGINT", "v": "BIGINT"}
Model = dict[tuple[int, int], int]


def create(folder: Path, partitioned: bool = True, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        COLUMNS,
        primary_key=["p", "k"],
        partition_by=["p"] if partitioned else [],
        options={
            "bucket": "2",
            "merge-engine": "partial-update",
            "widetable.fsync": "false",
            **options,
        },
    )


def write(table: wt.Table, model: Model, rng: random.Random) -> None:
    keys = [(rng.randint(0, 2), rng.randint(0, 50)) for _ in range(30)]
    value = rng.randint(0, 99)
    table.write({"p": [p for p, _ in keys], "k": [k for _, k in keys], "v": [value] * 30})
    model.update(dict.fromkeys(keys, value))


def rows(table: wt.Table) -> Model:
    found = table.scan().to_arrow()
    keys = zip(found["p"].to_pylist(), found["k"].to_pylist(), strict=True)
    return dict(zip(keys, found["v"].to_pylist(), strict=True))


def check(path: str, model: Model) -> None:
    table = wt.Table.open(path)
    assert rows(table) == model
    assert table.scan().count() == len(model)
    asked = [{"p": p, "k": k} for p in range(3) for k in range(51)]
    assert table.lookup(asked)["v"].to_pylist() == [model.get((a["p"], a["k"])) for a in asked]
    assert table.scan(filter="p = 1 and k in (3, 4, 5)").count() == sum(
        (1, k) in model for k in (3, 4, 5)
    )
    assert table.audit().findings == ()
