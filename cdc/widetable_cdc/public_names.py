"""The modules of the public names, which are imported at their first use: records of Debezium need no driver."""

from __future__ import annotations

from typing import Final

from widetable.connector import late_names

HOMES: Final = {
    "DebeziumResult": "debezium.debezium_apply",
    "DebeziumSettings": "debezium.debezium_apply",
    "Sync": "running.sync",
    "SyncConfig": "jobs.config",
    "SyncStatus": "jobs.sync_status",
    "SyncedTable": "jobs.sync_status",
    "TableDifferences": "jobs.verification",
    "VerifyReport": "jobs.verification",
    "apply_debezium": "debezium.debezium_apply",
    "config_of": "jobs.config",
    "read_config": "jobs.config",
}
imported = late_names("widetable_cdc", HOMES)
