"""The local disk, forced and not."""

from __future__ import annotations

import pytest

from widetable.storage.local import LocalFileIO


@pytest.fixture(params=[True, False], ids=["fsync", "no fsync"])
def file_io(request: pytest.FixtureRequest) -> LocalFileIO:
    return LocalFileIO(fsync=request.param)
