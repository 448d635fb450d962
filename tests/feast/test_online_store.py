"""Feast's online features straight from tables: one snapshot of each table in a request (make feast)."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("feast", reason="Feast, which pip fetches: make feast")

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.data_source import PushMode, PushSource
from feast.types import Int64, String, UnixTimestamp
from feast.value_type import ValueType

import widetable as wt
from widetable_feast import WidetableOnlineStore, WidetableSource

USER = Entity(name="user", join_keys=["user"], value_type=ValueType.INT64)
ITEM = Entity(name="item", join_keys=["item"], value_type=ValueType.STRING)
COLUMNS = {
    "user": "BIGINT",
    "item": "STRING",
    "clicks": "BIGINT",
    "seen": "TIMESTAMP(3)",
    "city": "STRING",
}
SEEN = datetime(2026, 5, 1, 10)


def store_of(folder: Path, *more: Any) -> FeatureStore:
    folder.joinpath("repo").mkdir()
    (folder / "repo/feature_store.yaml").write_text(
        f"""
project: shop
registry: {folder}/repo/registry.db
provider: local
offline_store:
  type: widetable_feast.WidetableOfflineStore
  warehouse: {folder}/wh
online_store:
  type: widetable_feast.WidetableOnlineStore
entity_key_serialization_version: 3
"""
    )
    store = FeatureStore(str(folder / "repo"))
    store.apply([USER, ITEM, *more])
    return store


def view(name: str, **features: Any) -> FeatureView:
    schema = [Field(name="user", dtype=Int64), Field(name="item", dtype=String)]
    schema += [Field(name=feature, dtype=dtype) for feature, dtype in features.items()]
    source = WidetableSource(
        table="db.t", name=name, timestamp_field="seen", field_mapping={"city": "town"}
    )
    return FeatureView(name=name, entities=[USER, ITEM], ttl=None, schema=schema, source=source)


def table_of(folder: Path) -> wt.Table:
    options = {"bucket": "2", "changelog-producer": "lookup"}
    return wt.Catalog(str(folder / "wh")).create_table(
        "db.t", COLUMNS, primary_key=["user", "item"], options=options
    )


def row(user: int, item: str, clicks: int | None, city: str | None = None) -> dict[str, Any]:
    return {"user": user, "item": item, "clicks": clicks, "seen": SEEN, "city": city}


ASKED = [{"user": 1, "item": "a"}, {"user": 2, "item": "b"}, {"user": 9, "item": "a"}]


def test_case_11_online_features_equal_lookups_without_materialization(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    store = store_of(tmp_path, view("v", clicks=Int64, town=String, seen=UnixTimestamp))
    features = ["v:clicks", "v:town", "v:seen"]
    for clicks, city in ((3, "Oslo"), (4, None)):
        table.write([row(1, "a", clicks, city), row(2, "b", None, "Rome")])
        given = store.get_online_features(features, ASKED).to_dict()
        rows = table.lookup(ASKED).to_pylist()
        assert given["clicks"] == [each["clicks"] for each in rows]
        assert given["town"] == [each["city"] for each in rows]
        assert [time and time.replace(tzinfo=None) for time in given["seen"]] == [SEEN, SEEN, None]
    table.delete_keys([{"user": 1, "item": "a"}])
    assert store.get_online_features(["v:clicks"], ASKED[:1]).to_dict()["clicks"] == [None]


def test_views_of_a_request_read_one_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between two views of a request is in none of them, and in both of the next request."""
    table = table_of(tmp_path)
    table.write([row(1, "a", 1, "first")])
    store = store_of(tmp_path, view("one", clicks=Int64), view("two", town=String))
    read = WidetableOnlineStore.online_read
    number = 1

    def with_commits(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal number
        answer = read(self, *arguments, **named)
        number += 1
        table.write([row(1, "a", number, f"commit {number}")])
        return answer

    monkeypatch.setattr(WidetableOnlineStore, "online_read", with_commits)
    for before in ("first", "commit 3", "commit 5"):
        given = store.get_online_features(["one:clicks", "two:town"], ASKED[:1]).to_dict()
        assert given["town"] == [before]
        assert given["clicks"] == [1 if before == "first" else int(before.split()[1])]


def test_threads_have_sessions_of_their_own(tmp_path: Path) -> None:
    """Both columns of a commit are equal; a request that mixed two commits would show others."""
    table = table_of(tmp_path)
    table.write([row(1, "a", 0, "0")])
    store = store_of(tmp_path, view("one", clicks=Int64), view("two", town=String))
    ended, mixed = threading.Event(), []

    def ask() -> None:
        while not ended.is_set():
            given = store.get_online_features(["one:clicks", "two:town"], ASKED[:1]).to_dict()
            if str(given["clicks"][0]) != given["town"][0]:
                mixed.append(given)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 30):
        table.write([row(1, "a", number, str(number))])
    ended.set()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert store.get_online_features(["one:clicks"], ASKED[:1]).to_dict()["clicks"] == [29]


def test_a_table_that_was_made_again_is_served(tmp_path: Path) -> None:
    table_of(tmp_path).write([row(1, "a", 1)])
    store = store_of(tmp_path, view("v", clicks=Int64))
    assert store.get_online_features(["v:clicks"], ASKED[:1]).to_dict()["clicks"] == [1]
    wt.Catalog(str(tmp_path / "wh")).drop_table("db.t")
    with pytest.raises(wt.NotFoundError):
        store.get_online_features(["v:clicks"], ASKED[:1])
    table = table_of(tmp_path)
    table.write([row(1, "a", 2)])
    assert store.get_online_features(["v:clicks"], ASKED[:1]).to_dict()["clicks"] == [2]
    wt.Catalog(str(tmp_path / "wh")).alter_table("db.t", add_columns={"more": "INT"})
    table.write([row(1, "a", 3)])
    assert store.get_online_features(["v:clicks"], ASKED[:1]).to_dict()["clicks"] == [3]


TIMES = {
    "seconds": ("BIGINT", 1_777_629_600, 1 << 60),
    "millis": ("BIGINT", 1_777_629_600_000, 1 << 60),
    "micros": ("BIGINT", 1_777_629_600_000_000, 1 << 62),
    "nanos": ("BIGINT", 1_777_629_600_000_000_999, None),
    None: ("TIMESTAMP(9)", pd.Timestamp(SEEN) + pd.Timedelta(999, "ns"), None),
}


@pytest.mark.parametrize("unit", TIMES)
def test_times_of_any_unit_are_those_of_the_features(tmp_path: Path, unit: str | None) -> None:
    kind, time, far = TIMES[unit]
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.n", {"user": "BIGINT", "clicks": "BIGINT", "at": kind}, primary_key=["user"]
    )
    table.write([{"user": 1, "clicks": 5, "at": time}, {"user": 2, "clicks": 6, "at": None}])
    source = WidetableSource(table="db.n", timestamp_field="at", timestamp_unit=unit)
    schema = [Field(name="user", dtype=Int64), Field(name="clicks", dtype=Int64)]
    numbers = FeatureView(name="n", entities=[USER], ttl=None, schema=schema, source=source)
    store = store_of(tmp_path, numbers)
    asked = [{"user": user} for user in (1, 2)]
    answer = store.get_online_features(["n:clicks"], asked).proto.results
    (feature,) = (
        each for each in answer if len(each.event_timestamps) and each.values[0].int64_val == 5
    )
    assert [each.ToDatetime() for each in feature.event_timestamps] == [SEEN, datetime(1970, 1, 1)]
    if far is not None:
        table.write([{"user": 1, "clicks": 5, "at": far}])
        with pytest.raises(wt.InvalidError, match=r"column 'at': .*the years 1 to 9999"):
            store.get_online_features(["n:clicks"], asked)


def test_a_feature_of_another_type_is_named(tmp_path: Path) -> None:
    table_of(tmp_path).write([row(1, "a", 1, "Oslo")])
    store = store_of(tmp_path, view("v", town=Int64))
    with pytest.raises(wt.InvalidError, match="feature 'town'"):
        store.get_online_features(["v:town"], ASKED[:1])
    provider = store._provider.online_store
    assert provider.online_read(store.config, view("v", town=Int64), [], ["town"]) == []


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write([row(1, "a", 1)])
    pushed = PushSource(name="pushed", batch_source=view("v", clicks=Int64).batch_source)
    live = FeatureView(
        name="v",
        entities=[USER, ITEM],
        ttl=None,
        schema=view("v", clicks=Int64).schema,
        source=pushed,
    )
    store = store_of(tmp_path, live)
    day = [datetime(2026, 5, number, tzinfo=timezone.utc) for number in (1, 3)]
    with pytest.raises(wt.UnsupportedError, match="Do not materialize"):
        store.materialize(*day)
    frame = pd.DataFrame({"user": [1], "item": ["a"], "clicks": [7], "seen": [day[1]]})
    frame["city"] = "Oslo"
    with pytest.raises(wt.UnsupportedError, match=r"to=PushMode\.OFFLINE"):
        store.push("pushed", frame, to=PushMode.ONLINE)
    store.push("pushed", frame, to=PushMode.OFFLINE)
    assert store.get_online_features(["v:clicks"], ASKED[:1]).to_dict()["clicks"] == [7]
    other = FeatureView(
        name="files",
        entities=[USER],
        schema=[Field(name="user", dtype=Int64), Field(name="x", dtype=Int64)],
        source=FileSource(path=str(tmp_path / "x.parquet"), timestamp_field="seen"),
    )
    with pytest.raises(wt.InvalidError, match="a source of type FileSource"):
        store._provider.online_store.update(store.config, [], [other], [], [], False)
    store.teardown()
    assert table.lookup(ASKED[:1]).num_rows == 1
