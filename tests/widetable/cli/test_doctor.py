"""`widetable doctor` of tables, databases and warehouses: what is unwise, and a command that mends each."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.branched import create, put
from widetable.cli.command_parser import parsed
from widetable.cli.commands import COMMANDS
from widetable.operations.health import bucket_advice


def torn_consumer(table: wt.Table) -> None:
    path = Path(table.path, "consumer", "consumer-a b")
    path.parent.mkdir()
    path.write_bytes(b"{")


def torn_tag(table: wt.Table) -> None:
    path = Path(table.path, "tag", "tag-$(x)")
    path.parent.mkdir()
    path.write_bytes(b"{")


def lost_file(table: wt.Table) -> None:
    Path(table.inspect.files()["path"][0].as_py()).unlink()


def unattended(table: wt.Table) -> None:
    table.alter_options({"write-only": "true", "num-sorted-run.compaction-trigger": "1"})
    for number in range(8):
        put(wt.Table.open(table.path), {number: "x"})


def many_runs(table: wt.Table) -> None:
    unattended(table)
    table.alter_options({"write-only": "false"})


def stopped_consumer(table: wt.Table) -> None:
    table.alter_options({"snapshot.num-retained.min": "1"})
    list(wt.Table.open(table.path).follow(consumer_id="it's", timeout=0))
    for number in range(12):
        put(wt.Table.open(table.path), {number: "x"})


def unsaid_buckets(table: wt.Table) -> None:
    path = Path(table.path, "schema", "schema-0")
    found = json.loads(path.read_text())
    del found["options"]["bucket"]
    path.write_text(json.dumps(found))


def files_of_nobody(table: wt.Table) -> None:
    days_ago = time.time() - 2 * 86_400
    for name in ("bucket-0/data-dead-0.parquet", "manifest/manifest-dead-0"):
        stray = Path(table.path, name)
        stray.write_bytes(bytes(2048))
        os.utime(stray, (days_ago, days_ago))


def nobody_for_two_hours(table: wt.Table) -> None:
    """Without a changelog, which writers would warn of; not so many files that reads are slow."""
    table.alter_options({"write-only": "true"})
    for number in range(5):
        put(wt.Table.open(table.path), {number: "x"})
    for path in Path(table.path, "snapshot").glob("snapshot-*"):
        body = json.loads(path.read_text())
        body["timeMillis"] -= 2 * 3_600_000
        path.write_text(json.dumps(body))


# How each is brought about, and the command that mends it; whether it does so by itself.
ILLS: dict[Callable[[wt.Table], None], tuple[str, ...]] = {
    torn_consumer: ("consumer", "delete"),
    torn_tag: ("tag", "delete"),
    lost_file: ("repair",),
    unattended: ("maintain",),
    nobody_for_two_hours: ("maintain",),
    many_runs: ("compact", "--full"),
    stopped_consumer: ("consumer", "delete"),
    unsaid_buckets: ("alter",),
    files_of_nobody: ("orphans",),
}
EACH = pytest.mark.parametrize("ill", ILLS, ids=lambda ill: ill.__name__)


def findings(path: str) -> list[dict[str, str]]:
    shown = run("doctor", path, "--json")
    body = json.loads(shown.stdout)
    assert shown.exit_code == (0 if body["ok"] else 1)
    found: list[dict[str, str]] = body["findings"]
    return found


@EACH
def test_a_finding_names_a_command_that_mends_it(
    tmp_path: Path, ill: Callable[[wt.Table], None]
) -> None:
    table = create(tmp_path / "a warehouse", bucket="1")
    put(table, {1: "a"})
    assert findings(table.path) == []
    ill(table)
    commands = [found["command"] for found in findings(table.path)]
    (command,) = [one for one in commands if one]
    if ill in (unattended, nobody_for_two_hours):
        (warning,) = table.inspect().warnings
        assert f"run {command}" in warning
    assert command in run("doctor", table.path).stdout
    program, name, *words = shlex.split(command)
    assert (program, (name, *words)[: len(ILLS[ill])]) == ("widetable", ILLS[ill])
    parsed(COMMANDS[name], words)
    extra = {"maintain": ["--once", "--quiet"], "repair": ["--yes"]}.get(name, [])
    assert run(name, *extra, *words).exit_code == 0
    assert findings(table.path) == []


@pytest.mark.parametrize(
    ("limits", "buckets", "wanted"),
    [
        ({"LARGE_BYTES": 100, "WANTED_BYTES": 500}, 1, None),
        ({"MANY_BUCKETS": 4, "SMALL_BYTES": 1 << 30}, 8, 1),
    ],
    ids=["large", "small"],
)
def test_sizes_of_buckets_that_do_not_fit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    buckets: int,
    wanted: int | None,
) -> None:
    table = create(tmp_path, bucket=str(buckets))
    put(table, dict.fromkeys(range(100), "a"))
    assert findings(table.path) == []
    for name, value in limits.items():
        monkeypatch.setattr(bucket_advice, name, value)
    size = sum(table.inspect.files()["size_bytes"].to_pylist())
    (found,) = findings(table.path)
    assert " bytes" not in found["found"] + found["expected"]
    number = wanted or -(-size // limits["WANTED_BYTES"])
    assert shlex.split(found["command"]) == ["widetable", "rescale", table.path, str(number)]
    assert run(*shlex.split(found["command"])[1:]).exit_code == 0
    assert {row["total_buckets"] for row in table.inspect.buckets().to_pylist()} == {number}
    assert table.scan().count() == 100


def test_one_large_partition_is_rescaled_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"day": "DATE", "k": "BIGINT", "v": "STRING"},
        primary_key=["day", "k"],
        partition_by=["day"],
        options={"bucket": "1", "widetable.fsync": "false"},
    )
    days = [date(2026, 1, 1)] * 1 + [date(2026, 1, 2)] * 1 + [date(2026, 1, 3)] * 500
    table.write({"day": days, "k": list(range(502)), "v": [str(k) * 9 for k in range(502)]})
    largest = max(table.inspect.files()["size_bytes"].to_pylist())
    monkeypatch.setattr(bucket_advice, "LARGE_BYTES", largest - 1)
    monkeypatch.setattr(bucket_advice, "WANTED_BYTES", largest // 3 + 1)
    (found,) = findings(table.path)
    words = shlex.split(found["command"])
    assert words[1:] == ["rescale", table.path, "3", "--partition", "day=2026-01-03"]
    assert run(*words[1:]).exit_code == 0
    assert sorted(row["total_buckets"] for row in table.inspect.buckets().to_pylist())[:2] == [1, 1]
    assert findings(table.path) == []


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """db.sound, db.ill, db.torn (a schema that is none), db.headless (snapshots without schemas), other.sound."""
    catalog = wt.Catalog(tmp_path)
    for name in ("db.sound", "db.ill", "db.torn", "db.headless", "other.sound"):
        table = catalog.create_table(
            name,
            {"k": "BIGINT", "v": "STRING"},
            primary_key=["k"],
            options={"widetable.fsync": "false"},
        )
        put(table, {1: "a"})
    lost_file(catalog.table("db.ill"))
    (tmp_path / "db.db/torn/schema/schema-0").write_bytes(b"{")
    shutil.rmtree(tmp_path / "db.db/headless/schema")
    (tmp_path / "db.db/no-table").mkdir()
    return tmp_path


def test_a_warehouse_is_looked_at_table_by_table(warehouse: Path) -> None:
    shown = run("doctor", str(warehouse), "--json")
    body = json.loads(shown.stdout)
    assert (shown.exit_code, shown.stderr, body["ok"]) == (1, "", False)
    said = {
        Path(one["path"]).relative_to(warehouse).as_posix(): one["ok"] for one in body["tables"]
    }
    assert said == {
        "db.db/headless": False,
        "db.db/ill": False,
        "db.db/sound": True,
        "db.db/torn": False,
        "other.db/sound": True,
    }
    lines = run("doctor", str(warehouse)).stdout.splitlines()
    assert lines[-1] == "5 tables, 3 with findings"
    for name in ("db.db/torn", "db.db/ill", "db.db/headless"):
        assert any(f"{warehouse}/{name}" in line for line in lines)


def test_a_database_is_looked_at_by_itself(warehouse: Path) -> None:
    sound = run("doctor", f"{warehouse}/other.db")
    assert (sound.exit_code, sound.stdout.splitlines()[-1]) == (0, "1 table, 0 with findings")
    assert run("doctor", f"{warehouse}/db.db").exit_code == 1
    nothing = run("doctor", f"{warehouse}/nowhere")
    assert (nothing.exit_code, nothing.stderr.partition(":")[0]) == (2, "NotFoundError")
