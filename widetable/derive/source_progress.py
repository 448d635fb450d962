"""How far a derived table has got with a table that it is made of.

It is a consumer of the source, whose next snapshot is the one that was worked in last: that one stays readable, because
the rows before a change are looked up there. What is lost of it costs work, never rows: a range may be worked in again,
and without one all is compared. Raises DamagedError for a consumer that cannot be read, StorageError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.commit.read_lease import hold
from widetable.operations.open_table import OpenTable


class SourceProgress:
    """name: of the consumer."""

    def __init__(self, source: OpenTable, name: str) -> None:
        self._source = source
        self.name = name

    def last_id(self) -> int | None:
        """The snapshot that was worked in last, if it is still there."""
        last_id = self._source._consumers.next_snapshot(self.name)
        paths = self._source._paths
        if last_id is None or not self._source._file_io.exists(paths.snapshot(last_id)):
            return None
        return last_id

    def record(self, snapshot_id: int) -> None:
        """All up to this snapshot is worked in."""
        self._source._consumers.record(self.name, snapshot_id)


@contextlib.contextmanager
def held(source: OpenTable, snapshot_id: int) -> Iterator[None]:
    """Keep a snapshot from expiry while the block runs. Raises NotFoundError for one that is gone."""
    lease = hold(source._file_io, source._paths, snapshot_id)
    try:
        yield
    finally:
        lease.release()
