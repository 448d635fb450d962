"""A text and a binary that are much longer than anything else go every way that short ones go, bit for bit.

WIDETABLE_LONG_VALUE: their bytes (default 1 MB).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from tests.support.programs.tallies import Note

LONG = int(os.environ.get("WIDETABLE_LONG_VALUE", "1000000"))
SCHEMA = pa.schema(
    [pa.field("k", pa.string(), nullable=False), ("t", pa.string()), ("b", pa.binary())]
)


def value_of(rng: random.Random, row: int) -> tuple[str, bytes]:
    """A text that does not repeat soon, characters of up to four bytes; a binary that does not compress."""
    text = "".join(chr(rng.choice((0x41, 0xE4, 0x20AC, 0x1D11E)) + row) for _ in range(1000))
    return text * (LONG // len(text.encode()) + 1), rng.randbytes(LONG)


def test_long_values_go_every_way(rng: random.Random, tmp_path: Path, tally: Note) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        SCHEMA,
        primary_key=["k"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "changelog-producer": "lookup",
            "widetable.fsync": "false",
        },
    )
    texts, binaries = zip(*(value_of(rng, row) for row in range(2)), strict=True)
    keys = ["k" * 50_000, "short"]
    table.write(pa.table({"k": keys, "t": texts}))
    table.write(pa.table({"k": keys, "b": pa.array(binaries, pa.binary())}))
    expected = pa.table({"k": keys, "t": texts, "b": pa.array(binaries, pa.binary())}, SCHEMA)

    def check() -> None:
        assert table.scan().to_arrow().sort_by("k").equals(expected.sort_by("k"))
        found = table.lookup(pa.table({"k": keys}))
        assert [found[n].to_pylist() for n in SCHEMA.names] == [
            expected[n].to_pylist() for n in SCHEMA.names
        ]

    check()
    changes = table.changes(0, table.snapshots()[-1].id).filter(pc.field("_row_kind") == "+U")
    assert changes.drop_columns("_row_kind").sort_by("k").equals(expected.sort_by("k"))
    table.compact(full=True)
    check()
    report = table.audit()
    assert report.ok, report.findings
    tally(cases=1, bytes=LONG)
