"""The example of docs/branches.md runs as it stands."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.documentation.test_readme import run

PAGE = Path(__file__).resolve().parents[2] / "docs/branches.md"


def test_the_example_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    said = run(block, tmp_path, dict(os.environ))
    assert re.findall(r"(Rome|Roma)", said) == ["Rome", "Roma", "Roma"]
