"""Snapshot and tag JSON: other writers' files, key order, optional and unknown keys, damage."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.faults.damage import damaged_copies, refused_subject
from tests.support.tables.fixture_tables import JAVA_TABLES, TABLES
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.snapshot import Snapshot, Tag, snapshot_from_json, tag_from_json

FILES = [p for table in TABLES for p in table.snapshots()]
JAVA_FILES = [p for table in JAVA_TABLES for p in table.snapshots()]
SNAPSHOT = Snapshot(
    id=1,
    schema_id=0,
    base_manifest_list="manifest-list-a-0",
    delta_manifest_list="manifest-list-a-1",
    commit_user="u",
    commit_identifier=7,
    commit_kind="APPEND",
    time_millis=1_700_000_000_000,
    total_record_count=10,
    delta_record_count=-3,
)


def id_of(path: Path) -> str:
    return "-".join([path.parts[-5], path.parts[-3], path.name])


def body() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(SNAPSHOT.to_json())
    return parsed


@pytest.mark.parametrize("path", FILES, ids=id_of)
def test_every_key_of_other_writers_comes_back(path: Path) -> None:
    read = tag_from_json if path.name.startswith("tag") else snapshot_from_json
    assert json.loads(read(path.read_bytes(), str(path)).to_json()) == json.loads(path.read_bytes())


@pytest.mark.parametrize("path", JAVA_FILES[:15], ids=id_of)
def test_keys_stand_in_java_s_order(path: Path) -> None:
    ours = json.loads(snapshot_from_json(path.read_bytes(), str(path)).to_json())
    assert list(ours) == list(json.loads(path.read_bytes()))


def test_sizes_of_other_writers_are_the_files_sizes() -> None:
    checked = 0
    for path in FILES:
        snapshot = tag_from_json(path.read_bytes(), str(path)).snapshot
        manifests = path.parent.parent / "manifest"
        for name, size in (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
            (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
        ):
            if name is not None and (manifests / name).exists():
                assert (manifests / name).stat().st_size == size
                checked += 1
    assert checked > 100


def test_optional_keys_without_a_value_are_left_out() -> None:
    assert list(body()) == [
        "version",
        "id",
        "schemaId",
        "baseManifestList",
        "deltaManifestList",
        "commitUser",
        "commitIdentifier",
        "commitKind",
        "timeMillis",
        "totalRecordCount",
        "deltaRecordCount",
    ]


def test_properties_and_unknown_keys_come_back() -> None:
    text = json.dumps(body() | {"properties": {"widetable.x": "ü"}, "future": {"a": [1, None]}})
    snapshot = snapshot_from_json(text, "s")
    assert snapshot.properties == {"widetable.x": "ü"}
    assert snapshot.extra == {"future": {"a": [1, None]}}
    assert json.loads(snapshot.to_json()) == json.loads(text)


def test_null_is_as_good_as_absent() -> None:
    text = json.dumps(body() | {"uuid": None, "properties": None, "watermark": None})
    assert snapshot_from_json(text, "s") == SNAPSHOT


def test_tag_times_are_written_as_paimon_does() -> None:
    tag = Tag(
        snapshot=SNAPSHOT, create_time=(2026, 11, 21, 2, 3, 4, 500), time_retained_seconds=90003.0
    )
    written = json.loads(tag.to_json())
    assert written["tagCreateTime"] == [2026, 11, 21, 2, 3, 4, 500]
    assert written["tagTimeRetained"] == 90003.0
    assert tag_from_json(tag.to_json(), "t") == tag
    assert Tag(snapshot=SNAPSHOT).to_json() == SNAPSHOT.to_json()


@pytest.mark.parametrize("key", list(body()))
def test_missing_required_key_is_named(key: str) -> None:
    lacking = {k: v for k, v in body().items() if k != key}
    with pytest.raises(DamagedError, match=key) as caught:
        snapshot_from_json(json.dumps(lacking), "snapshot/snapshot-1")
    assert caught.value.subject == "snapshot/snapshot-1"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "1"),
        ("id", True),
        ("id", 1.0),
        ("commitUser", 7),
        ("commitKind", "MERGE"),
        ("properties", []),
        ("properties", {"a": 1}),
        ("watermark", "soon"),
    ],
)
def test_wrong_value_is_damage(key: str, value: Any) -> None:
    with pytest.raises(DamagedError):
        snapshot_from_json(json.dumps(body() | {key: value}), "s")


def test_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        snapshot_from_json(json.dumps(body() | {"version": 4}), "s")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"7", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_snapshot_is_damage(data: bytes) -> None:
    for read in (snapshot_from_json, tag_from_json):
        with pytest.raises(DamagedError) as caught:
            read(data, "s")
        assert caught.value.subject == "s"


@pytest.mark.parametrize("value", [7, "now", [2026, "x"], [2026.5]])
def test_wrong_tag_time_is_damage(value: Any) -> None:
    with pytest.raises(DamagedError):
        tag_from_json(json.dumps(body() | {"tagCreateTime": value}), "t")


@given(st.randoms(use_true_random=False))
def test_garbage_raises_nothing_else(random: random.Random) -> None:
    for piece in damaged_copies(SNAPSHOT.to_json().encode(), random):
        assert refused_subject(partial(snapshot_from_json, piece, "s")) in (None, "s")
