"""A job whose database Debezium reads: what its file says, and which entries of the others are refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.programs.pages import ROOT, blocks
from widetable_cdc import Sync, config_of, read_config
from widetable_cdc.jobs.config import Barriers


def entries(**changed: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "name": "shop",
        "tables": ["shop.*"],
        "source": source(),
        "target": {"warehouse": "/warehouse", "database": "mirror"},
    }
    return {**usual, **changed}


def source(**changed: Any) -> dict[str, Any]:
    properties = {"database.hostname": "db", "database.port": 3306, "database.user": "repl"}
    return {
        "kind": "debezium",
        "connector": "mariadb",
        "properties": properties,
        **changed,
    }


def test_a_short_file() -> None:
    config = config_of(entries())
    assert config.engine is not None
    assert config.engine.connector == "mariadb"
    assert config.engine.properties["database.port"] == "3306"
    assert config.engine.jars is None
    assert config.target.barriers is Barriers.NONE
    assert config.target_name("shop", "orders") == "mirror.orders"


def test_the_file_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    page = ROOT / "docs/mysql-and-mariadb.md"
    texts = [block.text for block in blocks(page) if block.language == "toml"]
    (tmp_path / "shop.toml").write_text(texts[0], encoding="utf-8")
    config = read_config(tmp_path / "shop.toml")
    assert config.engine is not None
    assert config.engine.jars == "/opt/debezium-mariadb"
    assert config.engine.properties["database.password"] == "secret"
    assert config.exclude == ("shop.audit_*",)


def test_a_password_is_of_the_environment_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    config = config_of(entries(source=source(**{"password-env": "SHOP_PASSWORD"})))
    assert config.engine is not None
    assert config.engine.properties["database.password"] == "secret"
    assert "secret" not in repr(config)
    monkeypatch.delenv("SHOP_PASSWORD")
    with pytest.raises(wt.InvalidError, match=r"source\.password-env.*SHOP_PASSWORD"):
        config_of(entries(source=source(**{"password-env": "SHOP_PASSWORD"})))


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"source": source(dsn="host=db")}, "source.dsn"),
        ({"source": source(**{"dsn-env": "X"})}, "source.dsn-env"),
        ({"source": source(slot="s")}, "source.slot"),
        ({"source": source(publication="p")}, "source.publication"),
        ({"target": {"warehouse": "/w", "database": "d", "barriers": "none"}}, "target.barriers"),
        ({"limits": {"chunk-rows": 5}}, "limits.chunk-rows"),
        ({"limits": {"max-held": "1 gb"}}, "limits.max-held"),
        ({"rules": {"drop-column": "drop"}}, "rules.drop-column"),
        ({"rules": {"decimal": "38,18"}}, "rules.decimal"),
        ({"rules": {"every-transaction": True}}, "rules.every-transaction"),
        ({"limits": {"retry-for": "1 s"}}, "limits.retry-for"),
        ({"table": {"shop.a": {"types": {"a": "INT"}}}}, 'table."shop.a".types'),
        ({"table": {"shop.a": {"partition": ["day"]}}}, 'table."shop.a".partition'),
        ({"table": {"shop.a": {"computed": {"x": "1"}}}}, 'table."shop.a".computed'),
        ({"table": {"shop.a": {"metadata": ["op_ts"]}}}, 'table."shop.a".metadata'),
        (
            {"table": {"shop.a": {"group": {"columns": ["a"], "sequence": "s"}}}},
            'table."shop.a".group',
        ),
    ],
)
def test_what_only_postgresql_has_is_refused_by_name(changed: dict[str, Any], name: str) -> None:
    with pytest.raises(wt.UnsupportedError, match=re.escape(f"entry '{name}'")):
        config_of(entries(**changed))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"source": source(kind="mysql")}, "source.kind"),
        ({"source": source(properties={"offset.storage": "x"})}, "offset.storage"),
        ({"source": source(unknown=1)}, "source.unknown"),
        ({"tables": ["orders"]}, "'orders'"),
        ({"exclude": ["orders"]}, "'orders'"),
        ({"source": {"kind": "debezium"}}, "source.connector"),
    ],
)
def test_other_entries_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(wt.InvalidError, match=re.escape(words)):
        config_of(entries(**changed))


def test_entries_of_debezium_are_none_of_postgresql() -> None:
    with pytest.raises(wt.InvalidError, match=r"source\.connector"):
        config_of(entries(source={"dsn": "host=db", "connector": "mysql"}))


@pytest.mark.parametrize("method", ["verify", "pause", "resume", "drop_slot", "prepare"])
def test_what_needs_a_slot_is_refused_by_name(method: str) -> None:
    job = Sync(entries())
    arguments = ("shop.orders",) if method in ("pause", "resume") else ()
    with pytest.raises(wt.UnsupportedError, match=rf"Sync\.{method}.*'mariadb'"):
        getattr(job, method)(*arguments)


def test_a_job_that_never_ran_has_a_state(tmp_path: Path) -> None:
    target = {"warehouse": str(tmp_path), "database": "mirror"}
    status = Sync(entries(target=target)).status()
    assert status.lines() == ["shop: in the full copy (mariadb)"]
    assert not status.needs_attention
    assert status.to_dict()["connector"] == "mariadb"


def test_jars_that_are_not_there_are_refused(tmp_path: Path) -> None:
    target = {"warehouse": str(tmp_path), "database": "mirror"}
    job = Sync(entries(source=source(jars=str(tmp_path)), target=target))
    with pytest.raises(wt.InvalidError, match=r"source\.jars.*no debezium-embedded jar"):
        job.run("copied")
