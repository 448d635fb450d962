"""Lookup caches: one read-only RocksDB per data file, key to row position. The first module is `memcomparable`."""

from __future__ import annotations

__all__: list[str] = []
