"""Names in buckets: what partitions are called, byte by byte, and objects that others have put between ours."""

from __future__ import annotations

import uuid
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs

import widetable as wt
from tests.object_stores.conftest import ROOT
from tests.object_stores.faulty_proxy import FaultyProxy
from tests.object_stores.s3_server import BUCKET, environment
from tests.object_stores.test_tables import create, run_of_operations

VALUES = st.text(
    "ab .%+=/:#?&;,~'\"\\^[]{}|<>*@!$()`ü€😀\u200b\u0301\x7f\t\n", min_size=1, max_size=12
)


def independent(server: int) -> fs.S3FileSystem:
    """Arrow's own client, of Amazon's library."""
    known = environment(server)
    return fs.S3FileSystem(
        access_key=known["AWS_ACCESS_KEY_ID"],
        secret_key=known["AWS_SECRET_ACCESS_KEY"],
        region=known["AWS_REGION"],
        endpoint_override=f"127.0.0.1:{server}",
        scheme="http",
    )


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(VALUES.filter(str.strip), min_size=1, max_size=6, unique=True))
def test_partitions_of_any_value_are_where_an_independent_reader_finds_them(
    proxy: FaultyProxy, server: int, values: list[str]
) -> None:
    """Each is escaped once, by the table, and no client escapes or resolves it again."""
    place = f"{ROOT}/{uuid.uuid4().hex}/wh of % + ü"
    columns = {"p": "STRING", "k": "BIGINT"}
    table = wt.Catalog(place).create_table(
        "db.t", columns, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "1"}
    )
    table.write({"p": values, "k": [*range(len(values))]})
    reader = independent(server)
    files = reader.get_file_info(fs.FileSelector(table.path.removeprefix("s3://"), recursive=True))
    found = {
        unquote(Path(file.path).parts[-3].removeprefix("p=")): pq.read_table(
            file.path, filesystem=reader, columns=["k"], partitioning=None
        )["k"].to_pylist()
        for file in files
        if file.path.endswith(".parquet")
    }
    assert found == {value: [number] for number, value in enumerate(values)}
    rows = {row["p"]: [row["k"]] for row in table.scan().to_arrow().to_pylist()}
    assert rows == found
    table.drop_partitions([{"p": values[0]}])
    assert {*table.scan(columns=["p"]).to_arrow()["p"].to_pylist()} == {*values[1:]}


def put(server: int, path: str) -> None:
    with closing(HTTPConnection("127.0.0.1", server)) as connection:
        connection.request("PUT", f"/{BUCKET}/{quote(path.removeprefix(f'{ROOT}/'))}", b"foreign")
        assert connection.getresponse().status == 200


FOREIGN = (
    "",
    "_SUCCESS",
    "notes.txt",
    "snapshot/",
    "snapshot/.keep",
    "snapshot/snapshot-x",
    "snapshot/snapshot-01",
    "snapshot/sub/snapshot-9",
    "schema/schema-1.bak",
    "schema/$folder$",
    "manifest/LIST",
    "tag/notes",
    "tag/tag-",
    "consumer/consumer-",
    "service/widetable-read-lease-?",
    "bucket-0/part-0000-ü %41.parquet",
    "bucket-x/data-1.parquet",
    "branch/notes/x",
    "branch/branch-/snapshot/snapshot-1",
)


def test_foreign_objects_do_no_harm(
    proxy: FaultyProxy, server: int, place: str, tmp_path: Path
) -> None:
    table = create(place)
    for name in FOREIGN:
        put(server, f"{table.path}/{name}")
    put(server, f"{place}/db.db/no-table/x")
    put(server, f"{place}/.db/x")
    assert run_of_operations(table) == run_of_operations(create(str(tmp_path)))
    assert wt.Catalog(place).list_tables() == ["db.t"]
    table.doctor(deep=True)
    kept = {entry.name for entry in table._file_io.list(table.path)}
    found = table.remove_orphan_files(0)
    assert {Path(name).name for name in found.paths} <= {Path(name).name for name in FOREIGN}, found
    assert kept - {entry.name for entry in table._file_io.list(table.path)} == set()
    assert table.scan().count() == 21


def test_a_name_that_no_path_can_have_is_named(proxy: FaultyProxy, server: int, place: str) -> None:
    """The client cannot list a directory that has one."""
    table = create(place)
    put(server, f"{table.path}/snapshot//x")
    with pytest.raises(wt.StorageError, match=r"snapshot//.*Delete or move that object"):
        table.snapshots()
