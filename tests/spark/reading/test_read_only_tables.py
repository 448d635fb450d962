"""Queries of tables that their user may not write: reads go on without a lease, others say why they need write access.

A process of its own, with its JVM and its workers: where tests run as root, permissions do not hold in this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.faults.unprivileged import read_only, without_privileges

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PROGRAM = Path(__file__).with_name("read_only_queries.py")
DIM = {"bucket": "1", "index.code": "shop.by_code"}
GIVEN: Mapping[str, Any] = {
    "load": [[7, 70]],
    "read": [[7, 70]],
    "name": [[7, 70]],
    "changes": [[7, "+I"]],
    "inspect": True,
    "session": [[1, 2]],
    "join": [[7, 70]],
    "join by an index": [[70, 7]],
    "stream": [[7, 70]],
}
NEEDS: Mapping[str, str] = {
    "join of a stream": "write access to the table, which keeps which snapshot each micro-batch",
    "stream that keeps progress": "write access to the table, which keeps a consumer's progress",
    "write": "Permission denied",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, java_home: str) -> Mapping[str, Any]:
    assert java_home
    warehouse, scratch = tmp_path_factory.mktemp("wh"), tmp_path_factory.mktemp("scratch")
    catalog = wt.Catalog(warehouse)
    columns = {"id": "BIGINT", "code": "BIGINT"}
    dim = catalog.create_table("shop.dim", columns, primary_key=["id"], options=DIM)
    dim.write([{"id": 7, "code": 70}])
    dim.maintain(once=True)
    facts = catalog.create_table("shop.facts", {"id": "BIGINT"}, primary_key=["id"])
    facts.write([{"id": 7}])
    barriers = {"widetable.barrier-interval": "1 s"}
    columns = {"id": "BIGINT", "v": "INT"}
    catalog.create_table("shop.jobs", columns, primary_key=["id"], options=barriers)
    writer = catalog.writer("shop.jobs", "loader")
    writer.write([{"id": 1, "v": 2}], barrier=2_000)
    writer.complete(2_000)
    paths = [str(ROOT / part) for part in ("", "spark", "lookup", "meta")]
    with read_only(warehouse):
        ran = subprocess.run(
            [sys.executable, str(PROGRAM), str(warehouse), str(scratch)],
            preexec_fn=without_privileges(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found: Mapping[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("query", GIVEN)
def test_a_read_goes_on(answers: Mapping[str, Any], query: str) -> None:
    assert answers[query] == GIVEN[query]


@pytest.mark.parametrize("query", NEEDS)
def test_what_needs_write_access_says_so(answers: Mapping[str, Any], query: str) -> None:
    assert NEEDS[query] in str(answers[query])
