"""The page of the service does what it says: its tables are served, and its client prints what stands below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.meta.service_process import serving
from tests.page_program import python
from tests.pages import ROOT, blocks

PAGE = "docs/meta-service.md"
SERVED = "http://127.0.0.1:9096"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    made, command, asked = blocks(ROOT / PAGE)
    assert (made.language, command.language, asked.language) == ("python", "bash", "python")
    install, serve = command.text.splitlines()
    assert install == "pip install 'widetable[meta]'"
    assert serve == f"widetable meta serve /tmp/shop --port {SERVED.rpartition(':')[2]}"
    names: dict[str, Any] = {}
    python(made.text.replace("/tmp", str(tmp_path)), names)
    with serving(tmp_path / "shop") as (service,):
        text = asked.text.replace("/tmp", str(tmp_path)).replace(SERVED, service.url)
        assert asked.printed == python(text, names)
