"""Case 16 for a whole job: a transaction of many rows is one commit of each of its tables, in bounded memory.

A million rows with WIDETABLE_CAMPAIGN, which make campaign sets; else 200,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cdc.faults.large_transaction import COLUMNS, TABLES, WRITE_BUFFER_MEBIBYTES
from tests.support.databases.postgres_server import postgres_server

ROWS = [100_000, 500_000] if "WIDETABLE_CAMPAIGN" in os.environ else [100_000]


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="no /proc says what a process has"
)
@pytest.mark.parametrize("rows", ROWS)
def test_a_large_transaction_is_one_commit_in_bounded_memory(tmp_path: Path, rows: int) -> None:
    """So many rows in each of two tables, inserted by one transaction and updated by another one."""
    program = Path(__file__).with_name("large_transaction.py")
    with postgres_server(autovacuum="off") as server:
        server.execute(*(f"create table {name} ({COLUMNS})" for name in TABLES))
        done = subprocess.run(
            [sys.executable, str(program), server.dsn, str(tmp_path), str(rows)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        *commits, first, second, taken = map(int, line.split())
        assert (commits, first, second) == ([1, 1], rows, rows)
        assert taken < WRITE_BUFFER_MEBIBYTES + 256
