"""Where the demo keeps everything: one folder, removed at the start of each run.

Every path of the demo is built here. Nothing outside `root` is ever written or removed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

DEFAULT_ROOT = Path("build/demo")
_PARTS = ("input", "warehouse", "checkpoints", "caches", "spark", "report.html")


@dataclass(frozen=True)
class Workspace:
    """The folder tree of one run."""

    root: Path

    @property
    def dataset(self) -> Path:
        """The Parquet copies of the source tables that Spark joins."""
        return self.root / "input" / "dataset"

    @property
    def facts(self) -> Path:
        """The outcome of the plain Spark join: one row per flight, every column final."""
        return self.root / "input" / "facts"

    def stream(self, group: str) -> Path:
        """The folder with all files of a stream."""
        return self.root / "input" / "streams" / group

    def database(self, group: str) -> Path:
        """The rows that the database had of a dimension at the end."""
        return self.root / "input" / "database" / f"{group}.parquet"

    def arrived(self, group: str) -> Path:
        """The folder that a streaming query watches, by its name: the files that have come so far."""
        return self.root / "input" / "arrived" / group

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"

    def checkpoint(self, query: str) -> Path:
        """Of a streaming query, by its name."""
        return self.root / "checkpoints" / query

    @property
    def lookup_caches(self) -> Path:
        """Local copies of data files in which compactions and lookups find rows by key."""
        return self.root / "caches"

    @property
    def spark_scratch(self) -> Path:
        return self.root / "spark"

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    def clean(self) -> None:
        """Remove what an earlier run left, and nothing else, and make the root."""
        for part in _PARTS:
            path = self.root / part
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.root.mkdir(parents=True, exist_ok=True)
