"""Feast's stores over tables: training sets by `Table.point_in_time`, online features by lookups (docs/decisions/0085).

feature_store.yaml
    offline_store:
      type: widetable_feast.WidetableOfflineStore
      warehouse: /data/warehouse
    online_store:
      type: widetable_feast.WidetableOnlineStore

Feast finds the stores, their configuration and the source by their names in this package.
"""

from __future__ import annotations

from widetable_feast.offline_store import WidetableOfflineStore, WidetableOfflineStoreConfig
from widetable_feast.online_store import WidetableOnlineStore, WidetableOnlineStoreConfig
from widetable_feast.table_source import WidetableSource

__all__ = [
    "WidetableOfflineStore",
    "WidetableOfflineStoreConfig",
    "WidetableOnlineStore",
    "WidetableOnlineStoreConfig",
    "WidetableSource",
]
