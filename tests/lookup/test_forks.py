"""Children that are forked from a process with threads at work, caches open and kernels loaded do not hang.

WIDETABLE_CHILDREN: how many there are (default 4).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
CHILDREN = os.environ.get("WIDETABLE_CHILDREN", "4")
# The child writes, which builds caches, where its parent has built and opened some; then both exit.
_EXITS = """
import os, sys, warnings
warnings.simplefilter("ignore")
from tests.support.faults.forking_process import KEYS, create, rows
table = create(sys.argv[1], "t")
for number in range(3):
    table.write(rows(number))
table.lookup(KEYS)
child = os.fork()
table.write(rows(7))
table.lookup(KEYS)
if child:
    assert os.waitpid(child, 0)[1] == 0
sys.exit(0)
"""


def run(*command: str) -> None:
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=None if int(CHILDREN) > 20 else PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.usefixtures("cache_directory")
def test_a_child_of_a_process_with_caches_writes_and_exits(tmp_path: Path) -> None:
    run("-c", _EXITS, str(tmp_path))


@pytest.mark.usefixtures("cache_directory")
def test_children_of_a_process_with_threads_at_work_write_and_read(tmp_path: Path) -> None:
    run("-m", "tests.support.faults.forking_process", str(tmp_path), CHILDREN)
