"""What was read of a chunk of the full copy and written into files that no snapshot names yet. Raises nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from widetable import CommitMessage
from widetable_cdc.source.source_snapshot import SourceSnapshot


@dataclass(frozen=True)
class ChunkFiles:
    """A chunk; picklable. snapshot, lsn: as of `read_chunk`. messages: of the files; () for a range without changes.
    bad: rows for the table of errors, before the commit. rows, bytes: what was read and is good, as Arrow has it.
    """

    snapshot: SourceSnapshot
    lsn: int
    messages: tuple[CommitMessage, ...]
    bad: tuple[pa.Table, ...]
    rows: int
    bytes: int
