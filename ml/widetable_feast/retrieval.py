"""A read that Feast may carry out later: it holds no rows until it is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from feast.infra.offline_stores.offline_store import RetrievalJob, RetrievalMetadata
from feast.on_demand_feature_view import OnDemandFeatureView
from feast.saved_dataset import SavedDatasetStorage

from widetable import UnsupportedError


class WidetableRetrievalJob(RetrievalJob):
    """A read of tables. rows: reads them, each time that the job is asked for its rows."""

    def __init__(
        self,
        rows: Callable[[], pa.Table],
        *,
        full_feature_names: bool = False,
        on_demand: Sequence[OnDemandFeatureView] = (),
        metadata: RetrievalMetadata | None = None,
    ) -> None:
        self._rows = rows
        self._full_feature_names = full_feature_names
        self._on_demand = list(on_demand)
        self._metadata = metadata

    @property
    def full_feature_names(self) -> bool:
        """Whether features are named with their view."""
        return self._full_feature_names

    @property
    def on_demand_feature_views(self) -> list[OnDemandFeatureView]:
        """The views that Feast computes from the rows."""
        return self._on_demand

    @property
    def metadata(self) -> RetrievalMetadata | None:
        """What the job was asked for."""
        return self._metadata

    def _to_arrow_internal(self, timeout: int | None = None) -> pa.Table:
        return self._rows()

    def _to_df_internal(self, timeout: int | None = None) -> pd.DataFrame:
        return self._rows().to_pandas()

    def persist(
        self,
        storage: SavedDatasetStorage,
        allow_overwrite: bool = False,
        timeout: int | None = None,
    ) -> Any:
        """Raise UnsupportedError: a training set is kept by writing it into a table."""
        raise UnsupportedError(
            "persist",
            found=type(storage).__name__,
            expected="no storage: this offline store keeps no saved datasets",
            action="Write job.to_arrow() into a table or a file.",
        )
