"""Tables whose snapshots have times of one's choice: their files are written anew, as another client's clock had it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import widetable as wt


@dataclass
class DatedTable:
    """Snapshot n has n rows."""

    table: wt.Table
    snapshots: int = 0

    def add(self, time: datetime, watermark: int | None = None) -> None:
        """One more row, and snapshot. time: local."""
        self.snapshots += 1
        self.table.write({"k": [self.snapshots], "v": [0]})
        path = Path(self.table.path, f"snapshot/snapshot-{self.snapshots}")
        body = json.loads(path.read_text())
        body["timeMillis"] = int(time.timestamp() * 1000)
        if watermark is not None:
            body["watermark"] = watermark
        path.write_text(json.dumps(body))


def dated_table(folder: Path, options: Mapping[str, str]) -> DatedTable:
    own = {"write-only": "true", "bucket": "1", "widetable.fsync": "false", **options}
    columns = {"k": "INT", "v": "INT"}
    table = wt.Catalog(str(folder)).create_table("db.t", columns, primary_key=["k"], options=own)
    return DatedTable(table)
