"""Gauges of every table of a warehouse, for Prometheus: what waits, who reads, how much there is, who maintains it.

In: tables by name, their `TableMeasures`. Out: one gauge of each kind, with a sample for each table that has a value;
docs/meta-service.md lists them, each with an alert. A table that cannot be read has one sample, of
`widetable_table_readable`; other tables are not affected. A table that was dropped meanwhile has none. Raises what
listing the tables raises.

A scrape costs a dozen small requests for each table, and one more for each of the last hundred commits that wait for a
compaction. The bytes of everything that a table names need the metadata of all its snapshots: they are computed at most
every five minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily

from widetable import Catalog, NotFoundError, WidetableError
from widetable.connector import LOOKS_BACK, MeasuredTable, WarningCode, measured, named_bytes, warn

_BYTES_SECONDS: Final = 300.0
_log = logging.getLogger("widetable")


class _Gauge(NamedTuple):
    """A gauge. value: of a table; None: the table has no value."""

    name: str
    sentence: str
    value: Callable[[MeasuredTable], float | None]


def _seconds(millis: int | None) -> float | None:
    return None if millis is None else millis / 1000


_GAUGES: Final = (
    _Gauge(
        "widetable_table_snapshots",
        "Snapshots that are kept.",
        lambda table: table.measures.snapshots,
    ),
    _Gauge(
        "widetable_table_last_commit_seconds",
        "When the newest snapshot was committed, since the epoch.",
        lambda table: None if table.latest is None else table.latest.time_millis / 1000,
    ),
    _Gauge(
        "widetable_table_commit_duration_seconds",
        "How long the newest commit took, lost races included.",
        lambda table: _seconds(table.measures.commit_millis),
    ),
    _Gauge(
        "widetable_table_level0_files",
        "Files that wait for a compaction.",
        lambda table: table.measures.backlog.files,
    ),
    _Gauge(
        "widetable_table_level0_age_seconds",
        "How long the oldest of them has waited at least; 0 where none waits.",
        lambda table: (table.measures.backlog.oldest_age_millis or 0) / 1000,
    ),
    _Gauge(
        "widetable_table_commits_without_changelog",
        "Commits that wait for the compaction which makes their changelog, of the last hundred.",
        lambda table: table.measures.commits_without_changelog,
    ),
    _Gauge(
        "widetable_table_sorted_runs",
        "Sorted runs that a read of the worst bucket merges.",
        lambda table: table.measures.sorted_runs,
    ),
    _Gauge(
        "widetable_table_snapshot_bytes",
        "Bytes of the data files of the newest snapshot.",
        lambda table: table.measures.snapshot_bytes,
    ),
    _Gauge(
        "widetable_table_maintainer_heartbeat_age_seconds",
        "Since the present or last holder of the compaction lease renewed it; none without a lease.",
        lambda table: _seconds(table.measures.silent_millis),
    ),
)


class TableGauges:
    """The gauges of one catalog. Threads may share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._named: dict[str, tuple[int, float]] = {}  # bytes, and when they were counted

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield all gauges, as the tables are now."""
        families = [
            GaugeMetricFamily(gauge.name, gauge.sentence, labels=["table"]) for gauge in _GAUGES
        ]
        readable = GaugeMetricFamily(
            "widetable_table_readable",
            "Whether the metadata of a table can be read: 0 or 1.",
            labels=["table"],
        )
        named = GaugeMetricFamily(
            "widetable_table_named_bytes",
            "Bytes of all files that snapshots, tags, branches and changelogs name.",
            labels=["table"],
        )
        lag = GaugeMetricFamily(
            "widetable_table_consumer_lag_snapshots",
            "Snapshots that a consumer has not read.",
            labels=["table", "consumer"],
        )
        names = self._catalog.list_tables()
        for name in names:
            try:
                table, size_bytes = self._measured(name)
            except NotFoundError:
                if name in self._catalog.list_tables():
                    readable.add_metric([name], 0)
                continue
            except WidetableError as error:
                warn(_log, WarningCode.TABLE_NOT_MEASURED, "%s is not measured: %s", name, error)
                readable.add_metric([name], 0)
                continue
            readable.add_metric([name], 1)
            named.add_metric([name], size_bytes)
            for consumer, behind in table.measures.consumers.items():
                lag.add_metric([name, consumer], behind.behind)
            for gauge, family in zip(_GAUGES, families, strict=True):
                value = gauge.value(table)
                if value is not None:
                    family.add_metric([name], value)
        self._named = {name: self._named[name] for name in names if name in self._named}
        yield from (readable, *families, named, lag)

    def _measured(self, name: str) -> tuple[MeasuredTable, int]:
        table = self._catalog.table(name)
        table_measures = measured(table, LOOKS_BACK)
        counted = self._named.get(name)
        if counted is None or time.monotonic() - counted[1] >= _BYTES_SECONDS:
            counted = self._named[name] = (named_bytes(table), time.monotonic())
        return table_measures, counted[0]
