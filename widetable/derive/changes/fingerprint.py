"""Fingerprints tell whether tables, columns and snapshots are still those that a derived table was built from. Pure.

On disk: never change. 32 hex digits of SHA-256 over JSON. An id alone does not identify a snapshot: a table that was
dropped and created again counts from 1.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from widetable.format.snapshot import Snapshot

_DIGITS: Final = 32


def fingerprint_of(facts: Any, *, sort_keys: bool = False) -> str:
    """Return the fingerprint of facts: JSON values in an order that never changes."""
    text = json.dumps(facts, sort_keys=sort_keys)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def snapshot_facts(snapshot: Snapshot) -> list[Any]:
    """Return the facts that distinguish a snapshot from another one with the same id."""
    return [snapshot.id, snapshot.time_millis, snapshot.delta_manifest_list]
