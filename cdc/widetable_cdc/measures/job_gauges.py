"""The state of a job as gauges of Prometheus. Pure: a `SyncStatus` goes in, or None for a state that cannot be read.

widetable_cdc_readable{job}                               1; 0 without a state, and then no other gauge
widetable_cdc_confirmed_lsn, _server_lsn                  positions of the log, in bytes
widetable_cdc_behind_bytes, _held_bytes                   log that is not applied, and that the server keeps
widetable_cdc_slot_in_danger                              1 if the server may give up the log
widetable_cdc_bad_rows                                    rows in the table of errors
widetable_cdc_tables{job, status}                         tables by their status
widetable_cdc_table_lsn{job, table}                       up to which a target has the changes
widetable_cdc_table_chunks, _table_chunks_done            ranges of the full copy
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily

from widetable_cdc.jobs.followed_states import Status
from widetable_cdc.jobs.sync_status import SyncStatus

_IN_DANGER: Final = ("unreserved", "lost")


def job_gauges(job: str, status: SyncStatus | None) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a job. job: its name."""
    yield _of_job(job, "readable", "Whether the state of the job can be read.", status is not None)
    if status is None:
        return
    confirmed = status.confirmed_lsn
    if confirmed is not None:
        text = "Up to which position of the log all tables have the changes."
        yield _of_job(job, "confirmed_lsn", text, confirmed)
        text = "Log between that position and the end of the server's log."
        yield _of_job(job, "behind_bytes", text, status.behind_bytes)
    yield _of_job(job, "server_lsn", "Where the server's log ends.", status.server_lsn)
    yield _of_job(job, "held_bytes", "Log that the server keeps for the slot.", status.held_bytes)
    is_in_danger = status.wal_status in _IN_DANGER
    text = "Whether the server may give up the log that the slot needs."
    yield _of_job(job, "slot_in_danger", text, is_in_danger)
    yield _of_job(job, "bad_rows", "Rows in the table of errors.", status.errors)
    yield _by_status(job, status)
    yield from _of_tables(job, status)


def _of_job(job: str, name: str, text: str, value: float) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"widetable_cdc_{name}", text, labels=["job"])
    gauge.add_metric([job], float(value))
    return gauge


def _by_status(job: str, status: SyncStatus) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "widetable_cdc_tables", "Tables of the job, by status.", labels=["job", "status"]
    )
    counts = Counter(table.status for table in status.tables)
    for each in Status:
        gauge.add_metric([job, each.value], float(counts[each]))
    return gauge


def _of_tables(job: str, status: SyncStatus) -> Iterator[GaugeMetricFamily]:
    tables = status.tables
    yield _of_each(
        job,
        "lsn",
        "Up to which position a table has the changes.",
        ((table.relation, table.position) for table in tables),
    )
    yield _of_each(
        job,
        "chunks",
        "Ranges of the full copy of a table.",
        ((table.relation, table.chunks) for table in tables),
    )
    yield _of_each(
        job,
        "chunks_done",
        "Ranges of the full copy that are in the table.",
        ((table.relation, table.chunks_done) for table in tables),
    )


def _of_each(
    job: str, name: str, text: str, values: Iterable[tuple[str, int | None]]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"widetable_cdc_table_{name}", text, labels=["job", "table"])
    for table, value in values:
        if value is not None:
            gauge.add_metric([job, table], float(value))
    return gauge
