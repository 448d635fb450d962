"""Buffers come from the C library's allocator, unless the user chose another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from widetable.storage.memory_pool import is_better_replaced

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys
import pyarrow as pa
import widetable as wt
schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
table = wt.Catalog(sys.argv[1]).create_table("db.t", schema, primary_key=["k"])
before = pa.default_memory_pool().backend_name
table.write(pa.table({"k": [1]}))
print(before, pa.default_memory_pool().backend_name)
"""


def test_only_the_default_of_linux_is_replaced() -> None:
    assert is_better_replaced("linux", "mimalloc", None)
    assert not is_better_replaced("linux", "mimalloc", "mimalloc")
    assert not is_better_replaced("linux", "jemalloc", None)
    assert not is_better_replaced("linux", "system", None)
    assert not is_better_replaced("darwin", "mimalloc", None)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is replaced")
@pytest.mark.parametrize(("chosen", "after"), [("", "system"), ("mimalloc", "mimalloc")])
def test_a_write_replaces_it_and_no_choice_of_the_user(
    tmp_path: Path, chosen: str, after: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "ARROW_DEFAULT_MEMORY_POOL": chosen},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["mimalloc", after]
