"""The examples of README.md run as they stand, one after the other on the same table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"

SESSION = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
spark.sql("SELECT 1L AS id, 4 AS clicks, 11L AS clicked_at").write.parquet("/tmp/clicks")
"""
SHOW = """
print(sorted(tuple(row) for row in users.collect()))
spark.stop()
"""


def examples(folder: Path) -> list[str]:
    """The Python blocks, with their files in `folder` instead of /tmp."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return [block.replace("/tmp/", f"{folder}/") for block in blocks]


def run(program: str, folder: Path) -> str:
    command = [sys.executable, "-c", program]
    answer = subprocess.run(
        command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
    return answer.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("java_home")
def test_examples_run(tmp_path: Path) -> None:
    plain, spark = examples(tmp_path)
    assert "Oslo" in run(plain, tmp_path)
    out = run(SESSION.replace("/tmp/", f"{tmp_path}/") + spark + SHOW, tmp_path)
    assert out.splitlines()[-1] == "[(1, 4, 'Rome'), (2, 5, 'Oslo')]"
