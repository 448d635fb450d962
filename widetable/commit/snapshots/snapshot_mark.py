"""The mark of a snapshot identifies it for ever: its id is reused when a table goes back to an older state and on.

On disk, in offsets and consumers: never change. The mark is the uuid of the commit; for a client that writes none, 32
hex digits of SHA-256 over values that no other commit has. Pure.

    read up to snapshot 9 (a1..)    the table is restored to 5    8 commits follow    now 9 is (7c..): another one
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from widetable.format.snapshot import Snapshot

_DIGITS: Final = 32


def mark_of(snapshot: Snapshot) -> str:
    """Return the mark of a snapshot, which is equal only for the same commit."""
    if snapshot.uuid:
        return snapshot.uuid
    facts = [
        snapshot.id,
        snapshot.time_millis,
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind,
        snapshot.delta_manifest_list,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGITS]
