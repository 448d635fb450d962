"""After `widetable warmup` no job compiles: it calls the kernels and types that the warm-up has called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.databases.postgres_server import postgres_server
from tests.support.databases.synced_database import SyncedDatabase

ROOT = Path(__file__).parents[2]
COMPILING = """
import sys
from widetable.kernels.jit import Kernel
Kernel.interprets = False
from widetable import Catalog
"""
WARM = """
from widetable_cdc.warmup import exercise
exercise(Catalog(sys.argv[1]))
"""
JOB = """
import json
import pyarrow as pa
from widetable import InvalidError
from widetable_cdc import Sync, apply_debezium
Sync(json.loads(sys.argv[2])).run("caught-up")
for file in ("schema", "plain", "text"):
    lines = open(f"tests/fixtures/debezium/{file}.jsonl", encoding="utf-8").read().splitlines()
    records = [json.loads(line) for line in lines]
    for topic in {each["topic"] for each in records}:
        chosen = [each for each in records if each["topic"] == topic]
        table = pa.table({name: pa.array([each[name] for each in chosen], pa.string()) for name in ("key", "value")})
        name = f"{file}.{topic.rpartition('.')[2]}"
        try:
            apply_debezium(Catalog(sys.argv[1]), name, table, commit_user="c", key=["id"])
        except InvalidError as refused:  # tables without the key `id`
            print(refused)
"""
CALLED = """
import json
from widetable.kernels.compiler import COMPILER
print(json.dumps([[d.py_func.__module__, d.py_func.__qualname__, str(types)]
                  for d in COMPILER.dispatchers for types in d.signatures]))
"""


def called(program: str, *arguments: str) -> set[tuple[str, ...]]:
    """Return the kernels of this package, by a process that compiles, or loads, each kernel."""
    answer = subprocess.run(
        [sys.executable, "-c", COMPILING + program + CALLED, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    every = {tuple(each) for each in json.loads(answer.stdout.splitlines()[-1])}
    return {each for each in every if each[0].startswith("widetable_cdc")}


def test_a_job_after_a_warmup_compiles_nothing(tmp_path: Path) -> None:
    warm = called(WARM, str(tmp_path / "warm"))
    with postgres_server() as server, SyncedDatabase.made(server, tmp_path) as shop:
        shop.execute(
            "create table v (id bigint primary key, raw bytea, numbers int[], words text[], at timestamptz)",
            "insert into v values (1, '\\x00ff', '{1,null}', '{a,\"b c\"}', now())",
        )
        shop.run()
        shop.execute(
            "update v set raw = '\\x01' where id = 1",
            "update v set id = 2",
            "insert into v values (3, null, null, null, null)",
            "delete from v where id = 2",
        )
        entries = {
            "name": shop.name,
            "tables": ["public.*"],
            "source": {"dsn": shop.dsn},
            "target": {"warehouse": str(shop.warehouse), "database": "shop"},
        }
        job = called(JOB, str(tmp_path / "records"), json.dumps(entries))
    assert len(job) > 8
    assert job <= warm
