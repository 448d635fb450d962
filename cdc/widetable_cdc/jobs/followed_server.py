"""What a job remembers of its server between runs: which one it is, and what its publication sends of each table.

    {"facts": {"system_identifier": .., "timeline": 1, ..}, "members": {"public.orders": [16390, ["id", ..], null]}}

It is a row of the table of followed tables, under the relation `SERVER`, which no table of a source is named. Pure.
Raises DamagedError for a text of another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from widetable import DamagedError
from widetable_cdc.source.publication import PublishedTable
from widetable_cdc.source.server_checks import ServerFacts

SERVER: Final = "the server"


@dataclass(frozen=True)
class FollowedServer:
    """A server as of the last run. members: what its publication sends, by schema and name."""

    facts: ServerFacts
    members: Mapping[tuple[str, str], PublishedTable]

    def differs(self, other: FollowedServer) -> bool:
        """Return whether more than the end of the log differs."""
        facts = replace(other.facts, server_lsn=self.facts.server_lsn)
        return (self.facts, dict(self.members)) != (facts, dict(other.members))

    def to_json(self) -> str:
        """Return the server as a JSON object."""
        members = [
            [*name, member.membership, member.columns, member.row_filter]
            for name, member in self.members.items()
        ]
        return json.dumps({"facts": asdict(self.facts), "members": members})

    @staticmethod
    def from_json(text: str) -> FollowedServer:
        """Return the server of a text that `to_json` made."""
        try:
            body = json.loads(text)
            members = {
                (schema, name): PublishedTable(membership, tuple(columns), row_filter)
                for schema, name, membership, columns, row_filter in body["members"]
            }
            return FollowedServer(ServerFacts(**body["facts"]), members)
        except (ValueError, TypeError, KeyError) as cause:
            raise DamagedError(
                "what the job remembers of its server",
                found=repr(text[:100]),
                expected="a JSON object with facts and members",
                action="Run `widetable cdc drop-slot FILE`, then run the job again: it copies the tables again.",
            ) from cause
