"""Which runs compaction may merge without changing the table (docs/decisions/0002).

    runs, newest first      c  b  a        a is the base: nothing older is left in the bucket
    ALWAYS                  c+b, then with a, is the same as c+b+a
    WITH_BASE               c+b+a only: c+b alone would lose its effect on a, such as a removal that an add follows
    NEVER                   a later commit may put a record between those of b and c: files are moved, not merged

The result depends on the files of a pick: without deletes in them more is allowed.
"""

from __future__ import annotations

from enum import Enum


class PartialMerge(Enum):
    """Which runs may be merged. ALWAYS: any neighbouring runs. WITH_BASE: only together with all older runs. NEVER:
    none; rows are merged when they are read.
    """

    ALWAYS = "always"
    WITH_BASE = "with base"
    NEVER = "never"
