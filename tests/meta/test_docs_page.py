"""The page of the service does what it says: its tables are served; its client, a catalog, the command line print what
stands below them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.meta.service_process import environment, serving
from tests.support.programs.page_program import RUN, python
from tests.support.programs.pages import ROOT, blocks

PAGE = "docs/meta-service.md"
SERVED = "http://127.0.0.1:9096"


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    made, command, *asked = blocks(ROOT / PAGE)
    assert [block.language for block in (made, command, *asked)] == [
        "python",
        "bash",
        "python",
        "python",
        "bash",
    ]
    install, serve = command.text.splitlines()
    assert install == "pip install 'widetable[meta]'"
    assert serve == f"widetable meta serve /tmp/shop --port {SERVED.rpartition(':')[2]}"
    names: dict[str, Any] = {}
    python(made.text.replace("/tmp", str(tmp_path)), names)
    with serving(tmp_path / "shop") as (service,):
        for block in asked:
            text = block.text.replace("/tmp", str(tmp_path)).replace(SERVED, service.url)
            assert block.printed == RUN[block.language](text, names)
