"""What each statement of Spark SQL does on a name of a table (docs/spark-options.md, "Statements on a name")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs/spark-options.md"
ROWS = [(1, "a"), (2, "b")]
TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "STRING",
    "VARCHAR(20)",
    "CHAR(3)",
    "BYTES",
    "BINARY(4)",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "TIMESTAMP(3)",
]
# By the line of the page that says so. {0}: the path of the table, which is shop.o.
REFUSED = {
    "INSERT INTO o ...": "INSERT INTO shop.o VALUES (3, 'c')",
    "INSERT ... REPLACE WHERE": "INSERT INTO shop.o WITH (path = '{0}') REPLACE WHERE k = 1 VALUES (1L, 'z')",
    "INSERT OVERWRITE o PARTITION": "INSERT OVERWRITE shop.o PARTITION (k = 1) VALUES ('c')",
    "DELETE": "DELETE FROM shop.o WHERE k = 1",
    "UPDATE": "UPDATE shop.o SET v = 'x' WHERE k = 1",
    "MERGE": "MERGE INTO shop.o o USING (SELECT 1L AS k, 'z' AS v) s ON o.k = s.k "
    "WHEN MATCHED THEN UPDATE SET v = s.v",
    "TRUNCATE": "TRUNCATE TABLE shop.o",
    "LOAD DATA": "LOAD DATA LOCAL INPATH '{0}' INTO TABLE shop.o",
    "ALTER TABLE ... ADD PARTITION, DROP PARTITION, RECOVER PARTITIONS": "ALTER TABLE shop.o DROP PARTITION (k = 1)",
    "ALTER TABLE ... ADD CONSTRAINT": "ALTER TABLE shop.o ADD CONSTRAINT c CHECK (k > 0)",
    "MSCK REPAIR TABLE, SHOW PARTITIONS": "MSCK REPAIR TABLE shop.o",
    "ANALYZE TABLE": "ANALYZE TABLE shop.o COMPUTE STATISTICS",
    "CREATE INDEX": "CREATE INDEX i ON shop.o (k)",
    "CREATE TABLE ... LIKE o": "CREATE TABLE mine LIKE shop.o",
    "CREATE TABLE ... USING widetable AS SELECT": "CREATE TABLE mine USING widetable AS SELECT * FROM shop.o",
    "VERSION AS OF, TIMESTAMP AS OF": "SELECT * FROM shop.o VERSION AS OF 1",
    "SELECT ... FROM widetable.path": "SELECT * FROM widetable.`{0}`",
}
# What Spark takes without asking; the next use of the name is an error.
OF_THE_NAME = {
    "ALTER TABLE ... ADD COLUMN": "ALTER TABLE shop.o ADD COLUMN w INT",
    "ALTER TABLE ... DROP COLUMN": "ALTER TABLE shop.o DROP COLUMN v",
    "ALTER TABLE ... RENAME COLUMN": "ALTER TABLE shop.o RENAME COLUMN v TO w",
    "ALTER TABLE ... ALTER COLUMN ... TYPE": "ALTER TABLE shop.o ALTER COLUMN k TYPE DECIMAL(20, 0)",
    "ALTER TABLE ... ALTER COLUMN ... FIRST, AFTER": "ALTER TABLE shop.o ALTER COLUMN v FIRST",
}
REPLACED = {
    "ALTER TABLE ... REPLACE COLUMNS": "ALTER TABLE shop.o REPLACE COLUMNS (k BIGINT, v STRING)",
    "REPLACE TABLE o (...)": "REPLACE TABLE shop.o (k BIGINT, v STRING) USING widetable",
}
WITHOUT_EFFECT = {
    "ALTER TABLE ... SET TBLPROPERTIES, UNSET TBLPROPERTIES": "ALTER TABLE shop.o SET TBLPROPERTIES ('bucket' = '4')",
    "ALTER TABLE ... SET LOCATION": "ALTER TABLE shop.o SET LOCATION '/tmp/elsewhere'",
    "ALTER TABLE ... CLUSTER BY": "ALTER TABLE shop.o CLUSTER BY (k)",
    "ALTER TABLE ... ALTER COLUMN ... COMMENT, DROP NOT NULL": "ALTER TABLE shop.o ALTER COLUMN v COMMENT 'hello'",
    "COMMENT ON TABLE": "COMMENT ON TABLE shop.o IS 'hello'",
    "REFRESH TABLE": "REFRESH TABLE shop.o",
}
SHOWN = {
    "DESCRIBE": ("DESCRIBE shop.o", "bigint"),
    "SHOW COLUMNS": ("SHOW COLUMNS IN shop.o", "v"),
    "SHOW TABLES": ("SHOW TABLES IN shop", "o"),
    "SHOW CREATE TABLE": ("SHOW CREATE TABLE shop.o", "k BIGINT NOT NULL"),
    "SHOW TBLPROPERTIES": ("SHOW TBLPROPERTIES shop.o", ""),
}
# Each has a test of its own below.
DONE = (
    "SELECT",
    "SELECT ... WITH",
    "INSERT INTO o WITH (path = ...)",
    "INSERT OVERWRITE o WITH (path = ...)",
    "DROP TABLE",
    "DROP DATABASE ... CASCADE",
    "ALTER TABLE ... RENAME TO",
    "ALTER TABLE ... ALTER COLUMN ... SET DEFAULT",
    "CREATE OR REPLACE TABLE o ... AS SELECT",
    "CREATE TABLE ... USING parquet AS SELECT",
    "CACHE TABLE",
    "CREATE VIEW",
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[wt.Table]:
    columns = {"k": "BIGINT NOT NULL", "v": "STRING"}
    table = wt.Catalog(tmp_path / "wh").create_table("shop.o", columns, primary_key=["k"])
    table.write([{"k": k, "v": v} for k, v in ROWS])
    widetable_spark.register_catalog(spark, tmp_path / "wh")
    yield table
    spark.catalog.clearCache()
    spark.sql("DROP VIEW IF EXISTS seen")
    spark.sql("DROP TABLE IF EXISTS mine")
    spark.sql("DROP DATABASE shop CASCADE")


def warehouse(table: wt.Table) -> Path:
    return Path(table.path).parent.parent


def in_spark(
    spark: SparkSession, query: str = "SELECT k, v FROM shop.o"
) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def in_table(table: wt.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement).collect()
    return str(caught.value)


def test_the_page_has_a_line_for_each_statement() -> None:
    text = PAGE.read_text("utf-8").partition("### Statements on a name")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.+?`) \| ", text, re.MULTILINE)
    tables = (REFUSED, OF_THE_NAME, REPLACED, WITHOUT_EFFECT, SHOWN, DONE)
    assert [line.strip("` ") for line in lines] == [
        key.strip("`") for table in tables for key in table
    ]


@pytest.mark.parametrize("statement", REFUSED.values(), ids=REFUSED)
def test_a_statement_is_refused(spark: SparkSession, table: wt.Table, statement: str) -> None:
    refused(spark, statement.format(table.path))
    assert in_table(table) == ROWS


@pytest.mark.parametrize("statement", OF_THE_NAME.values(), ids=OF_THE_NAME)
def test_a_name_with_other_columns_than_its_table_is_refused(
    spark: SparkSession, table: wt.Table, statement: str
) -> None:
    spark.sql(statement)
    reported = refused(spark, "SELECT * FROM shop.o")
    assert "ALTER TABLE gave to the name, not to the table" in reported
    assert "register_catalog" in reported
    assert in_table(table) == ROWS
    widetable_spark.register_catalog(spark, warehouse(table))
    assert in_spark(spark) == ROWS


@pytest.mark.parametrize("statement", REPLACED.values(), ids=REPLACED)
def test_a_name_whose_columns_were_replaced_is_of_no_table(
    spark: SparkSession, table: wt.Table, statement: str
) -> None:
    spark.sql(statement)
    assert "is of no table" in refused(spark, "SELECT * FROM shop.o")
    with pytest.raises(wt.InvalidError, match="DROP TABLE"):
        widetable_spark.register_catalog(spark, warehouse(table))
    spark.sql("DROP TABLE shop.o")
    widetable_spark.register_catalog(spark, warehouse(table))
    assert in_spark(spark) == in_table(table) == ROWS


@pytest.mark.parametrize("statement", WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_a_statement_has_no_effect_on_the_table(
    spark: SparkSession, table: wt.Table, statement: str
) -> None:
    options = table.schema.options
    spark.sql(statement)
    assert in_spark(spark) == in_table(table) == ROWS
    assert wt.Table.open(table.path).schema.options == options


@pytest.mark.parametrize(("statement", "part"), SHOWN.values(), ids=SHOWN)
def test_a_statement_shows_the_name(
    spark: SparkSession, table: wt.Table, statement: str, part: str
) -> None:
    assert part in str(spark.sql(statement).collect())
    assert in_spark(spark) == ROWS


def test_an_insert_with_a_path_is_written(spark: SparkSession, table: wt.Table) -> None:
    spark.sql(f"INSERT INTO shop.o WITH (path = '{table.path}') VALUES (3, 'c')")
    assert in_spark(spark) == in_table(table) == [*ROWS, (3, "c")]


def test_insert_overwrite_replaces_all_rows(spark: SparkSession, table: wt.Table) -> None:
    spark.sql(f"INSERT OVERWRITE shop.o WITH (path = '{table.path}') VALUES (3, 'c')")
    assert in_spark(spark) == in_table(table) == [(3, "c")]


@pytest.mark.parametrize("statement", ["DROP TABLE shop.o", "DROP TABLE shop.o PURGE"])
def test_dropping_a_name_keeps_the_table(
    spark: SparkSession, table: wt.Table, statement: str
) -> None:
    spark.sql(statement)
    assert not spark.catalog.tableExists("shop.o")
    assert in_table(table) == ROWS


def test_dropping_a_database_keeps_its_tables(spark: SparkSession, table: wt.Table) -> None:
    spark.sql("DROP DATABASE shop CASCADE")
    assert in_table(table) == ROWS
    widetable_spark.register_catalog(spark, warehouse(table))
    assert in_spark(spark) == ROWS


def test_a_name_that_is_renamed_means_the_same_table(spark: SparkSession, table: wt.Table) -> None:
    spark.sql("ALTER TABLE shop.o RENAME TO shop.p")
    assert in_spark(spark, "SELECT k, v FROM shop.p") == in_table(table) == ROWS


def test_a_default_of_a_column_is_one_of_the_name(spark: SparkSession, table: wt.Table) -> None:
    spark.sql("ALTER TABLE shop.o ALTER COLUMN v SET DEFAULT 'x'")
    spark.sql(f"INSERT INTO shop.o WITH (path = '{table.path}') (k) VALUES (3)")
    assert in_spark(spark) == in_table(table) == [*ROWS, (3, "x")]


def test_replacing_a_name_by_a_query_drops_the_name(spark: SparkSession, table: wt.Table) -> None:
    refused(spark, "CREATE OR REPLACE TABLE shop.o USING widetable AS SELECT 1L AS k")
    assert not spark.catalog.tableExists("shop.o")
    assert in_table(table) == ROWS


def test_a_table_of_another_format_takes_the_rows(spark: SparkSession, table: wt.Table) -> None:
    spark.sql("CREATE TABLE mine USING parquet AS SELECT * FROM shop.o")
    assert in_spark(spark, "SELECT * FROM mine") == ROWS


def test_a_cached_name_is_read_again_after_an_insert_or_a_refresh(
    spark: SparkSession, table: wt.Table
) -> None:
    spark.sql("CACHE TABLE shop.o")
    table.write([{"k": 3, "v": "c"}])
    assert in_spark(spark) == ROWS
    spark.sql("REFRESH TABLE shop.o")
    assert in_spark(spark) == [*ROWS, (3, "c")]
    spark.sql(f"INSERT INTO shop.o WITH (path = '{table.path}') VALUES (4, 'd')")
    assert in_spark(spark) == [*ROWS, (3, "c"), (4, "d")]
    spark.sql("UNCACHE TABLE shop.o")


@pytest.mark.parametrize("kind", ["VIEW", "TEMPORARY VIEW"])
def test_a_view_is_read_afresh(spark: SparkSession, table: wt.Table, kind: str) -> None:
    spark.sql(f"CREATE {kind} seen AS SELECT k, v FROM spark_catalog.shop.o")
    table.write([{"k": 3, "v": "c"}])
    assert in_spark(spark, "SELECT * FROM seen") == [*ROWS, (3, "c")]


def test_the_past_is_read_with_options(spark: SparkSession, table: wt.Table) -> None:
    table.write([{"k": 3, "v": "c"}])
    assert in_spark(spark, "SELECT * FROM shop.o WITH ('snapshot-id' = '1')") == ROWS


def test_an_insert_that_the_name_makes_narrower_is_refused(
    spark: SparkSession, table: wt.Table
) -> None:
    """The name lacks a column that the table has: each row would be null there."""
    spark.sql("ALTER TABLE shop.o DROP COLUMN v")
    insert = f"INSERT INTO shop.o WITH (path = '{table.path}') VALUES (1)"
    assert "column 'v'" in refused(spark, insert)
    widetable_spark.register_catalog(spark, warehouse(table))
    wt.Catalog(warehouse(table)).alter_table("shop.o", add_columns=[pa.field("w", pa.int64())])
    insert = f"INSERT INTO shop.o WITH (path = '{table.path}'{{}}) VALUES (1, 'z')"
    assert "column 'w'" in refused(spark, insert.format(""))
    assert len(table.snapshots()) == 1
    spark.sql(insert.format(", columns = 'k, v'"))
    assert [(row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist()] == [
        (1, "z"),
        (2, "b"),
    ]


def test_columns_that_were_added_to_the_table_are_not_the_names(
    spark: SparkSession, table: wt.Table
) -> None:
    wt.Catalog(warehouse(table)).alter_table("shop.o", add_columns=[pa.field("w", pa.int64())])
    assert in_spark(spark, "SELECT * FROM shop.o") == ROWS


def test_a_name_has_columns_of_all_types(spark: SparkSession, table: wt.Table) -> None:
    """Spark keeps them as texts, and they are the table's when they come back."""
    columns = {
        "k": "BIGINT NOT NULL",
        **{f"c{at}": text for at, text in enumerate(TYPES)},
        "a.b`c": "ARRAY<MAP<STRING, ROW<x INT, `y z` DECIMAL(10, 2)>>>",
    }
    catalog = wt.Catalog(warehouse(table))
    catalog.create_table("shop.types", columns, primary_key=["k"]).write([{"k": 1}])
    widetable_spark.register_catalog(spark, warehouse(table))
    assert spark.table("shop.types").collect() == [(1, *(None for _ in range(len(columns) - 1)))]
