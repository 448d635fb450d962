"""Lookup caches: local copies of data files that answer by key, shared by the processes of a host."""

from __future__ import annotations

from widetable_lookup.cache_statistics import (
    CacheStatistics,
    CompleteCache,
    cache_statistics,
    complete_caches,
)
from widetable_lookup.host_caches import process_caches

__all__ = [
    "CacheStatistics",
    "CompleteCache",
    "cache_statistics",
    "complete_caches",
    "process_caches",
]
