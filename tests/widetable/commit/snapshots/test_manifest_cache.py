"""What a process keeps of manifests: bounded in bytes and in number, the last used stays."""

from __future__ import annotations

import pytest

from widetable.commit.snapshots import manifest_cache
from widetable.commit.snapshots.manifest_cache import DecodedList, ManifestCache


def test_small_commits_for_ever_do_not_grow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_cache, "MAX_HELD", 10)
    cache, used = ManifestCache(), DecodedList([], 100)
    cache.put("used", used)
    for number in range(100):
        cache.put(f"list-{number}", DecodedList([], 100))
        assert cache.get("used") is used
    assert sum(cache.get(f"list-{number}") is not None for number in range(100)) == 9
    assert cache.get("list-99") is not None
