"""Online features straight from tables: a request reads one snapshot of each table, by lookup sessions.

Feast reads the views of a request one after the other. The first view of a table takes its newest snapshot, the others
take the same one, whatever is committed meanwhile:

    request    view a: table t ─► snapshot 7        view b: table u ─► snapshot 3        view c: table t ─► snapshot 7
    commits                            t: snapshot 8

The table is what is served, so nothing is materialized into it, and a deleted row is not found. Each thread has its own
sessions, which keep the snapshot of its last request from expiry. A session that does not go on, because its table was
dropped and made again, is opened anew. Raises UnsupportedError for writes, InvalidError for values that Feast cannot
hold, and what lookups raise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Final, Literal, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from feast import Entity
from feast.feature_view import FeatureView
from feast.field import Field
from feast.infra.online_stores.online_store import OnlineStore
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import FeastConfigBaseModel, RepoConfig
from feast.type_map import feast_value_type_to_python_type, python_values_to_proto_values

from widetable import InvalidError, LookupSession, UnsupportedError, WidetableError
from widetable_feast.table_source import COMMIT_TIME, WidetableSource
from widetable_feast.view_request import table_source

_ARROW_UNIT: Final = {"seconds": "s", "millis": "ms", "micros": "us", "nanos": "ns"}

Row = tuple[datetime | None, dict[str, Value] | None]


class WidetableOnlineStoreConfig(FeastConfigBaseModel):
    """The section `online_store` of feature_store.yaml. The tables are those of the offline store's warehouse."""

    type: Literal["widetable_feast.WidetableOnlineStore"] = "widetable_feast.WidetableOnlineStore"


class _ThreadSessions(threading.local):
    """The sessions of a thread, by table and columns. pinned: the snapshots of a request by table; None outside."""

    def __init__(self) -> None:
        self.opened: dict[tuple[str, tuple[str, ...]], LookupSession] = {}
        self.pinned: dict[str, int | None] | None = None


class WidetableOnlineStore(OnlineStore):
    """Answers online requests from tables. Feast calls it."""

    def __init__(self) -> None:
        self._sessions = _ThreadSessions()

    def get_online_features(self, *arguments: Any, **named: Any) -> Any:
        """Return the features of a request, all views of a table from one snapshot."""
        with self._request():
            return super().get_online_features(*arguments, **named)

    def online_read(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> list[Row]:
        """Return the time and the features of each key; None for a key that the table does not have."""
        source = table_source(table.batch_source, f"feature view {table.name!r}")
        if not entity_keys:
            return []
        column_of = {feature: column for column, feature in source.field_mapping.items()}
        features = [field for field in table.features if _is_wanted(field.name, requested_features)]
        columns = [column_of.get(field.name, field.name) for field in features]
        keys = _keys_of(entity_keys)
        times = [] if source.timestamp_field == COMMIT_TIME else [source.timestamp_field]
        read = tuple(dict.fromkeys([*keys, *columns, *times]))
        with self._request():
            rows = self._session(config, source, read).lookup(keys)
        moments: Sequence[datetime | None] = [None] * rows.num_rows
        if times:
            moments = _moments(rows.column(times[0]), times[0], source.timestamp_unit)
        values = {
            field.name: _values(rows.column(name), field)
            for name, field in zip(columns, features, strict=True)
        }
        is_there = rows.column(next(iter(keys))).is_valid().to_pylist()
        return [
            (moments[row], {name: of_feature[row] for name, of_feature in values.items()})
            if is_there[row]
            else (None, None)
            for row in range(rows.num_rows)
        ]

    def online_write_batch(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[tuple[EntityKey, dict[str, Value], datetime, datetime | None]],
        progress: Callable[[int], Any] | None,
    ) -> NoReturn:
        """Refuse to write: a table is not filled from itself."""
        raise UnsupportedError(
            f"feature view {table.name!r}",
            found="features to be written into the online store",
            expected="a store that reads the view's table, which has them",
            action="Do not materialize. Push with to=PushMode.OFFLINE, which writes into the table.",
        )

    def update(
        self,
        config: RepoConfig,
        tables_to_delete: Sequence[FeatureView],
        tables_to_keep: Sequence[FeatureView],
        entities_to_delete: Sequence[Entity],
        entities_to_keep: Sequence[Entity],
        partial: bool,
    ) -> None:
        """Refuse views whose source is no table; there is nothing else to prepare."""
        for view in tables_to_keep:
            table_source(view.batch_source, f"feature view {view.name!r}")

    def teardown(
        self, config: RepoConfig, tables: Sequence[FeatureView], entities: Sequence[Entity]
    ) -> None:
        """Close the sessions of this thread. Tables stay."""
        for session in self._sessions.opened.values():
            session.close()
        self._sessions.opened.clear()

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Keep the snapshots that are read until the outermost block ends."""
        if self._sessions.pinned is not None:
            yield
            return
        self._sessions.pinned = {}
        try:
            yield
        finally:
            self._sessions.pinned = None

    def _session(
        self, config: RepoConfig, source: WidetableSource, columns: tuple[str, ...]
    ) -> LookupSession:
        """Return a session of the table at the snapshot of the request, the newest one for its first view."""
        opened, pinned = self._sessions.opened, self._sessions.pinned
        assert pinned is not None, "a session belongs to a request"
        at, place = pinned.get(source.table), (source.table, columns)
        session = opened.get(place)
        if session is not None and (at is None or session.snapshot_id != at):
            try:
                session.move(at)
            except WidetableError:
                # The table may be another one by now. If that is not it, opening says what is wrong.
                opened.pop(place).close()
                session = None
        if session is None:
            session = opened[place] = source.opened(config).lookup_session(columns, at)
        pinned[source.table] = session.snapshot_id
        return session


def _is_wanted(feature: str, requested: list[str] | None) -> bool:
    return requested is None or feature in requested


def _keys_of(entity_keys: list[EntityKey]) -> dict[str, list[Any]]:
    """Return the columns of the keys, by name."""
    keys: dict[str, list[Any]] = {name: [] for name in entity_keys[0].join_keys}
    for key in entity_keys:
        for name, value in zip(key.join_keys, key.entity_values, strict=True):
            keys[name].append(feast_value_type_to_python_type(value))
    return keys


def _values(column: pa.ChunkedArray, field: Field) -> list[Value]:
    """Return the values of a feature in the type of the view."""
    try:
        values: list[Value] = python_values_to_proto_values(
            column.to_pylist(), field.dtype.to_value_type()
        )
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as cause:
        raise _unfit(f"feature {field.name!r}", cause, f"values of {field.dtype}") from cause
    return values


def _moments(column: pa.ChunkedArray, name: str, unit: str | None) -> list[datetime | None]:
    """Return when the features happened, in UTC; finer parts than a microsecond are dropped."""
    try:
        if unit is not None:
            column = column.cast(pa.int64()).cast(pa.timestamp(_ARROW_UNIT[unit]))
        micros = pc.CastOptions(target_type=pa.timestamp("us"), allow_time_truncate=True)
        moments: list[datetime | None] = column.cast(options=micros).to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as cause:
        raise _unfit(f"column {name!r}", cause, "times of the years 1 to 9999") from cause
    return [moment and moment.replace(tzinfo=timezone.utc) for moment in moments]


def _unfit(subject: str, cause: Exception, expected: str) -> InvalidError:
    return InvalidError(
        subject,
        found=str(cause).splitlines()[0] if str(cause) else type(cause).__name__,
        expected=expected,
        action="Correct the rows, or the type of the feature in the view.",
    )
