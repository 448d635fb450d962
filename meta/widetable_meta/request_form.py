"""The JSON requests of the service. Unknown fields, and values of other types, are refused.

The rules of the engine check names where they are used; here only their length is bounded.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

LONGEST_NAME: Final = 1024
MAX_NAMES: Final = 1000
# The most barriers of one answer, of a table or of delays.
MAX_BARRIERS: Final = 10_000

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Names = Annotated[list[Name], Field(max_length=MAX_NAMES)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class JobRequest(_Request):
    """The arguments of `Topology.register`; sinks are in their order, the lead first."""

    job: Name
    sources: Names = []
    sinks: Annotated[dict[Name, Names | None], Field(max_length=MAX_NAMES)]


class SessionRequest(_Request):
    """The arguments of `Catalog.session`. at_least: a barrier that was read before; an older one is refused."""

    tables: Names | None = None
    consistency: Name = "RepeatableRead"
    as_of: int | None = None
    at_least: int | None = None


class RevisionRequest(_Request):
    """The arguments of `Catalog.revise`: to a barrier, or in full, to the beginning."""

    table: Name
    to: int | None = None
    full: bool = False
    dry_run: bool = False


class LeaveRequest(_Request):
    """The arguments of `Topology.leave`."""

    table: Name
    writer: Name
    force: bool = False
    dry_run: bool = False
