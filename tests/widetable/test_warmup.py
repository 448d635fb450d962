"""After `widetable warmup` nobody compiles: what another process calls are kernels, and types, that it has called.

It fills the cache of all tests, which else would compile all kernels once more.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.test_readme import examples

ROOT = Path(__file__).parents[2]

# What a second process does besides: it finds the table as others left it.
OPENED = """
table = wt.Table.open("/tmp/warehouse/shop.db/users")
table.write(pa.table({"id": [1], "city": ["Bern"], "moved_at": [11]}))
table.compact(full=True)
table.scan().to_arrow()
"""
COMPILING = """
from widetable.kernels.jit import Kernel
Kernel.interprets = False
"""
# The last line: which kernels have code for which types.
CALLED = """
import json
from widetable.kernels.compiler import COMPILER
print(json.dumps([[d.py_func.__module__, d.py_func.__qualname__, str(types)]
                  for d in COMPILER.dispatchers for types in d.signatures]))
"""


def python(*arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def called(program: str) -> set[tuple[str, ...]]:
    """By a process that compiles, or loads, each kernel."""
    return {tuple(each) for each in json.loads(python("-c", program + CALLED).splitlines()[-1])}


@pytest.mark.slow
def test_a_process_after_a_warmup_compiles_nothing(tmp_path: Path) -> None:
    warm = called(
        "from widetable.warmup import warm_up\n"
        "from widetable_cdc.warmup import exercise\n"
        "warm_up([exercise])\n"
    )
    assert len(warm) > 50

    example = called(COMPILING + examples(tmp_path)[0])
    opened = f"import pyarrow as pa\nimport widetable as wt\n{OPENED}"
    again = called(COMPILING + opened.replace("/tmp", str(tmp_path)))
    assert len(example) > 10
    assert len(again) > 10
    assert example | again <= warm

    said = python("-m", "widetable", "warmup")
    assert re.findall(r"compiled +(\d+) times", said) == ["0"]
    directories = [Path(line.split()[1]) for line in said.splitlines() if "cache " in line]
    assert directories
    for directory in directories:
        assert [path for path in directory.iterdir() if path.suffix == ".nbc"]
