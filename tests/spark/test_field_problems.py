"""Field problems of Spark and of its sources that were tried here (docs/facts/field-problems.md), and stay held."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from tests.spark.reading.test_stream_reading import Batches, run
from widetable_spark.jobs.etl import _source_name

Rows = list[tuple[Any, ...]]


def new_table(folder: Path, columns: dict[str, str], **options: str) -> wt.Table:
    """Of key k and one bucket, in which nothing is compacted by itself."""
    kept = {"bucket": "1", "write-only": "true", "widetable.fsync": "false", **options}
    return wt.Catalog(folder).create_table(
        "db.t", {"k": "BIGINT NOT NULL", **columns}, primary_key=["k"], options=kept
    )


def save(frame: DataFrame, table: wt.Table) -> None:
    frame.write.format("widetable").mode("append").save(table.path)


def ways(spark: SparkSession, table: wt.Table, condition: str) -> list[DataFrame]:
    """Of the same rows."""
    return [
        widetable_spark.read(spark, table.path, where=condition),
        widetable_spark.read(spark, table.path).where(condition),
        spark.read.format("widetable").load(table.path).where(condition),
    ]


def found(frame: DataFrame, *columns: str) -> Rows:
    return sorted(tuple(row) for row in frame.selectExpr(*columns).collect())


# SPARK-46092, SPARK-34212: files of the old type behind a condition of the new one


def test_conditions_on_widened_columns_find_rows_of_all_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, {"i": "INT", "d": "DECIMAL(5, 2)", "f": "FLOAT"})
    table.write([{"k": k, "i": k, "d": Decimal(k) / 100, "f": k / 10} for k in (1, 2, 3)])
    table.compact(full=True)
    types = {"i": "BIGINT", "d": "DECIMAL(10, 3)", "f": "DOUBLE"}
    table = wt.Catalog(tmp_path).alter_table("db.t", change_types=types)
    table.write([{"k": 9, "i": 2**40, "d": Decimal("1234567.125"), "f": 1e301}])
    for _ in range(2):
        for condition, keys in (
            ("i < 9223372036854775807 AND i <> 4294967297", [1, 2, 3, 9]),
            ("i > 2147483648", [9]),
            ("d < 0.021", [1, 2]),
            ("f > 0.1", [1, 2, 3, 9]),
        ):
            frames = ways(spark, table, condition)
            assert [found(frame, "k") for frame in frames] == [[(k,) for k in keys]] * 3
        table.compact(full=True)


# SPARK-39833, SPARK-40169, SPARK-34314, SPARK-14993: partition columns are in the files, too, and in their paths


def test_texts_of_partitions_stay_and_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "p=1" / "a b%20{c}[d]"
    folder.mkdir(parents=True)
    columns = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}
    table = wt.Catalog(folder).create_table(
        "db.t",
        columns,
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": "1", "write-only": "true"},
    )
    texts = ["-0", "01", "1e3", "2024-01-01", "null"]
    table.write([{"p": text, "k": k, "v": k} for text in texts for k in range(2)])
    for _ in range(2):
        for frame in ways(spark, table, "p IN ('-0', '01', '1e3')"):
            assert found(frame.groupBy("p").count(), "p", "count") == [(t, 2) for t in texts[:3]]
            assert frame.select("v").count() == 6
        rows = widetable_spark.read(spark, table.path, ["v", "p"])
        assert found(rows.groupBy("p").count(), "p", "count") == [(text, 2) for text in texts]
        table.compact(full=True)


# SPARK-53535, SPARK-16371, SPARK-39393: nulls of structs, arrays and maps, names that are those of their parts


def test_nested_nulls_are_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"v": "ROW<v INT, w ROW<v INT>>", "l": "ARRAY<ROW<a INT>>", "m": "MAP<STRING, INT>"}
    table = new_table(tmp_path, columns)
    table.write(
        [
            {"k": 1, "v": {"v": 1, "w": {"v": None}}, "l": [{"a": 1}, None], "m": {"x": None}},
            {"k": 2, "v": {"v": None, "w": None}, "l": [], "m": {}},
            {"k": 3, "v": None, "l": None, "m": None},
        ]
    )
    nulls = [
        (1, False, False, 2, False, None),
        (2, False, True, 0, False, None),
        (3, True, True, None, True, None),
    ]
    shown = ("k", "v IS NULL", "v.w IS NULL", "size(l)", "m IS NULL")
    for state in ("merged", "compacted", "altered"):
        if state == "compacted":
            table.compact(full=True)
        elif state == "altered":
            added = {"v.z": "INT", "l.element.c": "INT"}
            table = wt.Catalog(tmp_path).alter_table("db.t", add_columns=added)
        part = "v.z" if state == "altered" else "v.w.v"
        frames = ways(spark, table, "k > 0")
        assert [found(frame, *shown, part) for frame in frames] == [nulls] * 3
        frames = ways(spark, table, "v IS NOT NULL AND l IS NOT NULL AND m IS NOT NULL")
        assert [found(frame, "k") for frame in frames] == [[(1,), (2,)]] * 3


# SPARK-45592, SPARK-28156, SPARK-47927: frames that are cached, joined with themselves, and null by an outer join


def test_a_frame_is_joined_with_itself_cached_and_by_keys_that_are_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, {"v": "INT NOT NULL"})
    table.write([{"k": k, "v": k % 7} for k in range(100)])
    for _ in range(2):
        frame = widetable_spark.read(spark, table.path)
        cached = frame.repartition(5, "k").cache()
        largest = cached.groupBy("k").agg({"v": "max"})
        assert largest.join(frame, "k").count() == cached.join(largest, "k").count() == 100
        named = frame.withColumnRenamed("k", "id")
        outer = spark.range(99, 101).join(named, "id", "left_outer")
        asked = outer.selectExpr("id", "CAST(v AS BIGINT) AS k")
        joined = widetable_spark.lookup_join(asked, table, ["k"])
        assert found(joined, "id", "k", "v") == [(99, 1, 1), (100, None, None)]
        cached.unpersist()
        table.compact(full=True)


# SPARK-43545: moments within structs, arrays and maps, in the hour that New York has twice


def test_nested_moments_are_those_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    kind = "TIMESTAMP_LTZ(6)"
    columns = {
        "z": kind,
        "r": f"ROW<z {kind}, w TIMESTAMP(6)>",
        "l": f"ARRAY<{kind}>",
        "m": f"MAP<STRING, {kind}>",
    }
    table = new_table(tmp_path, columns)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = spark.sql(
            "SELECT k, z, named_struct('z', z, 'w', TIMESTAMP_NTZ '2024-11-03 01:30:00') AS r, array(z) AS l, "
            "map('a', z) AS m FROM VALUES (5L, TIMESTAMP_LTZ '2024-11-03 05:30:00Z'), "
            "(6L, TIMESTAMP_LTZ '2024-11-03 06:30:00Z') t(k, z)"
        )
        save(rows, table)
        hour = 3_600_000_000
        first = int(datetime(2024, 11, 3, tzinfo=timezone.utc).timestamp()) * 1_000_000
        wall = datetime(2024, 11, 3, 1, 30)
        written = [(k, *[first + k * hour + hour // 2] * 4, wall) for k in (5, 6)]
        shown = ("k", *(f"unix_micros({x})" for x in ("z", "r.z", "l[0]", "m['a']")), "r.w")
        for _ in range(2):
            joined = widetable_spark.lookup_join(spark.range(5, 7).selectExpr("id k"), table, ["k"])
            for frame in (*ways(spark, table, "k > 0"), joined):
                assert found(frame, *shown) == written
            table.compact(full=True)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


# SPARK-20441, SPARK-22956, paimon#9666: a stream twice in a query, beside an idle one, with a batch that comes again


def test_a_union_of_streams_takes_each_row_once_for_each_time_that_it_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    busy, idle = (new_table(tmp_path / name, {"v": "INT"}) for name in ("busy", "idle"))
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    sums = new_table(tmp_path / "sums", {"v": "INT"}, **options)
    busy.write([{"k": 1, "v": 10}])
    idle.write([{"k": 2, "v": 1}])

    def take() -> None:
        streams = [spark.readStream.format("widetable").load(t.path) for t in (busy, idle)]
        frame = streams[0].union(streams[1]).union(streams[0]).where("k > 0 OR false")
        writer = frame.writeStream.format("widetable").option("path", sums.path)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    take()
    busy.write([{"k": 3, "v": 10}])
    take()
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    busy.write([{"k": 4, "v": 10}])
    take()
    assert sums.scan().to_arrow().to_pylist() == [
        {"k": k, "v": v} for k, v in ((1, 20), (2, 1), (3, 20), (4, 20))
    ]


# iceberg#18000, #10156: the snapshot that a stream began with has expired, its checkpoint went on


@pytest.mark.parametrize("mode", ["default", "from-snapshot"])
def test_a_stream_goes_on_after_what_it_began_with_has_expired(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    kept = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = new_table(tmp_path, {"v": "INT"}, **kept)
    options = {"scan.mode": mode}
    if mode == "from-snapshot":
        options["scan.snapshot-id"] = "1"
    batches = Batches()
    for first in (1, 5, 9):
        for k in range(first, first + 4):
            table.write([{"k": k, "v": k}])
        run(spark, table, tmp_path / "checkpoint", batches, options)
        table.expire_snapshots()
    assert sorted(k for k, _ in batches.all) == list(range(1, 13))


# SPARK-25132, SPARK-25207: names that Spark takes for one


@pytest.fixture
def twins(tmp_path: Path) -> wt.Table:
    """Two columns, and two fields of a ROW, whose names differ in case alone."""
    columns = {"Name": "STRING", "name": "STRING", "v": "INT", "r": "ROW<a INT, A INT>"}
    table = new_table(tmp_path, columns)
    table.write([{"k": 1, "Name": "a", "name": "b", "v": 1, "r": {"a": 2, "A": 3}}])
    return table


@pytest.mark.parametrize("state", ["merged", "compacted"])
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_columns_whose_names_differ_in_case_are_read(
    spark: SparkSession, twins: wt.Table, state: str, sensitive: str
) -> None:
    if state == "merged":
        twins.write([{"k": 2, "Name": "c"}])
    else:
        twins.compact(full=True)
    spark.conf.set("spark.sql.caseSensitive", sensitive)
    try:
        for columns, row in (
            (["k", "name"], (1, "b")),
            (["k", "Name"], (1, "a")),
            (["name", "Name", "k"], ("b", "a", 1)),
            (["k", "v"], (1, 1)),
            (["r", "k"], ((2, 3), 1)),
            (None, (1, "a", "b", 1, (2, 3))),
        ):
            frame = widetable_spark.read(spark, twins.path, columns, where="k = 1")
            assert [tuple(row) for row in frame.collect()] == [row]
        named = widetable_spark.read(spark, twins.path, ["k"], where="name = 'b'")
        assert found(named, "k") == [(1,)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


# SPARK-33489, SPARK-45026, SPARK-50815, SPARK-59275, paimon#6362: types that Spark has and no table has


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [
        ("INT", "NULL", None),
        ("ARRAY<INT>", "array()", []),
        ("ARRAY<INT>", "array(NULL)", [None]),
        ("ARRAY<ARRAY<INT>>", "array(array())", [[]]),
        ("ROW<x ARRAY<INT>>", "named_struct('x', array())", {"x": []}),
        ("MAP<STRING, ARRAY<INT>>", "map('a', array())", [("a", [])]),
        ("MAP<STRING, INT>", "map('a', NULL)", [("a", None)]),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_column_without_a_type_is_written(
    spark: SparkSession, tmp_path: Path, kind: str, expression: str, value: Any
) -> None:
    table = new_table(tmp_path, {"v": kind})
    save(spark.range(1).selectExpr("id AS k", f"{expression} AS v"), table)
    assert table.scan().to_arrow().to_pylist() == [{"k": 0, "v": value}]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("map()", r"map<void,void>"),
        ("array(map())", r"array<map<void,void>>"),
        ("parse_json('1')", "struct<value"),
        ("INTERVAL '1' DAY", "duration"),
        ("TIME '12:00:00'", "time64"),
    ],
)
def test_a_value_that_no_table_holds_is_refused_by_column(
    spark: SparkSession, tmp_path: Path, expression: str, named: str
) -> None:
    table = new_table(tmp_path, {"v": "STRING"})
    with pytest.raises(PySparkException, match=rf"column 'v': found the type {named}"):
        save(spark.range(1).selectExpr("id AS k", f"{expression} AS v"), table)
    assert not table.snapshots()


def test_texts_of_char_are_written_as_spark_gives_them_or_refused_by_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, {"v": "CHAR(5)"})
    spark.sql(f"CREATE TABLE padded (v CHAR(5)) USING parquet LOCATION '{tmp_path / 'padded'}'")
    try:
        spark.sql("INSERT INTO padded VALUES ('ab')")
        rows = "SELECT 1L AS k, v FROM padded UNION ALL SELECT 2L, rtrim(v) FROM padded"
        save(spark.sql(rows), table)
        for _ in range(2):
            for frame in ways(spark, table, "v = 'ab'"):
                assert found(frame, "k", "length(v)") == [(2, 2)]
            for frame in ways(spark, table, "v = 'ab   '"):
                assert found(frame, "k", "length(v)") == [(1, 5)]
            table.compact(full=True)
        spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
        with pytest.raises(PySparkException, match=r"column 'v': found the type char\(5\)"):
            save(spark.sql("SELECT 1L AS k, v FROM padded"), table)
    finally:
        spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")
        spark.sql("DROP TABLE padded")


def test_a_lookup_join_takes_rows_with_columns_without_a_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    dim = new_table(tmp_path, {"v": "INT"})
    dim.write([{"k": 0, "v": 7}])
    left = spark.range(1).selectExpr("id AS k", "array() AS a", "NULL AS n")
    assert [tuple(row) for row in widetable_spark.lookup_join(left, dim, ["k"]).collect()] == [
        (0, [], None, 7)
    ]
    with pytest.raises(wt.UnsupportedError, match=r"column 'm': found the type map<void,void>"):
        widetable_spark.lookup_join(left.selectExpr("k", "map() AS m"), dim, ["k"])


# SPARK-46823: nulls in a column that .schema(..) says has none


def test_a_null_that_the_schema_rules_out_is_refused_by_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, {"v": "INT"})
    table.write([{"k": 1, "v": 5}, {"k": 2, "v": None}])
    reader = spark.read.format("widetable")
    assert found(reader.schema("k BIGINT NOT NULL").load(table.path), "k") == [(1,), (2,)]
    with pytest.raises(PySparkException, match="column 'v': found null in 1 of 2 rows"):
        reader.schema("k BIGINT, v INT NOT NULL").load(table.path).collect()


# SPARK-54583, SPARK-56968: other forms of a checkpoint


@pytest.mark.parametrize(
    "tables", [["db.y_1", "db.y"], ["a.b", "a_b"], ["d.t", "d.t"], ["d.ä", "d.ö"]]
)
def test_sources_of_a_job_have_names_of_their_own(tables: list[str]) -> None:
    names = [_source_name(table, number) for number, table in enumerate(tables)]
    assert len(set(names)) == len(names)
    assert all(name.isascii() and name.isidentifier() for name in names)


@pytest.mark.parametrize(
    "setting",
    [
        ("spark.sql.streaming.offsetLog.formatVersion", "2"),
        ("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true"),
        ("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false"),
        ("spark.sql.streaming.minBatchesToRetain", "1"),
    ],
    ids=lambda setting: setting[0].rpartition(".")[2],
)
def test_a_job_goes_on_whatever_form_its_checkpoint_has(
    jobs: SparkSession, tmp_path: Path, setting: tuple[str, str]
) -> None:
    columns = {"k": "BIGINT NOT NULL", "v": "BIGINT"}
    options = {"bucket": "1", "widetable.barrier-interval": "10 ms"}
    catalog = wt.Catalog(tmp_path)
    sources = ["db.a-b", "db.a_b"]
    for name in (*sources, "db.out"):
        producer = "none" if name == "db.out" else "lookup"
        kept = {**options, "changelog-producer": producer}
        catalog.create_table(name, columns, primary_key=["k"], options=kept)
    roots = [catalog.writer(name, "root") for name in sources]
    checkpoint = tmp_path / "checkpoint"
    key, value = setting
    before = jobs.conf.get(key, None)
    jobs.conf.set(key, value)
    try:
        for barrier in (10, 20, 30):
            for root in roots:
                row = {"k": [barrier], "v": [barrier]}
                root.write(row, barrier=barrier, complete=True)
            etl = widetable_spark.etl(jobs, tmp_path, "sums")
            both = etl.changes(sources[0]).union(etl.changes(sources[1]))
            sums = both.groupBy("k").agg(widetable_spark.signed_sum("v").alias("v"))
            writer = sums.writeStream.outputMode("update").foreachBatch(etl.sink("db.out"))
            writer = writer.option("checkpointLocation", str(checkpoint))
            writer.trigger(availableNow=True).start().awaitTermination()
            if barrier == 20:
                max((checkpoint / "commits").glob("[0-9]*")).unlink()
        rows = catalog.table("db.out").scan().to_arrow().to_pylist()
        assert rows == [{"k": k, "v": 2 * k} for k in (10, 20, 30)]
    finally:
        jobs.conf.unset(key)
        if before is not None:
            jobs.conf.set(key, before)
