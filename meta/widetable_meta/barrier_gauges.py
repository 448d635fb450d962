"""Gauges of every table under barriers, for Prometheus: how far it is, and what it waits for.

In: a catalog. Out: one gauge of each kind, with a sample for each table that has a value; docs/meta-service.md lists
them. A table whose barriers cannot be read has one sample, of `widetable_table_barriers_readable`; the gauges of other
tables are not affected. Raises what listing the tables raises.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from widetable import Catalog
from widetable.connector import WarningCode, barrier_standings, now_millis, warn

_log = logging.getLogger("widetable")


def barrier_gauges(catalog: Catalog) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of all tables under barriers, and which tables cannot be read."""
    barrier = GaugeMetricFamily(
        "widetable_table_barrier_seconds",
        "The barrier up to which a table is complete, since the epoch.",
        labels=["table"],
    )
    freshness = GaugeMetricFamily(
        "widetable_table_freshness_seconds", "How long ago it was.", labels=["table"]
    )
    missing = GaugeMetricFamily(
        "widetable_table_missing_writers",
        "Writers that the next barrier of a table waits for.",
        labels=["table"],
    )
    readable = GaugeMetricFamily(
        "widetable_table_barriers_readable",
        "Whether the barriers of a table under barriers can be read: 0 or 1.",
        labels=["table"],
    )
    common = GaugeMetricFamily(
        "widetable_common_barrier_seconds",
        "The newest barrier that is complete in all tables, since the epoch.",
    )
    standings, now_seconds = barrier_standings(catalog), now_millis() / 1000
    for name, one in standings.tables.items():
        readable.add_metric([name], 1)
        if one.barrier is not None:
            barrier.add_metric([name], one.barrier / 1000)
            freshness.add_metric([name], now_seconds - one.barrier / 1000)
        missing.add_metric([name], one.missing)
    for name, error in standings.unreadable.items():
        warn(
            _log, WarningCode.TABLE_NOT_MEASURED, "barriers of %s are not measured: %s", name, error
        )
        readable.add_metric([name], 0)
    if standings.common is not None:
        common.add_metric([], standings.common / 1000)
    yield from (readable, barrier, freshness, missing, common)
