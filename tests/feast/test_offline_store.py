"""Feast with tables as its offline store, from `apply` to online features (make feast)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("feast", reason="Feast, which pip fetches: make feast")

import pandas as pd
from feast import Entity, FeatureService, FeatureStore, FeatureView, Field
from feast.data_source import PushMode, PushSource
from feast.errors import FeatureNameCollisionError
from feast.on_demand_feature_view import on_demand_feature_view
from feast.types import Float64, Int32, Int64, String
from feast.value_type import ValueType

import widetable as wt
from tests.widetable.derive.versions.test_event_rows import (
    CASE_1,
    CASE_2,
    ENTITIES,
    MINUTE,
    features,
)
from tests.widetable.derive.versions.timed_table import TimedTable
from widetable_feast import WidetableSource

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(minutes=60)
USER = Entity(name="user", join_keys=["user"], value_type=ValueType.INT64)
ITEM = Entity(name="item", join_keys=["item"], value_type=ValueType.INT64)


def minute(number: float) -> datetime:
    return EPOCH + timedelta(minutes=number)


def store_of(folder: Path, warehouse: Path) -> FeatureStore:
    folder.mkdir()
    (folder / "feature_store.yaml").write_text(
        f"""
project: shop
registry: {folder}/registry.db
provider: local
offline_store:
  type: widetable_feast.WidetableOfflineStore
  warehouse: {warehouse}
online_store:
  type: sqlite
  path: {folder}/online.db
entity_key_serialization_version: 3
"""
    )
    return FeatureStore(str(folder))


def view(name: str = "scores", ttl: timedelta | None = HOUR, **source: Any) -> FeatureView:
    given = {"timestamp_field": "event", "created_timestamp_column": "_from", **source}
    return FeatureView(
        name=name,
        entities=[USER, ITEM],
        ttl=ttl,
        schema=[
            Field(name="user", dtype=Int64),
            Field(name="item", dtype=Int64),
            Field(name="f", dtype=Int32),
        ],
        source=WidetableSource(table="db.t", name=f"{name}_source", **given),
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FeatureStore]:
    """The features of the cases, applied."""
    features(tmp_path / "warehouse", is_fed=False)
    made = store_of(tmp_path / "repo", tmp_path / "warehouse")
    made.apply([USER, ITEM, view()])
    yield made
    made.teardown()


def entities(*rows: Any) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"user": user, "item": item, "event_timestamp": minute(at), "label": label}
            for (user, item), at, label in rows or ENTITIES
        ]
    )


def values(frame: pd.DataFrame, name: str = "f") -> list[Any]:
    return [None if pd.isna(value) else value for value in frame[name]]


def test_case_11_training_sets_follow_feast_s_rule(store: FeatureStore) -> None:
    job = store.get_historical_features(entities(), ["scores:f"])
    frame = job.to_df()
    assert values(frame) == CASE_1
    assert frame["label"].tolist() == [label for *_, label in ENTITIES]
    assert list(frame.columns) == ["user", "item", "event_timestamp", "label", "f"]
    known = store.get_historical_features(
        entities(), ["scores:f"], filter_by_created_timestamp=True
    )
    assert values(known.to_df()) == CASE_2


def test_case_11_materialized_features_are_those_of_the_table(
    store: FeatureStore, tmp_path: Path
) -> None:
    store.materialize(minute(-1), minute(200))
    keys = [
        {"user": user, "item": item} for user, item in ((1, 23), (12, 3), (5, 5), (7, 7), (8, 8))
    ]
    online = store.get_online_features(["scores:f"], keys).to_dict()
    table = wt.Catalog(str(tmp_path / "warehouse")).table("db.t")
    rows = {(row["user"], row["item"]): row["f"] for row in table.lookup(keys[:4]).to_pylist()}
    assert online["f"] == [rows.get((key["user"], key["item"])) for key in keys]
    assert online["f"] == [10, 99, 4, 7, None]


def test_case_11_a_range_limits_what_is_materialized(store: FeatureStore) -> None:
    store.materialize(minute(5), minute(25))
    online = store.get_online_features(
        ["scores:f"], [{"user": 5, "item": 5}, {"user": 1, "item": 23}]
    ).to_dict()
    assert online["f"] == [3, None], "the newest of minute 5 to 25, and none at minute 0"


def test_case_11_pushed_rows_are_written_and_read(store: FeatureStore, tmp_path: Path) -> None:
    pushed = PushSource(name="pushed", batch_source=view("live", None).batch_source)
    live = FeatureView(
        name="live", entities=[USER, ITEM], ttl=None, schema=view().schema, source=pushed
    )
    store.apply([live])
    row = {"user": [70], "item": [7], "f": [5], "event": [minute(3)]}
    store.push("pushed", pd.DataFrame(row), to=PushMode.OFFLINE)
    table = wt.Catalog(str(tmp_path / "warehouse")).table("db.t")
    (found,) = table.lookup([{"user": 70, "item": 7}]).to_pylist()
    assert (found["f"], found["event"]) == (5, minute(3).replace(tzinfo=None))
    later = entities(((70, 7), 4, "x"))
    assert values(store.get_historical_features(later, ["live:f"]).to_df()) == [5]


def test_case_11_without_entities_all_keys_at_the_end_of_the_range(store: FeatureStore) -> None:
    job = store.get_historical_features(
        None, ["scores:f"], start_date=minute(5), end_date=minute(100)
    )
    frame = job.to_df().sort_values("user").reset_index(drop=True)
    assert frame["user"].tolist() == [1, 5, 7, 12]
    assert values(frame) == [None, 4, 7, None]
    assert set(frame["event_timestamp"]) == {pd.Timestamp(minute(100))}


def test_case_11_two_views_with_one_join_key_renamed(store: FeatureStore) -> None:
    """The features of who looks, and of who sold: one table, two keys of the entities."""
    seen = view().with_name(
        "seen"
    )  # Feast cannot compare a view that has an alias with one that has none
    sold = view().with_name("sold").with_join_key_map({"user": "seller"})
    service = FeatureService(name="both", features=[seen, sold])
    store.apply([service])
    frame = entities(((1, 23), 50, "a"), ((8, 5), 20, "e")).assign(seller=[12, 5])
    frame["item"] = [23, 5]
    found = store.get_historical_features(frame, service, full_feature_names=True).to_df()
    assert values(found, "seen__f") == [10, None]
    assert values(found, "sold__f") == [None, 3]


def test_features_as_they_were_known_by_the_commit(tmp_path: Path) -> None:
    timed = TimedTable(tmp_path / "warehouse", {"user": "BIGINT", "city": "STRING"}, ["user"])
    timed.write(10 * MINUTE, {"user": 1, "city": "Oslo"})
    timed.write(20 * MINUTE, {"user": 1, "city": "Rome"})
    timed.delete(30 * MINUTE, {"user": 1})
    store = store_of(tmp_path / "repo", tmp_path / "warehouse")
    home = FeatureView(
        name="home",
        entities=[USER],
        ttl=None,
        schema=[Field(name="user", dtype=Int64), Field(name="town", dtype=String)],
        source=WidetableSource(table="db.t", field_mapping={"city": "town"}),
    )
    store.apply([USER, home])
    frame = pd.DataFrame({"user": [1] * 4, "event_timestamp": map(minute, (9, 10, 29, 30))})
    found = store.get_historical_features(frame, ["home:town"]).to_df()
    assert values(found, "town") == [None, "Oslo", "Rome", None]


def test_without_entities_the_columns_are_there(store: FeatureStore) -> None:
    none = entities(ENTITIES[0]).iloc[:0]
    found = store.get_historical_features(none, ["scores:f"]).to_arrow()
    assert found.num_rows == 0
    assert found.column_names == ["user", "item", "event_timestamp", "label", "f"]


def test_a_source_without_a_created_timestamp_counts_what_came_later(store: FeatureStore) -> None:
    store.apply([view("any", created_timestamp_column=None)])
    how = {"filter_by_created_timestamp": True}
    assert values(store.get_historical_features(entities(), ["any:f"], **how).to_df()) == CASE_1
    both = store.get_historical_features(
        entities(), ["any:f", "scores:f"], full_feature_names=True, **how
    ).to_df()
    assert values(both, "any__f") == CASE_1
    assert values(both, "scores__f") == CASE_2


@pytest.mark.parametrize("unit", ["seconds", "millis", "micros", "nanos"])
def test_times_may_be_numbers(tmp_path: Path, unit: str) -> None:
    factor = {"seconds": 1, "millis": 10**3, "micros": 10**6, "nanos": 10**9}[unit]
    columns = {"user": "BIGINT", "f": "INT", "seen": "BIGINT"}
    options = {"sequence.field": "seen"}
    timed = TimedTable(tmp_path / "warehouse", columns, ["user"], options)
    for number in (10, 20):
        timed.write(number * MINUTE, {"user": 1, "f": number, "seen": number * 60 * factor})
    store = store_of(tmp_path / "repo", tmp_path / "warehouse")
    source = WidetableSource(table="db.t", timestamp_field="seen", timestamp_unit=unit)
    fields = [Field(name="user", dtype=Int64), Field(name="f", dtype=Int32)]
    store.apply(
        [USER, FeatureView(name="n", entities=[USER], ttl=None, schema=fields, source=source)]
    )
    frame = pd.DataFrame({"user": [1, 1], "event_timestamp": [minute(15), minute(25)]})
    assert values(store.get_historical_features(frame, ["n:f"]).to_df()) == [10, 20]
    store.materialize(minute(1), minute(15))
    assert store.get_online_features(["n:f"], [{"user": 1}]).to_dict()["f"] == [10]


def test_a_view_on_demand_is_computed_from_the_features(store: FeatureStore) -> None:
    def doubled(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"twice": rows["f"] * 2.0})

    twice = [Field(name="twice", dtype=Float64)]
    store.apply([on_demand_feature_view(sources=[view()], schema=twice)(doubled)])
    found = store.get_historical_features(entities(ENTITIES[0]), ["doubled:twice"]).to_df()
    assert values(found, "twice") == [20.0]


def test_a_source_in_the_registry_is_the_source_that_was_applied(store: FeatureStore) -> None:
    applied = view(timestamp_unit=None).batch_source
    assert store.get_feature_view("scores").batch_source == applied
    assert WidetableSource.from_proto(applied.to_proto()) == applied


def test_what_does_not_fit_is_refused_by_name(store: FeatureStore) -> None:
    with pytest.raises(wt.UnsupportedError, match="Run the query"):
        store.get_historical_features("select 1", ["scores:f"]).to_df()
    with pytest.raises(FeatureNameCollisionError):
        store.get_historical_features(entities(), ["scores:f", "scores:f"])
    with pytest.raises(wt.InvalidError, match="created_timestamp_column"):
        WidetableSource(table="db.t", created_timestamp_column="written_at")
    with pytest.raises(wt.InvalidError, match="timestamp_unit"):
        WidetableSource(table="db.t", timestamp_field="seen", timestamp_unit="weeks")
    no_time = entities(*ENTITIES[:2])
    no_time.loc[1, "event_timestamp"] = pd.NaT
    with pytest.raises(
        wt.InvalidError, match="'event_timestamp' of the entities: found null in row 1"
    ):
        store.get_historical_features(no_time, ["scores:f"]).to_df()
    job = store.get_historical_features(
        entities(ENTITIES[0]).assign(item=["not a number"]), ["scores:f"]
    )
    with pytest.raises(wt.InvalidError, match="column 'item' of the rows"):
        job.to_df()
