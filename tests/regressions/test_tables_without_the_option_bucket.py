"""A table whose schema does not say `bucket` has dynamic buckets, as in Paimon: a key may be in any. Nobody may write
it, or ask it for keys, as if there were one bucket; what widetable made before it wrote the option down is mended.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string())])
ROWS = {"k": pa.array(range(20), pa.int32()), "v": [str(k) for k in range(20)]}


def dynamic_table(catalog: wt.Catalog, says: str | None) -> wt.Table:
    """A table as Spark with Paimon leaves it: keys in buckets of its choice, total buckets -1, no commit of ours."""
    table = catalog.create_table("db.dynamic", SCHEMA, primary_key=["k"])
    messages = []
    for bucket in range(3):
        with table.new_writer(SCHEMA.names) as writer:
            chosen = [row for row in range(20) if row * row % 7 % 3 == bucket]
            writer.write(pa.table(ROWS, schema=SCHEMA).take(chosen))
            (message,) = writer.finish()
        (file,) = message.new_files
        folder = Path(table.path) / f"bucket-{bucket}"
        folder.mkdir(exist_ok=True)
        (Path(table.path) / "bucket-0" / file.file_name).rename(folder / file.file_name)
        messages.append(replace(message, bucket=bucket, total_buckets=-1))
    table.commit_append(messages)
    snapshot = Path(table.path) / "snapshot/snapshot-1"
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"writerVersion": "spark"}))
    return with_bucket(table, says)


def with_bucket(table: wt.Table, says: str | None) -> wt.Table:
    """The table with another word on buckets in its schema, or none."""
    file = Path(table.path) / "schema/schema-0"
    body = json.loads(file.read_text())
    del body["options"]["bucket"]
    body["options"] |= {} if says is None else {"bucket": says}
    file.write_text(json.dumps(body))
    return wt.Table.open(table.path)


def without_bucket(table: wt.Table) -> wt.Table:
    """The table as a version before made it."""
    return with_bucket(table, None)


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(str(tmp_path))


def test_a_table_that_is_made_without_it_says_one_bucket(catalog: wt.Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"])
    assert json.loads((Path(table.path) / "schema/schema-0").read_text())["options"] == {
        "bucket": "1"
    }
    given = catalog.create_table("db.u", SCHEMA, primary_key=["k"], options={"bucket": "3"})
    assert given.schema.options["bucket"] == "3"


@pytest.mark.parametrize("says", [None, "-1"])
def test_keys_of_another_clients_table_are_written_and_looked_for_where_they_are(
    catalog: wt.Catalog, says: str | None
) -> None:
    table = dynamic_table(catalog, says)
    assert table.lookup([3, 99])["v"].to_pylist() == ["3", None]
    assert table.scan(filter="k = 3").to_arrow().num_rows == 1
    assert table.scan(filter=pc.field("k") == 3).to_arrow().num_rows == 1
    table.write(pa.table({"k": pa.array([3, 20], pa.int32()), "v": ["three", "new"]}))
    assert table.scan().count() == 21
    assert table.lookup([3, 20])["v"].to_pylist() == ["three", "new"]
    table.compact(full=True)
    assert table.audit().ok


@pytest.mark.parametrize("filter", [None, "v > '3'", "k > 5", "k = 3 OR v = '7'"])
def test_rows_of_another_clients_table_are_read(catalog: wt.Catalog, filter: str | None) -> None:
    table = dynamic_table(catalog, None)
    expected = pa.table(ROWS, schema=table.arrow_schema)
    if filter is not None:
        fixed = catalog.create_table("db.fixed", SCHEMA, primary_key=["k"])
        fixed.write(pa.table(ROWS))
        expected = fixed.scan(filter=filter).to_arrow()
        assert 0 < expected.num_rows < 20
    assert table.scan(filter=filter).to_arrow().sort_by("k").equals(expected.sort_by("k"))
    assert table.audit().ok


def test_a_table_of_ours_is_mended_and_goes_on(catalog: wt.Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"])
    table.write(pa.table(ROWS))
    table.create_tag("before")
    table = without_bucket(table)
    with pytest.raises(wt.UnsupportedError, match="alter_table"):
        table.write(pa.table(ROWS))
    for wrong in ("2", "-1"):
        with pytest.raises(wt.WidetableError, match="'bucket'"):
            catalog.alter_table("db.t", set_options={"bucket": wrong})
    table = catalog.alter_table("db.t", set_options={"bucket": "1", "write-only": "true"})
    table.write(pa.table({"k": pa.array([3], pa.int32()), "v": ["three"]}))
    assert table.lookup([3, 4])["v"].to_pylist() == ["three", "4"]
    assert table.scan(filter="k = 3").to_arrow().to_pylist() == [{"k": 3, "v": "three"}]
    assert table.scan(tag="before").to_arrow().num_rows == 20
    assert table.audit().ok


def test_a_table_without_snapshots_is_mended(catalog: wt.Catalog) -> None:
    without_bucket(catalog.create_table("db.t", SCHEMA, primary_key=["k"]))
    table = catalog.alter_table("db.t", set_options={"bucket": "1"})
    assert table.write(pa.table(ROWS)).committed


@pytest.mark.parametrize("says", [None, "-1"])
def test_a_table_that_others_wrote_is_not_mended(catalog: wt.Catalog, says: str | None) -> None:
    dynamic_table(catalog, says)
    with pytest.raises(wt.InvalidError, match="'bucket'"):
        catalog.alter_table("db.dynamic", set_options={"bucket": "1"})


def test_one_commit_of_another_client_is_enough_not_to_mend(catalog: wt.Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"])
    table.write(pa.table(ROWS))
    table.write(pa.table(ROWS))
    without_bucket(table)
    snapshot = Path(table.path) / "snapshot/snapshot-1"
    body = json.loads(snapshot.read_text())
    del body["writerVersion"]
    snapshot.write_text(json.dumps(body))
    with pytest.raises(wt.InvalidError, match="'bucket'"):
        catalog.alter_table("db.t", set_options={"bucket": "1"})
