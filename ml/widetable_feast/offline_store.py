"""What Feast asks of an offline store, answered from tables.

    get_historical_features           training_rows
    without entities                  all keys of the views at the end of the range
    pull_all, pull_latest             versions: materialization reads them
    offline_write_batch (push)        an upsert of the columns

Rows are read when a job is asked for them. Raises UnsupportedError for entities given as SQL and for logged features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
from feast.data_source import DataSource
from feast.feature_logging import LoggingConfig, LoggingSource
from feast.feature_view import FeatureView
from feast.infra.offline_stores.offline_store import (
    OfflineStore,
    RetrievalJob,
    RetrievalMetadata,
)
from feast.infra.offline_stores.offline_utils import infer_event_timestamp_from_entity_df
from feast.infra.registry.base_registry import BaseRegistry
from feast.on_demand_feature_view import OnDemandFeatureView
from feast.repo_config import FeastConfigBaseModel, RepoConfig
from feast.utils import compute_non_entity_date_range
from pydantic import StrictStr

from widetable import InvalidError, UnsupportedError
from widetable_feast.retrieval import WidetableRetrievalJob
from widetable_feast.training_rows import table_column, training_rows
from widetable_feast.versions import Versions
from widetable_feast.view_request import ViewRequest, table_source, view_requests

_TIME: Final = "event_timestamp"
_UTC: Final = pa.timestamp("us", "UTC")


class WidetableOfflineStoreConfig(FeastConfigBaseModel):
    """The section `offline_store` of feature_store.yaml. warehouse: the directory or URL of the tables."""

    type: Literal["widetable_feast.WidetableOfflineStore"] = "widetable_feast.WidetableOfflineStore"
    warehouse: StrictStr


class WidetableOfflineStore(OfflineStore):
    """Reads training sets out of tables, and writes what is pushed into them. Feast calls it."""

    supports_filter_by_created_timestamp = True

    @staticmethod
    def get_historical_features(
        config: RepoConfig,
        feature_views: list[FeatureView],
        feature_refs: list[str],
        entity_df: pd.DataFrame | str | None,
        registry: BaseRegistry,
        project: str,
        full_feature_names: bool = False,
        **options: Any,
    ) -> RetrievalJob:
        """Return a job for one row per row of the entities, in their order, as Feast's rule gives them.

        entity_df None: all keys that the tables of the views have, at the end of the range.
        """
        on_demand = OnDemandFeatureView.get_requested_odfvs(feature_refs, project, registry)
        wanted = [*feature_refs, *_inputs(on_demand)]
        requests = view_requests(feature_views, wanted, full_names=full_feature_names)
        as_known = bool(options.get("filter_by_created_timestamp", False))
        if entity_df is None:
            dates = {name: options.get(name) for name in ("start_date", "end_date")}
            begin, end = compute_non_entity_date_range(feature_views, **dates)
            at, entities = _TIME, partial(_all_keys, config, requests, end)
            bounds, keys = (begin, end), [name for one in requests[:1] for name in one.on]
            if dates["start_date"] is not None:
                requests = [one.within(end - begin) for one in requests]
        else:
            frame = _frame(entity_df)
            at = infer_event_timestamp_from_entity_df(dict(frame.dtypes))
            entities = partial(_entities, frame, at)
            times = pd.to_datetime(frame[at], utc=True)
            bounds, keys = (times.min(), times.max()), [n for n in frame.columns if n != at]

        def rows() -> pa.Table:
            return training_rows(config, requests, entities(), at, as_known=as_known)

        return WidetableRetrievalJob(
            rows,
            full_feature_names=full_feature_names,
            on_demand=on_demand,
            metadata=RetrievalMetadata(feature_refs, keys, *bounds),
        )

    @staticmethod
    def pull_latest_from_table_or_query(
        config: RepoConfig,
        data_source: DataSource,
        join_key_columns: list[str],
        feature_name_columns: list[str],
        timestamp_field: str,
        created_timestamp_column: str | None,
        start_date: datetime,
        end_date: datetime,
    ) -> RetrievalJob:
        """Return a job for the newest version of each key whose time is in the range, both ends with it."""
        columns = (tuple(join_key_columns), tuple(feature_name_columns), timestamp_field)
        wanted = Versions(
            table_source(data_source, "materialize"), *columns, created_timestamp_column
        )
        return WidetableRetrievalJob(
            lambda: wanted.shown(wanted.newest(wanted.read(config, start_date, end_date)))
        )

    @staticmethod
    def pull_all_from_table_or_query(
        config: RepoConfig,
        data_source: DataSource,
        join_key_columns: list[str],
        feature_name_columns: list[str],
        timestamp_field: str,
        created_timestamp_column: str | None = None,
        start_date: datetime | None = None,
        end_date: datetime | None = None,
    ) -> RetrievalJob:
        """Return a job for all versions whose time is in the range, both ends with it."""
        columns = (tuple(join_key_columns), tuple(feature_name_columns), timestamp_field)
        wanted = Versions(
            table_source(data_source, "materialize"), *columns, created_timestamp_column
        )
        return WidetableRetrievalJob(
            lambda: wanted.shown(wanted.read(config, start_date, end_date))
        )

    @staticmethod
    def offline_write_batch(
        config: RepoConfig,
        feature_view: FeatureView,
        table: pa.Table,
        progress: Callable[[int], Any] | None,
    ) -> None:
        """Upsert the columns that the table has, in one commit."""
        target = table_source(feature_view.batch_source, feature_view.name).opened(config)
        names = [name for name in table.column_names if name in target.schema.names]
        missing = [key for key in target.schema.primary_keys if key not in names]
        if missing:
            raise InvalidError(
                f"rows for feature view {feature_view.name!r}",
                found=f"the columns {', '.join(table.column_names)}",
                expected=f"the key of {target.path}, with {', '.join(missing)}",
                action="Add the columns of the key.",
            )
        columns = {name: table_column(table, name, target, name) for name in names}
        target.write(pa.table(columns))
        if progress is not None:
            progress(table.num_rows)

    @staticmethod
    def write_logged_features(
        config: RepoConfig,
        data: pa.Table | Path,
        source: LoggingSource,
        logging_config: LoggingConfig,
        registry: BaseRegistry,
    ) -> None:
        """Raise UnsupportedError: Feast's logs have no table of ours yet."""
        raise UnsupportedError(
            "write_logged_features",
            found=f"a log of {type(source).__name__}",
            expected="features that are read or pushed",
            action="Log features with another offline store.",
        )


def _inputs(views: Sequence[OnDemandFeatureView]) -> list[str]:
    """Return the references of what views on demand are computed from."""
    return [
        f"{projection.name_to_use()}:{feature.name}"
        for view in views
        for projection in view.source_feature_view_projections.values()
        for feature in projection.features
    ]


def _frame(entity_df: pd.DataFrame | str) -> pd.DataFrame:
    if isinstance(entity_df, pd.DataFrame):
        return entity_df
    raise UnsupportedError(
        "entity_df",
        found=f"a {type(entity_df).__name__}",
        expected="a pandas DataFrame, or None",
        action="Run the query, and pass its rows.",
    )


def _entities(frame: pd.DataFrame, at: str) -> pa.Table:
    """Return the entities with times in UTC; their index is left out."""
    return pa.Table.from_pandas(
        frame.assign(**{at: pd.to_datetime(frame[at], utc=True)}), preserve_index=False
    ).replace_schema_metadata(None)


def _all_keys(config: RepoConfig, requests: Sequence[ViewRequest], end: datetime) -> pa.Table:
    """Return all keys of the tables of the requests, once each, with one time."""
    names = {tuple(sorted(one.on)) for one in requests}
    if len(names) != 1:
        raise InvalidError(
            "entity_df",
            found=f"None, for views with the keys {' and '.join(map(str, sorted(names)))}",
            expected="views with equal join keys",
            action="Pass the entities.",
        )
    parts = []
    for one in requests:
        rows = one.source.opened(config).scan(columns=list(one.on.values())).to_arrow()
        parts.append(rows.rename_columns(list(one.on)).select(sorted(one.on)))
    keys = pa.concat_tables(parts).group_by(sorted(requests[0].on)).aggregate([])
    return keys.append_column(_TIME, pa.array([end] * keys.num_rows, _UTC))
