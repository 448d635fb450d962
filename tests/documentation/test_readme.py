"""The examples of README.md run as they stand, one after the other on the same table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.programs.pages import code

# Of a driver that was started by its path: .venv/bin/python job.py.
UNSET = ("PATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
SUBMIT = "--master local[1] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1"
SHOW = """
print(sorted(tuple(row) for row in users.collect()))
spark.stop()
"""


def examples(folder: Path) -> list[str]:
    """The Python blocks, with their files in `folder` instead of /tmp."""
    return [block.replace("/tmp/", f"{folder}/") for block in code("README.md")]


def run(program: str, folder: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", program]
    answer = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
    return answer.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("java_home")
def test_examples_run_by_the_path_of_the_interpreter_alone(tmp_path: Path) -> None:
    plain, spark = examples(tmp_path)
    environment = {key: value for key, value in os.environ.items() if key not in UNSET}
    assert "Oslo" in run(plain, tmp_path, environment)
    (tmp_path / "clicks").mkdir()
    clicks = {"id": [1], "clicks": pa.array([4], pa.int32()), "clicked_at": [11]}
    pq.write_table(pa.table(clicks), tmp_path / "clicks" / "1.parquet")
    environment["PYSPARK_SUBMIT_ARGS"] = f"{SUBMIT} pyspark-shell"
    out = run(spark + SHOW, tmp_path, environment)
    assert out.splitlines()[-1] == "[(1, 4, 'Rome'), (2, 5, 'Oslo')]"
