"""docs/object-stores.md: its blocks print what stands below them, against a server here; it has all options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.object_stores.s3_server import environment, s3_server
from tests.support.programs.pages import ROOT, blocks
from widetable.storage.remote.storage_options import KNOWN

PAGE = ROOT / "docs/object-stores.md"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    with s3_server() as port:
        env = {name: value for name, value in os.environ.items() if name not in environment(port)}
        env |= {"PYTHONPATH": str(ROOT), "AWS_ENDPOINT": "http://127.0.0.1:9"}
        for block in blocks(PAGE):
            text = block.text.replace("https://store.example", f"http://127.0.0.1:{port}")
            text = text.replace("widetable ls", f"{sys.executable} -m widetable ls")
            command = (
                [sys.executable, "-c", text] if block.language == "python" else ["sh", "-c", text]
            )
            ran = subprocess.run(
                command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert (ran.returncode, ran.stdout) == (0, block.printed), ran.stderr
        assert (tmp_path / "store.json").exists()


def test_the_page_has_all_options() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [key for key in KNOWN if f"`{key}`" not in text] == []
