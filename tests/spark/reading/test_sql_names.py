"""Tables by name in Spark SQL: what CREATE TABLE may say, that queries are fresh, and what an INSERT writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.spark.conftest import GROUPS, WIDE
from widetable_spark.startup.spark_version import VERSION

PLAIN = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[wt.Catalog]:
    yield wt.Catalog(tmp_path / "its tables")
    for database in ("shop", "shop2"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
    for table in ("mine", "other"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.fixture
def users(warehouse: wt.Catalog) -> wt.Table:
    return warehouse.create_table("shop.users", WIDE, primary_key=["k"], options=GROUPS)


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement).collect()
    return str(caught.value)


def test_registered_tables_are_read_afresh_and_joined(
    spark: SparkSession, warehouse: wt.Catalog, users: wt.Table
) -> None:
    prices = warehouse.create_table("shop2.prices", PLAIN, primary_key=["k"])
    assert widetable_spark.register_catalog(spark, warehouse.warehouse) == [
        "shop.users",
        "shop2.prices",
    ]
    for number in (1, 2):
        users.write(pa.table({"k": [number], "a_seq": [1], "a": [f"a{number}"]}))
        prices.write(pa.table({"k": [number], "v": [f"p{number}"]}))
        query = "SELECT k, a, v FROM shop.users JOIN shop2.prices USING (k) ORDER BY k"
        assert rows(spark, query) == [(n, f"a{n}", f"p{n}") for n in range(1, number + 1)]


def test_registering_again_follows_the_schema(
    spark: SparkSession, warehouse: wt.Catalog, users: wt.Table
) -> None:
    widetable_spark.register_catalog(spark, warehouse.warehouse)
    warehouse.alter_table("shop.users", add_columns=[pa.field("c", pa.string())])
    widetable_spark.register_catalog(spark, warehouse.warehouse)
    assert spark.table("shop.users").columns == [*WIDE.names, "c"]


def test_a_name_of_another_table_in_spark_is_refused(
    spark: SparkSession, warehouse: wt.Catalog, users: wt.Table
) -> None:
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.users USING parquet AS SELECT 1 AS k")
    with pytest.raises(wt.InvalidError, match=r"shop\.users"):
        widetable_spark.register_catalog(spark, warehouse.warehouse)
    assert rows(spark, "SELECT * FROM shop.users") == [(1,)]


def test_a_name_of_another_warehouse_is_refused(
    spark: SparkSession, warehouse: wt.Catalog, users: wt.Table, tmp_path: Path
) -> None:
    widetable_spark.register_catalog(spark, warehouse.warehouse)
    users.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"]}))
    other = wt.Catalog(tmp_path / "others")
    other.create_table("shop.users", PLAIN, primary_key=["k"])
    with pytest.raises(wt.InvalidError, match=f"shop.users'.*{users.path}"):
        widetable_spark.register_catalog(spark, other.warehouse)
    assert rows(spark, "SELECT k, a FROM shop.users") == [(1, "x")]
    spark.sql("DROP TABLE shop.users")
    widetable_spark.register_catalog(spark, other.warehouse)
    assert rows(spark, "SELECT * FROM shop.users") == []


@pytest.mark.parametrize("name", ["users-1", "USERS", "us`ers"])
def test_a_name_that_spark_cannot_have_is_refused(
    spark: SparkSession, warehouse: wt.Catalog, users: wt.Table, name: str
) -> None:
    warehouse.create_table(f"shop.{name}", PLAIN, primary_key=["k"])
    with pytest.raises(wt.InvalidError, match="CREATE TABLE name USING widetable LOCATION"):
        widetable_spark.register_catalog(spark, warehouse.warehouse)


@pytest.mark.parametrize("clause", ["LOCATION '{}'", "OPTIONS (path '{}')"])
def test_create_table_names_a_table_that_is_there(
    spark: SparkSession, users: wt.Table, clause: str
) -> None:
    users.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"]}))
    spark.sql(f"CREATE TABLE mine USING widetable {clause.format(users.path)}")
    assert rows(spark, "SELECT k, a FROM mine") == [(1, "x")]
    spark.sql("DROP TABLE mine")
    assert users.scan().to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("CREATE TABLE mine USING widetable", "no LOCATION"),
        ("CREATE TABLE mine USING widetable LOCATION '/no/such/table'", "/no/such/table"),
        ("CREATE TABLE mine USING widetable AS SELECT 1L AS k", "option 'path'"),
        (
            "CREATE TABLE mine USING widetable LOCATION '{}' TBLPROPERTIES ('bucket' '4')",
            "'bucket'",
        ),
        ("CREATE TABLE mine USING widetable OPTIONS (path '{}', tag 't')", "'tag'"),
    ],
)
def test_a_create_table_that_would_make_nothing_says_how_to_make_one(
    spark: SparkSession, users: wt.Table, statement: str, part: str
) -> None:
    reported = refused(spark, statement.format(users.path))
    assert part in reported
    assert "create_table" in reported
    assert not spark.catalog.tableExists("mine")


@pytest.mark.parametrize("statement", ["SELECT * FROM mine", "INSERT INTO mine VALUES (1, 'x')"])
def test_a_table_that_was_declared_with_columns_is_refused_at_its_first_use(
    spark: SparkSession, warehouse: wt.Catalog, statement: str
) -> None:
    spark.sql("CREATE TABLE mine (k BIGINT, v STRING) USING widetable")  # the source is not asked
    assert "create_table" in refused(spark, statement)


def test_an_insert_without_a_path_is_refused_as_it_could_go_to_the_table_it_reads(
    spark: SparkSession, warehouse: wt.Catalog, users: wt.Table
) -> None:
    other = warehouse.create_table("shop.other", WIDE, primary_key=["k"], options=GROUPS)
    users.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"]}))
    widetable_spark.register_catalog(spark, warehouse.warehouse)
    reported = refused(spark, "INSERT INTO shop.other SELECT * FROM shop.users")
    assert "WITH (path = " in reported
    spark.sql(f"INSERT INTO shop.other WITH (path = '{other.path}') SELECT * FROM shop.users")
    assert other.scan(columns=["k", "a"]).to_arrow().to_pylist() == [{"k": 1, "a": "x"}]
    assert len(users.snapshots()) == 1


FILLS = pytest.mark.skipif(
    VERSION.startswith("4.0."), reason="Spark 4.0 itself refuses an INSERT that leaves columns out"
)
BY_NAME = (
    "INSERT INTO mine WITH (path = '{0}'{1}) BY NAME SELECT 2L AS a_seq, 1L AS k",
    "INSERT INTO mine WITH (path = '{0}'{1}) (a_seq, k) VALUES (2, 1)",
)


@FILLS
@pytest.mark.parametrize("statement", BY_NAME)
def test_an_insert_that_would_null_a_column_is_refused_by_name(
    spark: SparkSession, users: wt.Table, statement: str
) -> None:
    users.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"], "b_seq": [1], "b": [0.5]}))
    spark.sql(f"CREATE TABLE mine USING widetable LOCATION '{users.path}'")
    files = sorted(Path(users.path).rglob("*.parquet"))
    reported = refused(spark, statement.format(users.path, ""))
    assert "column 'a'" in reported
    assert "columns = " in reported
    assert len(users.snapshots()) == 1
    assert sorted(Path(users.path).rglob("*.parquet")) == files
    spark.sql(statement.format(users.path, ", columns = 'k, a_seq, a'"))  # they are meant
    (row,) = users.scan().to_arrow().to_pylist()
    assert row == {"k": 1, "a_seq": 2, "a": None, "b_seq": 1, "b": 0.5}


@FILLS
@pytest.mark.parametrize("extra", ["", ", columns = 'k, a_seq, a'"])
def test_an_insert_of_one_group_leaves_the_others(
    spark: SparkSession, users: wt.Table, extra: str
) -> None:
    users.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"], "b_seq": [1], "b": [0.5]}))
    spark.sql(f"CREATE TABLE mine USING widetable LOCATION '{users.path}'")
    options = f"path = '{users.path}'{extra}"
    spark.sql(f"INSERT INTO mine WITH ({options}) (a, k, a_seq) VALUES ('y', 1, 2)")
    (row,) = users.scan().to_arrow().to_pylist()
    assert row == {"k": 1, "a_seq": 2, "a": "y", "b_seq": 1, "b": 0.5}


@FILLS
def test_through_a_temporary_view_the_same_rules_hold(
    spark: SparkSession, warehouse: wt.Catalog
) -> None:
    table = warehouse.create_table("shop.plain", PLAIN, primary_key=["k"])
    table.write(pa.table({"k": [1], "v": ["x"]}))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW seen USING widetable OPTIONS (path '{table.path}')"
    )
    assert "column 'v'" in refused(spark, "INSERT INTO seen (k) VALUES (1)")
    spark.sql("INSERT INTO seen BY NAME SELECT 'y' AS v, 1L AS k")
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": "y"}]


def test_a_frame_of_the_same_table_may_be_written_back_in_part(
    spark: SparkSession, users: wt.Table
) -> None:
    users.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"]}))
    frame = (
        spark.read.format("widetable")
        .load(users.path)
        .selectExpr("k", "a_seq + 1 AS a_seq", "'z' AS a")
    )
    frame.write.format("widetable").mode("append").save(users.path)
    assert users.scan(columns=["a"]).to_arrow()["a"].to_pylist() == ["z"]
