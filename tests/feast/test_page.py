"""docs/from-feast.md does what it says (make feast)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs.pages import ROOT, blocks_of

pytest.importorskip("feast", reason="Feast, which pip fetches: make feast")

PAGE = "docs/from-feast.md"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    page = blocks_of((ROOT / PAGE).read_text(), PAGE)
    (settings,) = [block.text for block in page if block.language == "yaml"]
    (tmp_path / "feast").mkdir()
    (tmp_path / "feast/feature_store.yaml").write_text(settings.replace("/tmp/", f"{tmp_path}/"))
    chosen = [block for block in page if block.language == "py"]
    program = "\n".join(block.text for block in chosen).replace("/tmp/", f"{tmp_path}/")
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Feast prints its progress between them.
    for block in chosen:
        assert (block.printed or "") in done.stdout
