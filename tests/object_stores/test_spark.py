"""Spark on tables in an object store; tests/cluster has a cluster of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY, environment
from tests.support.faults.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
JARS = os.environ.get("WIDETABLE_HADOOP_AWS", "")


def test_options_go_to_the_tasks_and_into_no_plan_log_or_file(
    server: int, place: str, tmp_path: Path, java_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    endpoint = f"http://127.0.0.1:{server}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.object_stores.stored_job", place, endpoint, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    rows = [[1, "a"], [2, "b"], [11, "aa"], [12, "bb"]]
    assert found["format"] == found["read"] == rows
    assert found["snapshots"] == 4
    assert "nothing" in found["error"]
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in done.stdout
        assert secret not in done.stderr
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not [path for path in written if secret.encode() in path.read_bytes()]


@pytest.mark.skipif(not JARS, reason="no hadoop-aws in WIDETABLE_HADOOP_AWS (docs/deploy.md)")
def test_spark_scans_by_itself_where_hadoop_has_a_connector(
    server: int, place: str, java_home: str
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.object_stores.hadoop_job"),
            *(place.replace("s3:", "s3a:"), f"http://127.0.0.1:{server}", JARS),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment(server)},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    whole, mixed = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    for found in (whole, mixed):
        assert found["scans_itself"]
        assert found["rows"] == found["own"]
    assert (len(whole["rows"]), len(mixed["rows"])) == (27, 33)
    assert (whole["filtered"], mixed["filtered"]) == ([1, 2], [1, 2])
