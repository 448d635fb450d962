"""The example of docs/explain-a-value.md runs as it stands, and prints what stands below it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.test_readme import run

PAGE = Path(__file__).resolve().parent.parent / "docs/explain-a-value.md"


def test_the_example_prints_what_it_says(tmp_path: Path) -> None:
    block, said = re.findall(
        r"```(?:python)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    out = run(str(block).replace("/tmp/", f"{tmp_path}/"), tmp_path, dict(os.environ))
    assert out == said
