"""A writer of a table under barriers whose process is gone."""

from __future__ import annotations

import json
import time
from pathlib import Path


def unheard_of(warehouse: Path, table: str, writer: str, minutes: int) -> None:
    """As if its process had been killed that long ago, on another machine. table: its directory."""
    (path,) = warehouse.glob(f"{table}/service/widetable-writer-{writer}")
    body = json.loads(path.read_text())
    body["expires_millis"] = (int(time.time()) - minutes * 60 + 60) * 1000
    path.write_text(json.dumps({**body, "process": None, "run": "another"}))
