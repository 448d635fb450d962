"""After `widetable warmup` nobody compiles: another process finds every kernel in the cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import examples

ROOT = Path(__file__).parents[2]

# What a second process does besides: it finds the table as others left it.
OPENED = """
table = wt.Table.open("/tmp/warehouse/shop.db/users")
table.write(pa.table({"id": [1], "city": ["Bern"], "moved_at": [11]}))
table.compact(full=True)
table.scan().to_arrow()
"""


@pytest.mark.slow
def test_a_process_after_a_warmup_compiles_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "kernels"

    compiling = "from widetable.kernels.jit import Kernel\nKernel.interprets = False\n"

    def python(*arguments: str) -> str:
        answer = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def cached() -> set[Path]:
        return {path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")}

    first = python("-m", "widetable", "warmup")
    warm = cached()
    assert warm
    assert int(re.findall(r"compiled +(\d+) times", first)[0]) > 0
    directories = {Path(line.split()[1]) for line in first.splitlines() if "cache " in line}
    assert directories == {path.parent for path in warm}

    python("-c", compiling + examples(tmp_path)[0])
    opened = f"import pyarrow as pa\nimport widetable as wt\n{OPENED}"
    python("-c", compiling + opened.replace("/tmp", str(tmp_path)))
    assert cached() - warm == set()
    assert re.findall(r"compiled +(\d+) times", python("-m", "widetable", "warmup")) == ["0"]
