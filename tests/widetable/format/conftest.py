"""Where the tests of data files put theirs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a data file that is not there yet, in a directory that is not there yet."""
    return tmp_path / "bucket-0" / "data-1.parquet"
