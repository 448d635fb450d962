"""The example of docs/keep-facts-wide.md runs as it stands, and prints what its comments say."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.test_readme import run

PAGE = Path(__file__).resolve().parent.parent / "docs/keep-facts-wide.md"


def test_the_example_prints_what_it_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    said = re.findall(r"(?:show\(\)|widened\.round\))  # (.*)", block)
    out = run(str(block).replace("/tmp/", f"{tmp_path}/"), tmp_path, dict(os.environ))
    first, second, lag = said
    assert out.splitlines() == [*first.split(", "), *second.split(", "), lag]
