"""Random histories of append tables on a disk (`history`).

WIDETABLE_APPEND_HISTORIES: how many histories of each kind (default 3).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.append.history import run_history
from tests.append.model import FILE_INDEXES, KINDS, made

HISTORIES = int(os.environ.get("WIDETABLE_APPEND_HISTORIES", "3"))


@pytest.mark.parametrize("attempt", range(HISTORIES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_rows_of_its_history(
    tmp_path: Path, rng: random.Random, kind: str, attempt: int
) -> None:
    options = {"target-file-size": "4 kb"} if attempt % 2 else {}
    if attempt % 3:
        options |= FILE_INDEXES | {"file-index.in-manifest-threshold": rng.choice(["0 b", "1 mb"])}
    table = made(tmp_path, kind, parts=rng.random() < 0.5, **options)
    run_history(table, rng, kind, steps=30)
