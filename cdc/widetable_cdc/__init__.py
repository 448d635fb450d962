"""Databases flow into tables: a full copy, then the log of changes, by one job, exactly once (docs/decisions/0073).

Importing it imports no driver of a database.
"""

from __future__ import annotations

from widetable_cdc.debezium.debezium_apply import (
    DebeziumResult,
    DebeziumSettings,
    apply_debezium,
)

__all__ = ["DebeziumResult", "DebeziumSettings", "apply_debezium"]
