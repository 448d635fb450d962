"""The columns that the history of a table has besides those of the table. On disk: never change.

    _from       TIMESTAMP(3)   the time of the snapshot that made the version
    _snapshot   BIGINT         its id
    _place      BIGINT         0: the row as the snapshot shows it; -n to -1: the n records of its changelog, in order
    _deleted    BOOLEAN        whether the row is not there; of a record, whether it removes

The primary key is that of the table, then `_from`, `_snapshot` and `_place`. So one commit may give a key many records,
and files are sorted by key and time. Pure; raises nothing.
"""

from __future__ import annotations

from typing import Final

FROM: Final = "_from"
SNAPSHOT: Final = "_snapshot"
PLACE: Final = "_place"
DELETED: Final = "_deleted"
HISTORY_COLUMNS: Final = (FROM, SNAPSHOT, PLACE, DELETED)
# After the key of the table, in the primary key.
VERSION_KEY: Final = (FROM, SNAPSHOT, PLACE)
