"""Feast's offline store over tables: training sets by `Table.point_in_time` (docs/decisions/0085).

feature_store.yaml
    offline_store:
      type: widetable_feast.WidetableOfflineStore
      warehouse: /data/warehouse

Feast finds the store, its configuration and the source by their names in this package.
"""

from __future__ import annotations

from widetable_feast.offline_store import WidetableOfflineStore, WidetableOfflineStoreConfig
from widetable_feast.table_source import WidetableSource

__all__ = ["WidetableOfflineStore", "WidetableOfflineStoreConfig", "WidetableSource"]
