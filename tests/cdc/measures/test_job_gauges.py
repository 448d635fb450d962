"""The gauges of a job: values of a state, and what Prometheus reads of a job that runs."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from widetable import InvalidError
from widetable_cdc import SyncedTable, SyncStatus
from widetable_cdc.jobs.followed_states import Status
from widetable_cdc.measures.job_gauges import job_gauges
from widetable_cdc.measures.metrics_endpoint import metrics_endpoint

__all__ = ["server"]  # a fixture

COPYING = SyncedTable("public.a", "shop.a", Status.COPYING, "", None, 8, 3)
PARKED = SyncedTable("public.b", "shop.b", Status.PARKED, "its key changed", 90, 0, 0)
STATUS = SyncStatus("shop", 100, 250, 4_096, "unreserved", 7, (COPYING, PARKED))


def values(status: SyncStatus | None) -> dict[tuple[str, ...], float]:
    return {
        (
            sample.name.removeprefix("widetable_cdc_"),
            *list(sample.labels.values())[1:],
        ): sample.value
        for gauge in job_gauges("shop", status)
        for sample in gauge.samples
    }


def test_gauges_are_those_of_the_state() -> None:
    found = values(STATUS)
    assert found["readable",] == 1
    assert found["confirmed_lsn",] == 100
    assert found["server_lsn",] == 250
    assert found["behind_bytes",] == 150
    assert found["held_bytes",] == 4_096
    assert found["slot_in_danger",] == 1
    assert found["bad_rows",] == 7
    assert {status: found["tables", status] for status in ("copying", "parked", "streaming")} == {
        "copying": 1,
        "parked": 1,
        "streaming": 0,
    }
    assert found["table_chunks", "public.a"] == 8
    assert found["table_chunks_done", "public.a"] == 3
    assert found["table_lsn", "public.b"] == 90
    assert ("table_lsn", "public.a") not in found, "a table without changes has no position"


def test_a_state_that_cannot_be_read_is_one_gauge() -> None:
    assert values(None) == {("readable",): 0}


def test_a_scrape_reads_the_state_as_it_is_now(server: PostgresServer, tmp_path: Path) -> None:
    with SyncedDatabase.made(server, tmp_path) as shop:
        shop.execute("create table t (id int primary key)", "insert into t values (1)")
        shop.run()
        with metrics_endpoint(shop.config(), "0") as port:
            assert _scraped(port)["widetable_cdc_tables", "streaming"] == 1
            shop.execute("insert into t values (2)")
            assert _scraped(port)["widetable_cdc_behind_bytes",] > 0
            shop.run()
            first = _scraped(port)
    assert first["widetable_cdc_behind_bytes",] < 10_000
    assert first["widetable_cdc_table_lsn", "public.t"] > 0


def test_a_server_that_does_not_answer_is_seen(server: PostgresServer, tmp_path: Path) -> None:
    with SyncedDatabase.made(server, tmp_path) as shop:
        config = shop.config(source={"dsn": "host=127.0.0.1 port=9 user=x dbname=x"})
        with metrics_endpoint(config, "127.0.0.1:0") as port:
            assert _scraped(port) == {("widetable_cdc_readable",): 0}


@pytest.mark.parametrize("address", ["", "host", "127.0.0.1:", "1:70000", "-1"])
def test_an_address_without_a_port_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="PORT"), metrics_endpoint(None, address):  # type: ignore[arg-type]
        pass


def test_a_port_that_is_taken_is_refused(server: PostgresServer, tmp_path: Path) -> None:
    with (
        SyncedDatabase.made(server, tmp_path) as shop,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InvalidError, match="free port"),
            metrics_endpoint(shop.config(), address),
        ):
            pass


def _scraped(port: int) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (
            sample.name,
            *[value for name, value in sample.labels.items() if name != "job"],
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
