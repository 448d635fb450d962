"""Names that some face gives a meaning are no names of columns: `_row_kind` of writes and changes, `_key_number` of
lookups by prefix, and the system columns of data files, in any case, as Spark tells names apart without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.operations.queries.lookup_view import KEY_NUMBER
from widetable.read.commit_columns import KIND_FIELD
from widetable.schema.table_schema import ROW_KIND_COLUMN

OPTIONS = {"bucket": "1", "widetable.fsync": "false"}
RESERVED = [
    "_row_kind",
    "_ROW_KIND",
    "_key_number",
    "_KEY_k",
    "_key_k",
    "_SEQUENCE_NUMBER",
    "_sequence_number",
    "_Value_Kind",
    "_LEVEL",
    "_level",
    "rowkind",
    "ROWKIND",
    "_ROW_ID",
    "_row_id",
]
WAYS: dict[str, Callable[[wt.Catalog, str], object]] = {
    "create": lambda catalog, name: catalog.create_table(
        "db.n", {"k": "BIGINT", name: "STRING"}, primary_key=["k"], options=OPTIONS
    ),
    "add": lambda catalog, name: catalog.alter_table(
        "db.t", add_columns=[pa.field(name, pa.string())]
    ),
    "rename": lambda catalog, name: catalog.alter_table("db.t", rename_columns={"v": name}),
}


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    made = wt.Catalog(tmp_path)
    made.create_table("db.t", {"k": "BIGINT", "v": "STRING"}, primary_key=["k"], options=OPTIONS)
    return made


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("way", WAYS)
def test_a_reserved_name_is_refused(catalog: wt.Catalog, way: str, name: str) -> None:
    with pytest.raises(wt.InvalidError, match=rf"column '{name}': found a reserved name"):
        WAYS[way](catalog, name)
    assert catalog.table("db.t").schema.names == ("k", "v")


@pytest.mark.parametrize("name", ["level", "row_kind", "kind", "_snapshot_id", "key_number", "_k"])
def test_a_name_like_them_is_a_name(catalog: wt.Catalog, name: str) -> None:
    """Columns that a read adds only when it is asked to are refused there, and can be left out."""
    table = catalog.alter_table("db.t", rename_columns={"v": name})
    table.write({"k": [1], name: ["x"]})
    assert table.scan().to_arrow()[name].to_pylist() == ["x"]
    assert table.changes(0, 1)[name].to_pylist() == ["x"]


def test_the_faces_have_no_other_names() -> None:
    assert KIND_FIELD.name == ROW_KIND_COLUMN == "_row_kind"
    assert KEY_NUMBER.name == "_key_number"


def test_a_table_that_has_one_is_altered_and_rid_of_it(catalog: wt.Catalog) -> None:
    """One that was made before, or by another client."""
    path = Path(catalog.table("db.t").path, "schema/schema-0")
    body = json.loads(path.read_text())
    body["fields"][1]["name"] = "_row_kind"
    path.write_text(json.dumps(body))
    altered = catalog.alter_table("db.t", add_columns=[pa.field("w", pa.int64())])
    assert altered.schema.names == ("k", "_row_kind", "w")
    rid = catalog.alter_table("db.t", rename_columns={"_row_kind": "kind"})
    assert rid.schema.names == ("k", "kind", "w")
