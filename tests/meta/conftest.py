"""A warehouse with a few tables, and its service: for each module of tests that only look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.meta.service_process import Service, serving
from tests.widetable.cli.test_meta import fill


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="module")
def service(warehouse: str) -> Iterator[Service]:
    with serving(warehouse) as (one,):
        yield one
