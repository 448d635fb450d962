"""What works through Spark Connect, and what is refused (docs/deploy.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def test_tables_through_spark_connect(java_home: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="a Spark without its part for Connect")
    command = [sys.executable, "-m", "tests.spark.connect_client", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": java_home},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["format"] == [[1, "a"], [2, "b"]]
    assert found["read"] == [[2, "b"]]
    assert found["join"] == found["stream join"] == [[1, "a", "one"], [2, "b", None]]
    assert found["point in time"] == found["join"]
    assert found["windows"] == [[1, "a", 7], [2, "b", None]]
    assert found["changes"] == [[1, "a", "+I"], [2, "b", "+I"]]
    assert found["samples"] == [[1, "one", 1, False, "+I"]]
    assert found["sql"] == [[1, "a"]]
    maintain, unnamed, cdc = found["refused"]
    assert maintain.startswith("UnsupportedError")
    assert "widetable maintain" in maintain
    assert unnamed.startswith("InvalidError")
    assert "Give name=" in unnamed
    assert cdc.startswith("UnsupportedError")
    assert "`widetable cdc run`" in cdc
