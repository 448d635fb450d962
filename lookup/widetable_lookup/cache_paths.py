"""Where caches lie and what they are called: built and parsed here and nowhere else.

    <directory>/                            WIDETABLE_CACHE_DIR, else <temporary directory>/widetable-cache-<user id>
        lock                                flock: held while caches are counted, put in place and removed;
                                            counted_bytes.py: what they take
        <table>/                            32 hex digits: SHA-256 of the table's absolute path
            <cache>/                        complete, never changed; its mtime is its last use
                manifest                    cache_manifest.py: written last
                rows.arrow rows.layout rows.pages     row_map.py
                keys.fences                 key_fences.py; not for keys that are one number (lookup_way.py)
                keys/                       key_index.py; likewise
            <cache>.<token>.building/       locked (flock) by who builds it: not locked is left over
            <cache>.<token>.removed/        a cache that lost its place: nobody can open it any more
    cache     = <data file name> . <16 hex digits> .s<schema id> .v<format>-<key grammar>
    token     = 16 hex digits

The hex digits of a cache are SHA-256 of the data file's path below the table, which also sets files of other writers
apart that have one name in two buckets. A data file never changes, so a cache is never stale; rows are kept in the
table's schema, so another schema id is another cache.

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

# A change of what lies in a cache must change it: other versions then build caches of their own.
FORMAT_VERSION: Final = 1

ENVIRONMENT: Final = "WIDETABLE_CACHE_DIR"
LOCK: Final = "lock"
BUILDING: Final = "building"
REMOVED: Final = "removed"

_TABLE: Final = re.compile(r"^[0-9a-f]{32}$")
_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{16}\.(building|removed)$")
_PLAIN: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$")


def directory_of_host() -> str:
    """The caches of this host and user."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return os.path.abspath(given)
    return os.path.join(tempfile.gettempdir(), f"widetable-cache-{os.getuid()}")


def absolute_root(root: str) -> str:
    """A table's path or URL in the one form that its folder is named after."""
    path = root.removeprefix("file://")
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def table_folder(root: str) -> str:
    """The name of a table's folder."""
    return hashlib.sha256(absolute_root(root).encode()).hexdigest()[:32]


def is_table_folder(name: str) -> bool:
    """Whether a name in the directory is that of a table's folder."""
    return _TABLE.match(name) is not None


def cache_name(root: str, path: str, schema_id: int) -> str:
    """The name of a data file's cache. path: of the data file; root: of its table.

        /t, /t/bucket-0/data-1.parquet, schema 3      data-1.parquet.3582024fb579adb8.s3.v1-1

    A name that is long, or has other characters than a file's usual ones, is shown as "file":
    the digits tell it apart.
    """
    name = path.rsplit("/", 1)[-1]
    below = path.removeprefix(root).lstrip("/")
    digits = hashlib.sha256(below.encode()).hexdigest()[:16]
    shown = name if _PLAIN.match(name) else "file"
    return f"{shown}.{digits}.s{schema_id}.v{FORMAT_VERSION}-{GRAMMAR_VERSION}"


def temporary_name(cache: str, state: str) -> str:
    """A name that nobody has used. cache: a name or path; state: BUILDING or REMOVED."""
    return f"{cache}.{secrets.token_hex(8)}.{state}"


def temporary_state(name: str) -> str | None:
    """BUILDING or REMOVED; None for a cache."""
    match = _TEMPORARY.search(name)
    return match[1] if match else None
