"""What the service takes as JSON. Fields that it does not know, and values of other types, are refused.

Names are looked at where they are used, by the rules of the engine; here they are kept from
being long.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

LONGEST_NAME: Final = 1024
MOST_NAMES: Final = 1000
# Of a table, and of delays.
MOST_BARRIERS: Final = 10_000

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class JobRequest(_Request):
    """As `Topology.register`: sinks are in their order, the lead first."""

    job: Name
    sources: Names = []
    sinks: Annotated[dict[Name, Names | None], Field(max_length=MOST_NAMES)]


class SessionRequest(_Request):
    """As `Catalog.session`. at_least: a barrier that was read before; what is older is refused."""

    tables: Names | None = None
    consistency: Name = "RepeatableRead"
    as_of: int | None = None
    at_least: int | None = None


class RevisionRequest(_Request):
    """As `Catalog.revise`: to a barrier, or in full, to the beginning."""

    table: Name
    to: int | None = None
    full: bool = False
    dry_run: bool = False


class LeaveRequest(_Request):
    """As `Topology.leave`."""

    table: Name
    writer: Name
    force: bool = False
    dry_run: bool = False
