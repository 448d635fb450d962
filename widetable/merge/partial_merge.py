"""What compaction may merge without changing the table (docs/decisions/0002)."""

from __future__ import annotations

from enum import Enum


class PartialMerge(Enum):
    """ALWAYS: any neighbouring runs. WITH_BASE: only together with all older runs. NEVER: rows are merged when read."""

    ALWAYS = "always"
    WITH_BASE = "with base"
    NEVER = "never"
