"""pypaimon, for scenarios that it takes part in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pairs.pypaimon_client import PypaimonClient


@pytest.fixture(scope="module")
def pypaimon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PypaimonClient]:
    """Its process starts when it is asked for first."""
    folder = tmp_path_factory.mktemp("pypaimon")
    with PypaimonClient(lambda: str(request.getfixturevalue("interop_python")), folder) as client:
        yield client
