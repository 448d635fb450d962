"""Snapshots that remember who has committed, without a table; snapshot n was made at 10 n."""

from __future__ import annotations

import json
from collections.abc import Mapping

from widetable.commit.snapshots.committed import COMMIT_USERS, DIGEST, OLD_COMMITS, LastCommit
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot


def snapshot(
    id: int,
    user: str = "u",
    identifier: int = 0,
    kind: str = "APPEND",
    properties: Mapping[str, str] | None = None,
    digest: str | None = None,
) -> Snapshot:
    own = {} if digest is None else {DIGEST: digest}
    return Snapshot(
        id=id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=identifier,
        commit_kind=kind,
        time_millis=10 * id,
        total_record_count=0,
        delta_record_count=0,
        properties={**(properties or {}), **own},
    )


class Snapshots:
    """By id, and which were loaded."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = {each.id: each for each in snapshots}
        self.latest = snapshots[-1]
        self.loaded: list[int] = []

    def load(self, id: int) -> Snapshot:
        self.loaded.append(id)
        if id not in self.snapshots:
            raise NotFoundError("s", found="-", expected="-", action="-")
        return self.snapshots[id]


def remembering(users: Mapping[str, LastCommit]) -> dict[str, str]:
    return {COMMIT_USERS: json.dumps(users)}


def old_remembering(commits: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """As versions before wrote it."""
    return {OLD_COMMITS: json.dumps(commits)}
