"""Spark on tables in an object store; tests/cluster has a cluster of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.object_stores.s3_server import ACCESS_KEY, SECRET_KEY
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


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
