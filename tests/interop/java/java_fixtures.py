"""Makes tests/fixtures/wh_others and others.json: small tables as others make them, by Paimon's Java.

`python -m tests.interop.java.java_fixtures` with Maven and a JDK at hand writes both anew. others.json has, for each
table (and branch), the rows that Java reads from the newest snapshot and from each one before, as
`plain_rows.python_rows` gives them, by `plain`. What each table is for stands at the function that makes it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks.rival import NEWEST, jar
from tests.interop.java.java_process import JavaProcess, JavaTable
from tests.interop.test_pypaimon import ALL_TYPES
from tests.support.models.plain_rows import plain, python_rows
from tests.support.tables.fixture_tables import ROOT
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.schema.type_text import type_from_text
from widetable.schema.types import type_to_json
from widetable.schema.types_from_arrow import type_from_arrow

WAREHOUSE: Final = ROOT / "wh_others"
_DATABASE: Final = WAREHOUSE / "others.db"
_VECTORS: Final = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "10"}
# Compactions leave older runs alone, however small they are.
_NEW_RUNS_ONLY: Final = {
    "compaction.max-size-amplification-percent": "1000000",
    "compaction.size-ratio": "-99",
}
_K_V: Final = {"k": "INT NOT NULL", "v": "STRING"}
# The index of keys of a table whose key is without the partition columns lies in it while Java writes.
_ROCKSDB: Final = ("com.ververica", "frocksdbjni", "6.20.3-ververica-2.0")
Record = tuple[Any, ...]
_MADE: list[Callable[[JavaProcess], Iterable[JavaTable]]] = []


def makes(make: Callable[[JavaProcess], Iterable[JavaTable]]) -> Any:
    _MADE.append(make)
    return make


def main() -> None:
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        java = JavaProcess(Path(folder), [jar(*_ROCKSDB)])
        for make in _MADE:
            found += [described(table) for table in make(java)]
        java.close()
    about = json.dumps({"writer": f"Paimon Java {NEWEST}"})[1:-1]
    lines = ",\n".join(json.dumps(table, ensure_ascii=False) for table in found)
    text = f'{{{about}, "tables": [\n{lines}\n]}}'
    (ROOT / "others.json").write_text(text + "\n", "utf-8")


def described(table: JavaTable) -> dict[str, Any]:
    """What Java reads."""
    snapshots = sorted(int(p.name[9:]) for p in table.folder.glob("snapshot/snapshot-*"))
    by_id = {str(i): rows_of(table.read({"scan.snapshot-id": str(i)})) for i in snapshots}
    about = {"table": table.path.name, "branch": table.branch}
    return {**about, "rows": rows_of(table.read()), "rows_by_snapshot": by_id}


def rows_of(rows: pa.Table) -> list[Any]:
    return sorted((plain(row) for row in python_rows(rows)), key=json.dumps)


def create(java: JavaProcess, name: str, columns: Mapping[str, Any], **how: Any) -> JavaTable:
    options = {"bucket": "1", "manifest.compression": "zstd", **how.pop("options", {})}
    return JavaTable.create(java, _DATABASE / name, columns, options=options, **how)


def write(table: JavaTable, *records: Record, options: Mapping[str, str] | None = None) -> None:
    """One commit, compaction included; a record is its values, in front of them perhaps its kind."""
    names = table.arrow_schema.names
    rows = [record if len(record) > len(names) else ("+I", *record) for record in records]
    columns: dict[str, Any] = {ROW_KIND_COLUMN: pa.array([row[0] for row in rows], pa.string())}
    for position, field in enumerate(table.arrow_schema, start=1):
        columns[field.name] = pa.array([row[position] for row in rows], field.type)
    table.write(pa.table(columns), options={**_NEW_RUNS_ONLY, **(options or {})})


def numbered(ids: Iterable[int], text: str) -> list[Record]:
    return [(i, f"{text}{i}") for i in ids]


@makes
def deletion_vectors(java: JavaProcess) -> Iterable[JavaTable]:
    """Primary keys: levels above the bottom, whose rows are marked in those below; deletes; 32 and 64 bits."""
    for name, options in {
        "dv": {},
        "dv64": {"deletion-vectors.bitmap64": "true"},
        "dv_orc": {"file.format": "orc"},
        "dv_avro": {"file.format": "avro"},
        "dv_lookup": {"changelog-producer": "lookup"},
        "dv_dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "12"},
    }.items():
        table = create(java, name, _K_V, key=["k"], options={**_VECTORS, **options})
        write(table, *numbered(range(20), "a"))
        write(table, *numbered([3, 5, 21], "b"))
        write(table, ("-D", 7, "a7"), ("-D", 5, "b5"), (3, "c3"))
        write(table, (7, "d7"), (19, "d19"), (22, "d22"))
        yield table


@makes
def deletion_vectors_and_level_0(java: JavaProcess) -> Iterable[JavaTable]:
    """The same, then a commit that nothing has compacted: Java's batch reads pass its rows over."""
    table = create(java, "dv_level0", _K_V, key=["k"], options=_VECTORS)
    write(table, *numbered(range(10), "a"))
    write(table, *numbered([3, 5, 21], "b"))
    write(table, (3, "unseen"), (30, "unseen"), options={"write-only": "true"})
    yield table


@makes
def deletion_vectors_in_partitions(java: JavaProcess) -> Iterable[JavaTable]:
    """Two buckets in each of two partitions; one partition without any vector; then a full compaction of it all."""
    columns = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
    for name, last in (("dv_parts", False), ("dv_parts_compacted", True)):
        table = create(
            java,
            name,
            columns,
            key=["p", "k"],
            partition_by=["p"],
            options={**_VECTORS, "bucket": "2"},
        )
        write(table, *((p, k, f"a{k}") for p in ("x", "y", "z") for k in range(12)))
        write(table, *((p, k, f"b{k}") for p in ("x", "y") for k in (2, 3, 4, 12)))
        write(table, ("-D", "x", 3, "b3"), ("-D", "y", 5, "a5"), ("x", 13, "c13"))
        if last:
            table.compact(full=True)
        yield table


@makes
def deletion_vectors_of_engines(java: JavaProcess) -> Iterable[JavaTable]:
    """Rows that partial updates and functions fill, in every level whole."""
    columns = {"k": "INT NOT NULL", "a": "STRING", "b": "BIGINT", "s": "INT"}
    for name, options in {
        "dv_partial": {"merge-engine": "partial-update"},
        "dv_partial_groups": {
            "merge-engine": "partial-update",
            "fields.s.sequence-group": "a,b",
            "partial-update.remove-record-on-sequence-group": "s",
        },
        "dv_aggregation": {
            "merge-engine": "aggregation",
            "fields.b.aggregate-function": "sum",
            "fields.default-aggregate-function": "last_non_null_value",
        },
        "dv_first_row": {"merge-engine": "first-row", "ignore-delete": "true"},
    }.items():
        vectors = {} if name == "dv_first_row" else _VECTORS
        table = create(java, name, columns, key=["k"], options={**vectors, **options})
        write(table, *((k, f"a{k}", k, 1) for k in range(12)))
        write(table, (2, None, 7, 2), (3, "b3", None, 2), (12, "b12", 1, 2), (4, "late", 9, 0))
        write(table, (3, None, 5, 3), (13, None, None, 3))
        if name in ("dv_partial_groups", "dv_aggregation"):
            write(table, ("-D" if "groups" in name else "-U", 2, None, 2, 4))
        yield table


@makes
def other_formats(java: JavaProcess) -> Iterable[JavaTable]:
    """Every column type in several runs and levels, as ORC and as Avro; nulls and the ends of types meet in merges."""
    left_out = {"orc": (), "avro": ("c_ts9",)}
    for file_format, absent in left_out.items():
        for engine in ("deduplicate", "partial-update"):
            columns: dict[str, Any] = {"k": "INT NOT NULL"}
            types = {name: held for name, held in ALL_TYPES.items() if name not in absent}
            for name, (kind, _) in types.items():
                columns[name] = type_to_json(type_from_arrow(kind))
            table = create(
                java,
                f"types_{file_format}_{engine.partition('-')[0]}",
                columns,
                key=["k"],
                options={
                    "file.format": file_format,
                    "merge-engine": engine,
                    "write-only": "true",
                    "num-levels": "4",
                },
            )
            for shift in range(5):
                rows = zip(
                    *(v[shift % 3 :] + v[: shift % 3] for _, v in types.values()), strict=True
                )
                write(table, *((shift + k, *row) for k, row in enumerate(rows)))
                if shift == 1:
                    table.compact(full=True)
                if shift == 3:
                    options = {"num-sorted-run.compaction-trigger": "2"}
                    table.compact(full=False, options={**_NEW_RUNS_ONLY, **options})
            yield table


@makes
def mixed_formats(java: JavaProcess) -> Iterable[JavaTable]:
    """A format per level, and one that was altered."""
    options = {"file.format.per.level": "0:avro,5:parquet", "file.format": "orc"}
    table = create(java, "mixed_formats", _K_V, key=["k"], options=options)
    write(table, *numbered(range(6), "a"))
    table.compact(full=True)
    write(table, *numbered([2, 7], "b"), options={"write-only": "true"})
    table.ask("alter", changes=[["set", "file.format.per.level", "0:parquet"]])
    write(table, *numbered([3, 8], "c"), options={"write-only": "true"})
    yield table


_ROW: Final = "ROW<a INT, b STRING>"
_NESTED: Final = {
    "k": "INT NOT NULL",
    "v": _ROW,
    "l": f"ARRAY<{_ROW}>",
    "m": f"MAP<STRING, {_ROW}>",
    "n": f"MAP<INT, ARRAY<{_ROW}>>",
}
_ROWS: Final = ("v", "l.element", "m.value", "n.value.element")


@makes
def nested_columns(java: JavaProcess) -> Iterable[JavaTable]:
    """Fields that came, went, came again, were renamed and widened, in files of each format: one at the bottom, two
    above.
    """
    for kind in ("parquet", "orc", "avro"):
        types = {name: type_to_json(type_from_text(text)) for name, text in _NESTED.items()}
        table = create(java, f"{kind}_nested", types, key=["k"])
        how = {"file.format": kind, "write-only": "true"}
        write(table, *nested_records(range(6), {"a": 1, "b": "x"}), options=how)
        table.compact(full=True, options=how | {"write-only": "false"})
        table.alter({"add_columns": [pa.field(f"{row}.c", pa.int64()) for row in _ROWS]})
        table.alter({"rename_columns": {f"{row}.b": "text" for row in _ROWS}})
        table.alter({"change_types": {f"{row}.a": pa.int64() for row in _ROWS}})
        row = {"a": 2**40, "text": "y", "c": -1}
        write(table, *nested_records([1, 2, 7], row), options=how)
        table.alter({"drop_columns": [f"{row}.a" for row in _ROWS]})
        table.alter({"add_columns": [pa.field(f"{row}.a", pa.string()) for row in _ROWS]})
        table.alter({"change_types": {f"{row}.c": pa.float64() for row in _ROWS}})
        row = {"text": "z", "c": 0.5, "a": "new"}
        write(table, *nested_records([2, 3, 8], row), options=how)
        yield table


def nested_records(keys: Iterable[int], row: dict[str, Any]) -> list[Record]:
    """Of the columns of `_NESTED`, nulls at every depth among them."""
    empty = dict.fromkeys(row)
    full: Record = (row, [row, None, empty], [("p", row)], [(1, [row, None])])
    half: Record = (empty, [], [("q", None)], [(2, [])])
    nulls: Record = (None, None, None, None)
    return [(key, *(full, half, nulls)[key % 3]) for key in keys]


@makes
def append_tables(java: JavaProcess) -> Iterable[JavaTable]:
    """No key: with and without buckets, partitions, and rows deleted by vectors; equal rows stay."""
    columns = {"p": "INT", "v": "STRING"}
    unaware, fixed = {"bucket": "-1"}, {"bucket": "2", "bucket-key": "v"}
    vectors = {"deletion-vectors.enabled": "true"}
    wide = {**vectors, "deletion-vectors.bitmap64": "true"}
    for name, options, parts in (
        ("append", unaware, []),
        ("append_orc", {**unaware, "file.format": "orc"}, []),
        ("append_avro", {**unaware, "file.format": "avro"}, []),
        ("append_parts", unaware, ["p"]),
        ("append_bucket", fixed, []),
        ("append_bucket_parts", fixed, ["p"]),
        ("append_dv", {**unaware, **vectors}, []),
        ("append_dv64_parts", {**unaware, **wide}, ["p"]),
        ("append_bucket_dv", {**fixed, **vectors}, []),
    ):
        table = create(java, name, columns, partition_by=parts, options=options)
        for number in range(3):
            write(table, *((k % 3, f"v{number}{k}") for k in range(6)), (None, "same"))
        if "dv" in name:
            table.ask("delete", column="v", values=["v01", "v12", "v15"])
            table.ask("delete", column="v", values=["v02"])
            write(table, (9, "new"))
        yield table


@makes
def branches(java: JavaProcess) -> Iterable[JavaTable]:
    """A branch from a tag with a column more and snapshots of its own; one that is empty; the main one goes on."""
    table = create(java, "branched", _K_V, key=["k"], options={})
    write(table, *numbered(range(5), "a"))
    table.ask("tag", name="t1")
    write(table, *numbered([1, 6], "main"))
    table.ask("branch", name="side", tag="t1")
    table.ask("branch", name="empty")
    side = JavaTable(java, table.path, "side")
    side.ask("alter", changes=[["add", ["w"], "BIGINT"], ["rename", ["v"], "text"]])
    write(side, (1, "side", 10), (7, "side", None))
    write(side, ("-D", 2, "a2", None))
    write(table, *numbered([8], "main"))
    yield from (table, side)


@makes
def cross_partition(java: JavaProcess) -> Iterable[JavaTable]:
    """The key is without the partition column: a key that comes with another one moves, stays, or is passed over."""
    columns = {"k": "INT NOT NULL", "p": "STRING", "v": "STRING"}
    for engine in ("deduplicate", "partial-update", "first-row"):
        table = create(
            java,
            f"cross_{engine.replace('-', '_')}",
            columns,
            key=["k"],
            partition_by=["p"],
            options={
                "bucket": "-1",
                "merge-engine": engine,
                "dynamic-bucket.target-row-num": "3",
            },
        )
        write(table, *((k, "xyz"[k % 3], f"a{k}") for k in range(9)))
        write(table, (1, "z", "b1"), (2, "z", "b2"), (3, "x", None), (9, "w", "b9"))
        write(table, (1, "x", "c1"), (10, "x", "c10"))
        if engine == "deduplicate":
            write(table, ("-D", 4, "y", "a4"))
        yield table


@makes
def other_buckets(java: JavaProcess) -> Iterable[JavaTable]:
    """Dynamic buckets; postponed ones, whose rows nobody sees before a compaction brings them into buckets."""
    table = create(
        java,
        "dynamic",
        _K_V,
        key=["k"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
    )
    write(table, *numbered(range(9), "a"))
    write(table, *numbered([3, 20, 21], "b"))
    postponed = create(java, "postponed", _K_V, key=["k"], options={"bucket": "-2"})
    write(postponed, *numbered(range(4), "a"))
    yield from (table, postponed)


if __name__ == "__main__":
    main()
