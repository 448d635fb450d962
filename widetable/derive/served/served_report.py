"""The report of an audit of a served log: what was compared, what differs, and what can no longer be compared.

Values only. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ServedCell:
    """A value that was served and that the table does not give for that snapshot.

    Attributes
    ----------
    key : dict of str to any
        The key columns that were asked, printed.
    column : str
        The column or feature.
    snapshot_id : int or None
        The snapshot that answered. None: the table had none.
    session : str
        The session, as in the log.
    request : int
        The number of the request in its session.
    row : int
        The number of the key in its request.
    served, offline : any
        The value that was served, and the one that the table gives; printed.
    """

    __module__ = "widetable"

    key: Mapping[str, Any]
    column: str
    snapshot_id: int | None
    session: str
    request: int
    row: int
    served: Any
    offline: Any

    def __str__(self) -> str:
        where = f"snapshot {self.snapshot_id}, key {dict(self.key)}, column {self.column}"
        place = f"request {self.request} of session {self.session}, row {self.row}"
        return f"{where}: served {self.served!r}, offline {self.offline!r} ({place})"


@dataclass(frozen=True)
class GoneSnapshot:
    """A snapshot that answered requests and that is not there any more.

    Attributes
    ----------
    snapshot_id : int
        The snapshot.
    requests : int
        How many requests it answered.
    reason : str
        What became of it.
    """

    __module__ = "widetable"

    snapshot_id: int
    requests: int
    reason: str


@dataclass(frozen=True)
class ServedReport:
    """What `Table.audit_served` has compared, and what differs.

    Attributes
    ----------
    path, log : str
        The directories of the table and of the log.
    requests, rows, cells : int
        How many requests were repeated, of how many keys, and how many values were compared.
    differing : int
        How many values differ.
    cells_listed : tuple of ServedCell
        The first values that differ, at most 20 by default.
    gone_requests : int
        How many requests were not repeated, because a snapshot that answered is gone.
    gone : tuple of GoneSnapshot
        These snapshots.
    other_rows : int
        How many rows of the log are of other tables or branches.
    """

    __module__ = "widetable"

    path: str
    log: str
    requests: int
    rows: int
    cells: int
    differing: int
    cells_listed: tuple[ServedCell, ...]
    gone_requests: int
    gone: tuple[GoneSnapshot, ...]
    other_rows: int

    @property
    def ok(self) -> bool:
        """Whether all requests were repeated, and all values are equal."""
        return not self.differing and not self.gone

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            `ok` and the fields, by name; nested results are dicts.
        """
        return {"ok": self.ok, **asdict(self)}
