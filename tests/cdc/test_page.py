"""The page about databases does what it says: with a real server, from the first copy to a session over its tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documentation.test_pages import environment, is_as_said
from tests.support.databases.postgres_server import postgres_server
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.page_program import RUN
from tests.support.programs.pages import ROOT, blocks

PAGE = "docs/bring-a-database-along.md"


def in_a_process(text: str, names: dict[str, Any]) -> str:
    """A session of Spark is the only one of its process."""
    ran = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("java_home")
def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with postgres_server() as server:
        monkeypatch.setenv("SHOP_DSN", server.dsn)
        for block in blocks(ROOT / PAGE):
            text = block.text.replace("/tmp/", f"{tmp_path}{os.sep}")
            if text.startswith("pip install"):
                continue
            if block.language == "toml":
                Path("shop.toml").write_text(text, encoding="utf-8")
            elif block.language == "sql":
                server.execute(*filter(str.strip, text.split(";")))
            else:
                run = in_a_process if "pyspark" in text else RUN[block.language]
                printed = run(text, names).replace(f"{tmp_path}/", "/tmp/")
                assert block.printed is not None, f"{block.place}: {printed}"
                assert is_as_said(printed, block.printed), f"{block.place}\n{printed}"
