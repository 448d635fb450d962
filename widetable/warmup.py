"""Compiles the kernels into their cache, for example when an image is built, so that later processes need not.

Kernels are compiled for the types of their arguments. So tables of many types are made in a temporary directory, with
writes of some columns, deletes, changelogs from local caches and from scans, compactions, scans and lookups. Bytes of
ORC, which only other clients write, are decoded too. The first process that needs another kernel compiles it.

Raises StorageError when there is no directory for the cache, OSError without a temporary directory, and the errors of
tables.

    table of one key column    of each type: key lanes, hashes and binary rows of that type
    scan strategy              before-images from data files; the others take them from local caches
    three key columns          keys of several lanes; two sequence groups, one of two columns; removals

All have columns of all types besides the key, so that gathering and statistics use each type.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable.catalog import Catalog
from widetable.derive.versions.as_of import last_until, settled
from widetable.errors import StorageError
from widetable.format.manifest_file import read_manifest
from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.compiler import COMPILER
from widetable.kernels.jit import Kernel
from widetable.kernels.lz4_block import lz4_block
from widetable.kernels.orc_runs import unsigned_runs
from widetable.operations.windows.window import window
from widetable.storage.temporary_directory import temporary_directory
from widetable.table import Table

# Enough for several files, merges and deletes: types matter here, not amounts. At most 60, because a number is the
# second of a time.
_ROWS: Final = 40
_NOW: Final = datetime(2026, 1, 2)
# Type -> the value for a number. Texts have a long prefix, followed by texts of different lengths.
_VALUES: Final[dict[pa.DataType, Callable[[int], Any]]] = {
    pa.bool_(): lambda n: n % 2 == 0,
    pa.int8(): int,
    pa.int16(): int,
    pa.int32(): int,
    pa.int64(): int,
    pa.float32(): float,
    pa.float64(): float,
    pa.timestamp("us"): lambda n: _NOW.replace(second=n),
    pa.decimal128(12, 2): lambda n: Decimal(n).scaleb(-2),
    pa.decimal128(38, 10): lambda n: Decimal(n).scaleb(-2),
    pa.string(): lambda n: "prefix" * 20 + "text" * 20 * (n % 3) + f"{n}",
    pa.list_(pa.field("element", pa.int32())): lambda n: [n] * (n % 3),
    pa.struct([("x", pa.int32()), ("y", pa.string())]): lambda n: {"x": n, "y": "b"},
}
# (types of the key, options). A boolean key would allow only two rows, and nested types cannot be keys.
_TABLES: Final[Sequence[tuple[Sequence[pa.DataType], dict[str, str]]]] = (
    *(
        ((kind,), {"merge-engine": "partial-update", "widetable.lookup-strategy": "lookup"})
        for kind in _VALUES
        if not pa.types.is_nested(kind) and kind != pa.bool_()
    ),
    ((pa.int64(),), {"widetable.lookup-strategy": "scan", "ignore-delete": "true"}),
    (
        (pa.string(), pa.timestamp("us"), pa.int32()),
        {
            "merge-engine": "partial-update",
            "fields.x.sequence-group": ",".join(f"v{n}" for n in range(0, len(_VALUES), 2)),
            "fields.y,y_too.sequence-group": ",".join(f"v{n}" for n in range(1, len(_VALUES), 2)),
            "partial-update.remove-record-on-sequence-group": "x",
        },
    ),
)


@dataclass(frozen=True)
class Warmth:
    """The result of a warm-up. kernels: how many were called. compiled: how many compilations were not in the cache, 0
    with a warm cache. directories: the cache.
    """

    kernels: int
    compiled: int
    directories: tuple[str, ...]


def warm_up(exercises: Sequence[Callable[[Catalog], None]] = ()) -> Warmth:
    """Fill the cache of this installation. Run it in a separate process: it interprets no kernel there afterwards.

    exercises: call the kernels of other packages; each gets a temporary catalog.

    It also sets WIDETABLE_CACHE_DIR for the process, to a directory that is deleted when it returns: lookup caches of
    these tables must not take space from those of the host.
    """
    Kernel.interprets = False
    root = temporary_directory("for the tables of the warm-up")
    with tempfile.TemporaryDirectory(prefix="widetable-warmup-", dir=root) as folder:
        os.environ["WIDETABLE_CACHE_DIR"] = f"{folder}/caches"
        catalog = Catalog(folder)
        for number, (kinds, options) in enumerate(_TABLES):
            _exercise(_new_table(catalog, f"warmup.t{number}", kinds, options))
        _exercise_windows(catalog)
        for exercise in exercises:
            exercise(catalog)
    _decode_foreign()
    _search_versions()
    return _warmth()


# A lookup changelog, so that each write after the first has before-images. Two buckets, so that rows are split.
def _new_table(
    catalog: Catalog, name: str, kinds: Sequence[pa.DataType], options: dict[str, str]
) -> Table:
    keys = {f"k{at}": kind for at, kind in enumerate(kinds)}
    values = {f"v{at}": kind for at, kind in enumerate(_VALUES)}
    fields = pa.schema({**keys, **values, "x": pa.int64(), "y": pa.int32(), "y_too": pa.string()})
    always = {"bucket": "2", "changelog-producer": "lookup", "widetable.fsync": "false"}
    return catalog.create_table(name, fields, primary_key=list(keys), options={**always, **options})


def _exercise(table: Table) -> None:
    """Write full rows, halves of the columns by two writers, compact in full, write rows whose before-images are looked
    up, delete where the engine accepts deletes, then read in all ways.
    """
    names = table.arrow_schema.names
    keys = [name for name in names if name.startswith("k")]
    odd = [name for name in names if name.startswith("v") and int(name[1:]) % 2]
    one_half = [*keys, *odd, "y", "y_too"]
    other_half = [name for name in names if name in keys or name not in one_half]
    some, others = range(0, _ROWS, 2), range(_ROWS // 2, _ROWS)
    table.write(_rows(table, names, some))
    table.write(_rows(table, one_half, others))
    table.write(_rows(table, other_half, others))
    table.compact(full=True)
    table.write(_rows(table, names, others))
    options = table.schema.options
    if "fields.x.sequence-group" in options or "merge-engine" not in options:  # accepts deletes
        gone = _rows(table, names, some)
        gone = gone.filter(gone["x"].is_valid())  # a -D without a sequence is refused
        table.write(gone.append_column("_row_kind", pa.array(["-D"] * gone.num_rows)))
    table.scan().to_arrow()
    table.lookup(_rows(table, keys, range(_ROWS)))
    table.changes(0, table.snapshots()[-1].id)
    for manifest in Path(table.path, "manifest").glob("manifest-[!l]*-0"):  # no manifest lists
        read_manifest(
            manifest.read_bytes(), str(manifest)
        )  # open tables already have what they wrote


def _exercise_windows(catalog: Catalog) -> None:
    """Ask a table of tiles for exact sums, sums of floats, and extremes."""
    options = {
        "merge-engine": "aggregation",
        "bucket": "1",
        "bucket-key": "k",
        "widetable.fsync": "false",
        "fields.default-aggregate-function": "sum",
        "fields.top.aggregate-function": "max",
    }
    values = {"amount": pa.decimal128(38, 0), "spent": pa.float64(), "top": pa.int64()}
    fields = pa.schema({"k": pa.int64(), "tile": pa.timestamp("us"), **values})
    table = catalog.create_table("warmup.tiles", fields, primary_key=["k", "tile"], options=options)
    names = {"tile": [_NOW], "amount": [Decimal(1)], "spent": [1.0], "top": [1]}
    table.write(pa.table({"k": [1], **names}, schema=fields))
    features = {name: window(name, "max" if name == "top" else "sum", "1 s") for name in values}
    table.windows(pa.table({"k": [1], "at": [_NOW]}), "at", features=features)


def _decode_foreign() -> None:
    """Decode what ORC files of other clients need: numbers in runs (one, three times), a chunk of LZ4 (one letter)."""
    unsigned_runs(frozen(np.frombuffer(b"\x00\x01", np.uint8)), 3)
    lz4_block(frozen(np.frombuffer(b"\x10a", np.uint8)), 1)


def _search_versions() -> None:
    """Find a version as of a time, as point-in-time reads of a history do."""
    one = np.ones(1, np.int64)
    last_until(settled(one, one - 1, one), one - 1, one, one)


def _rows(table: Table, names: Sequence[str], numbers: range) -> pa.Table:
    """Return a row for each number, whose values derive from the number. Each seventh is null in nullable columns."""
    fields = pa.schema([table.arrow_schema.field(name) for name in names])
    columns = [
        [_VALUES[field.type](n) if n % 7 or not field.nullable else None for n in numbers]
        for field in fields
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)],
        schema=fields,
    )


def _warmth() -> Warmth:
    """Return what numba reports about the kernels: the directory of each, and its cache misses."""
    kernels = COMPILER.dispatchers
    directories = {kernel.stats.cache_path for kernel in kernels}
    if None in directories:
        raise StorageError(
            "the cache of compiled kernels",
            found="no directory that can be written to",
            expected="a directory that can be written to",
            action="Set NUMBA_CACHE_DIR to a directory that later processes have, too.",
        )
    return Warmth(
        len(kernels),
        sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels),
        tuple(sorted(filter(None, directories))),
    )
