"""Fingerprints stand on disk: these are of a version before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from widetable.derive.changes.fingerprint import fingerprint_of, snapshot_facts


def test_fingerprints_stay_what_they_were() -> None:
    snapshot: Any = SimpleNamespace(id=7, time_millis=1000, delta_manifest_list="manifest-list-1")
    facts = [{"k": 0, "a": [1, [["x", 2]]]}, snapshot_facts(snapshot)]
    assert fingerprint_of(facts) == "464ec07913416999aae41e2a39cde2a3"
    assert (
        fingerprint_of([{"b": 1, "a": 2}, None], sort_keys=True)
        == "a618e62d9f657abf7dd584be00f88a21"
    )
