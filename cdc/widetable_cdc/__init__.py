"""Databases flow into tables: a full copy, then the log of changes, by one job, exactly once (docs/decisions/0073).

job = widetable_cdc.Sync("shop.toml")
status = job.run(until="caught-up")
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from widetable_cdc.debezium.debezium_apply import (
        DebeziumResult,
        DebeziumSettings,
        apply_debezium,
    )
    from widetable_cdc.jobs.config import SyncConfig, config_of, read_config
    from widetable_cdc.jobs.sync_status import SyncedTable, SyncStatus
    from widetable_cdc.jobs.verification import TableDifferences, VerifyReport
    from widetable_cdc.running.sync import Sync
else:
    from widetable_cdc.public_names import imported as __getattr__  # noqa: F401

__all__ = [
    "DebeziumResult",
    "DebeziumSettings",
    "Sync",
    "SyncConfig",
    "SyncStatus",
    "SyncedTable",
    "TableDifferences",
    "VerifyReport",
    "apply_debezium",
    "config_of",
    "read_config",
]
