"""The configuration of a job: what a file may say, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from widetable_cdc.jobs.config import Barriers, SyncConfig, config_of, read_config
from widetable_cdc.jobs.table_config import Group

SHORTEST = """
name = "shop"
tables = ["public.*"]
[source]
dsn = "host=db dbname=shop"
[target]
warehouse = "/warehouse"
database = "shop"
"""


def config(tmp_path: Path, text: str) -> SyncConfig:
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)


def test_a_short_file_has_the_defaults_of_the_page(tmp_path: Path) -> None:
    job = config(tmp_path, SHORTEST)
    assert job.user == "cdc/shop"
    assert (job.source.publication, job.source.slot) == ("widetable_shop", "widetable_shop")
    assert job.limits.max_changes == 100_000
    assert job.limits.max_delay_millis == 1_000
    assert job.limits.max_held_bytes == 10 * 1024**3
    assert job.limits.retry_seconds(has_goal=True) == 60
    assert job.limits.retry_seconds(has_goal=False) is None
    assert job.rules.on_error == "park"
    assert job.target.barriers is Barriers.LSN
    assert job.target_name("public", "orders") == "shop.orders"


def test_a_long_file(tmp_path: Path) -> None:
    job = config(
        tmp_path,
        SHORTEST
        + """
prefix = "crm_"
options = { bucket = 4, write-only = true }
[limits]
max-delay = "500 ms"
max-held = "1 gb"
retry-for = "0 s"
[rules]
truncate = "stop"
decimal = "38,18"
[table."public.orders"]
target = "all_orders"
key = ["id", "shop"]
[table."public.users"]
group = { columns = ["name", "city"], sequence = "crm_lsn" }
""",
    )
    assert job.target.options == {"bucket": "4", "write-only": "true"}
    assert job.limits.max_delay_millis == 500
    assert job.limits.max_held_bytes == 1024**3
    assert job.limits.retry_seconds(has_goal=False) == 0
    assert job.rules.truncate == "stop"
    assert job.rules.decimal == "38,18"
    assert job.target_name("public", "orders") == "shop.crm_all_orders"
    assert job.of("public", "orders").key == ("id", "shop")
    assert job.of("public", "users").group == Group(("name", "city"), "crm_lsn")
    assert job.of("public", "others").group is None


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"name": "Shop"}, "name"),
        ({"name": "a b"}, "name"),
        ({"tables": []}, "tables"),
        ({"tables": "public.*"}, "tables"),
        ({"source": {}}, "source.dsn"),
        ({"source": {"dsn-env": "WIDETABLE_NO_SUCH"}}, "source.dsn-env"),
        ({"target": {"warehouse": "/w"}}, "target.database"),
        ({"limit": {}}, "limit"),
        ({"limits": {"max-change": 1}}, "limits.max-change"),
        ({"limits": {"max-changes": 0}}, "limits.max-changes"),
        ({"limits": {"max-delay": "soon"}}, "limits.max-delay"),
        ({"limits": {"max-delay": 5}}, "limits.max-delay"),
        ({"limits": {"max-delay": "5"}}, "limits.max-delay.*with its unit, such as '5 s'"),
        ({"limits": {"max-held": " 5 "}}, "limits.max-held.*with its unit, such as '10 gb'"),
        ({"table": {"public.orders": {"types": ["a"]}}}, "table.public.orders.types"),
        ({"table": {"public.orders": {"types": {"a": 1}}}}, "table.public.orders.types.a"),
        ({"rules": {"truncate": "maybe"}}, "rules.truncate"),
        ({"rules": {"every-transaction": "yes"}}, "rules.every-transaction"),
        ({"table": {"orders": {}}}, "orders"),
        ({"table": {"public.orders": {"group": {"columns": ["a"]}}}}, "group.sequence"),
        ({"table": {"public.orders": {"keys": ["a"]}}}, "table.public.orders.keys"),
    ],
)
def test_a_wrong_entry_is_named(changed: dict[str, Any], names: str) -> None:
    entries: dict[str, Any] = {
        "name": "shop",
        "tables": ["public.*"],
        "source": {"dsn": "host=db"},
        "target": {"warehouse": "/w", "database": "shop"},
    }
    config_of(entries)
    with pytest.raises(wt.InvalidError, match=names):
        config_of(entries | changed)


def test_a_near_word_is_suggested() -> None:
    entries = {"nam": "shop"}
    with pytest.raises(wt.InvalidError, match="name"):
        config_of(entries)


def test_the_connection_string_is_not_printed(tmp_path: Path) -> None:
    job = config(tmp_path, SHORTEST.replace("host=db", "host=db password=secret"))
    assert "secret" not in repr(job)


def test_the_connection_string_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DSN", "host=elsewhere")
    job = config(tmp_path, SHORTEST.replace('dsn = "host=db dbname=shop"', 'dsn-env = "SHOP_DSN"'))
    assert job.source.dsn == "host=elsewhere"


def test_a_file_that_is_not_there_or_is_not_toml(tmp_path: Path) -> None:
    with pytest.raises(wt.NotFoundError, match="nowhere"):
        read_config(tmp_path / "nowhere.toml")
    with pytest.raises(wt.InvalidError, match="not TOML"):
        config(tmp_path, "name = ")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(wt.InvalidError, match="UTF-8"):
        read_config(tmp_path / "bytes.toml")
