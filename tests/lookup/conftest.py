"""A cache directory of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `process_caches` keeps caches; made by the first one."""
    directory = tmp_path / "caches"
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(directory))
    return directory
