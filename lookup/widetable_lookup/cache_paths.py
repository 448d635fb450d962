"""Paths and names of caches: built and parsed only here.

    <directory>/                            WIDETABLE_CACHE_DIR, else <temporary directory>/widetable-cache-<user id>
        lock                                flock: taken while caches are counted, put in place and removed;
                                            counted_bytes.py: what they take
        <table>/                            32 hex digits: SHA-256 of the table's absolute path
            <cache>/                        complete, never changed; its mtime is its last use
                manifest                    cache_manifest.py: written last
                rows.arrow rows.layout rows.pages     row_map.py
                keys.fences                 key_fences.py; not for keys that are one number (lookup_way.py)
                keys/                       key_index.py; likewise
            <cache>.<token>.building/       locked (flock) by its builder; without a lock it is left over
            <cache>.<token>.removed/        a cache that was renamed away: nobody opens it any more
    cache     = <data file name> . <16 hex digits> .s<schema id> .v<format>-<key grammar>
    token     = 16 hex digits

The hex digits of a cache are SHA-256 of the data file's path below the table. They also distinguish files of other
writers that have the same name in two buckets. A data file never changes, so a cache is never stale; rows are stored in
the schema of the table, so another schema id means another cache.

In: paths and ids. Out: paths. No I/O but `directory_of_host`, which reads the environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
from typing import Final

from widetable_lookup.memcomparable import GRAMMAR_VERSION

# Any change of the content of a cache must change this number, so that other versions build caches of their own.
FORMAT_VERSION: Final = 1

ENVIRONMENT: Final = "WIDETABLE_CACHE_DIR"
LOCK: Final = "lock"
BUILDING: Final = "building"
REMOVED: Final = "removed"

_TABLE: Final = re.compile(r"^[0-9a-f]{32}$")
_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{16}\.(building|removed)$")
_PLAIN: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$")


def directory_of_host() -> str:
    """Return the directory of the caches of this host and user."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return os.path.abspath(given)
    return os.path.join(tempfile.gettempdir(), f"widetable-cache-{os.getuid()}")


def absolute_root(root: str) -> str:
    """Return a table's path or URL in the one form that names its folder."""
    path = root.removeprefix("file://")
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def table_folder(root: str) -> str:
    """Return the name of a table's folder."""
    return hashlib.sha256(absolute_root(root).encode()).hexdigest()[:32]


def is_table_folder(name: str) -> bool:
    """Return whether a name in the directory is that of a table's folder."""
    return _TABLE.match(name) is not None


def cache_name(root: str, path: str, schema_id: int) -> str:
    """Return the name of a data file's cache. path: of the data file; root: of its table.

        /t, /t/bucket-0/data-1.parquet, schema 3      data-1.parquet.3582024fb579adb8.s3.v1-1

    A long name, or one with unusual characters, is shown as "file": the digits distinguish it.
    """
    name = path.rsplit("/", 1)[-1]
    below = path.removeprefix(root).lstrip("/")
    digits = hashlib.sha256(below.encode()).hexdigest()[:16]
    shown = name if _PLAIN.match(name) else "file"
    return f"{shown}.{digits}.s{schema_id}.v{FORMAT_VERSION}-{GRAMMAR_VERSION}"


def temporary_name(cache: str, state: str) -> str:
    """Return an unused name. cache: a name or path; state: BUILDING or REMOVED."""
    return f"{cache}.{secrets.token_hex(8)}.{state}"


def temporary_state(name: str) -> str | None:
    """Return BUILDING or REMOVED; None for a cache."""
    match = _TEMPORARY.search(name)
    return match[1] if match else None
