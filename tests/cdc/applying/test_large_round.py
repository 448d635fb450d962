"""Case 16: a transaction of a million rows is one commit, in the memory of the write buffer and 256 MiB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cdc.applying.large_round import WRITE_BUFFER_MEBIBYTES

ROWS = 1_000_000
_PEAK = Path("/proc/self/clear_refs")


@pytest.mark.slow
@pytest.mark.skipif(not os.access(_PEAK, os.W_OK), reason="the peak of a process cannot be reset")
def test_a_million_rows_are_one_commit_in_bounded_memory(tmp_path: Path) -> None:
    """Inserts, then updates whose big value each row has looked up. The changes themselves are the decoder's."""
    program = Path(__file__).with_name("large_round.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(ROWS)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        text=True,
    )
    rounds = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [(commits, rows) for commits, rows, *_ in rounds] == [(1, ROWS), (1, ROWS)]
    for _, _, changes, taken in rounds:
        assert changes > 200, "the changes are too small to show anything"
        assert taken < WRITE_BUFFER_MEBIBYTES + 256
