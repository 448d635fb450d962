"""What does not come back from its bytes as it was meant is never published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.tables.fixture_tables import TABLES, FixtureTable
from tests.widetable.commit.transaction.fake_table import (
    committer,
    make_table,
    metadata_files,
    written,
)
from widetable.commit.snapshots.read_back import parsed_back
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_request import Append, FileChanges, Header
from widetable.errors import InvalidError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.schema.table_schema import schema_from_json
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
MEANT = Snapshot(
    id=3,
    schema_id=0,
    base_manifest_list="b",
    delta_manifest_list="d",
    commit_user="job",
    commit_identifier=1,
    commit_kind="APPEND",
    time_millis=9,
    total_record_count=1,
    delta_record_count=1,
    watermark=5,
    properties={"a": "b"},
)
HOSTILE = (True, 1.0, 1.5, float("nan"), np.int64(1), b"1", "\ud800", object(), [1], 2**70 * 1.0)


def test_a_snapshot_that_comes_back_is_its_bytes() -> None:
    assert parsed_back(MEANT, snapshot_from_json, "s") == MEANT.to_json().encode()


@pytest.mark.parametrize("name", [field.name for field in fields(Snapshot)])
def test_a_value_of_a_wrong_type_is_found_in_every_field(name: str) -> None:
    wrong: Any
    for wrong in HOSTILE:
        if isinstance(getattr(MEANT, name), Mapping):
            if name == "extra" and wrong in (True, 1.0, 1.5, [1], 2.0**70):
                continue  # what others wrote may be of any JSON type
            wrong = {"a": wrong}
        with pytest.raises(InvalidError, match="nothing was published"):
            parsed_back(replace(MEANT, **{name: wrong}), snapshot_from_json, "s")


def test_a_commit_that_would_not_come_back_leaves_nothing(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    header = Header(Identity.of("job", 1))
    wrongs: list[dict[str, Any]] = [
        {"watermark": 1.5},
        {"watermark": True},
        {"properties": {"a": 1}},
        {"by": Identity("job", 1.0)},  # type: ignore[arg-type]
        {"by": Identity("\ud800", 1)},
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidError, match="snapshot-1"):
            table._commit(Append(replace(header, **wrong), FileChanges((written(),))))
    assert table.snapshots.latest() is None
    assert metadata_files(paths) == set()


def test_a_schema_that_would_not_come_back_leaves_nothing(tmp_path: Path) -> None:
    store = SchemaStore(IO, make_table(tmp_path))
    schema = replace(store.latest(), id=1)
    for wrong in (
        {"comment": "\ud800"},
        {"comment": object()},
        {"options": {**schema.options, "bucket": 4}},
        {"time_millis": 1.5},
        {"highest_field_id": np.int64(7)},
        {"primary_keys": ["id"]},
    ):
        with pytest.raises(InvalidError, match="schema-1"):
            store.publish(replace(schema, **wrong))
    assert store.ids() == [0]
    assert store.publish(schema)


@pytest.mark.parametrize("fixture", TABLES, ids=lambda table: table.id)
def test_schemas_of_other_clients_come_back(fixture: FixtureTable) -> None:
    for schema in fixture.schemas.values():
        parsed_back(schema, schema_from_json, "schema")
