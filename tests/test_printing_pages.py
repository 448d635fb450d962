"""The examples of pages that show what they print run as they stand, and print what stands below them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.test_readme import run

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize("page", ["explain-a-value.md", "count-and-collect.md"])
def test_the_example_prints_what_it_says(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    block, said = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
    out = run(str(block).replace("/tmp/", f"{tmp_path}/"), tmp_path, dict(os.environ))
    assert out == said
