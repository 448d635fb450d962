"""Which life of a table this is: a table that was dropped and made again at the same path is another one.

    identity = time of the first schema in epoch millis "-" its uuid      (`widetable.uuid`, of tables made here)
             | "sha256-" digest of the first schema's bytes               (of other clients' tables)
               then, of a branch, "-branch-" name, and "-" its life       (`branch_mark`)

Read anew on every call: nothing that is kept of a table outlives it. Raises NotFoundError when there is no table,
InvalidError for another one than expected, DamagedError for a first schema that is none, StorageError.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache

from widetable.commit.snapshots.branch_mark import branch_life
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.schema.table_schema import UUID_KEY
from widetable.storage.file_io import FileIO
from widetable.storage.paths import MAIN_BRANCH, TablePaths


def table_identity(file_io: FileIO, paths: TablePaths) -> str:
    """The same for as long as the table lives, and no other table's."""
    path = paths.schema(0)
    try:
        data = file_io.read(path)
    except NotFoundError:
        # Other clients may have let the first ones go.
        path = paths.schema(SchemaStore(file_io, paths).first_id())
        data = file_io.read(path)
    identity = _identity(data, path)
    branch = "" if paths.branch == MAIN_BRANCH else f"-branch-{paths.branch}"
    life = branch_life(file_io, paths)
    return f"{identity}{branch}-{life}" if life else f"{identity}{branch}"


def check_identity(file_io: FileIO, paths: TablePaths, expected: str) -> None:
    """Raises InvalidError when another table is there by now, NotFoundError when none is."""
    found = table_identity(file_io, paths)
    if found != expected:
        raise InvalidError(
            paths.root,
            found=f"another table ({found}): it was dropped and made again, or went on as a branch",
            expected=f"the table that was opened ({expected})",
            action="Open the table anew, and start anew what reads from it or writes to it.",
        )


# By the bytes, which are read each time: what is kept is only the parsing.
@lru_cache(maxsize=64)
def _identity(data: bytes, path: str) -> str:
    """Asked for with every commit and look of a stream: columns, of which there may be many, are left alone."""
    try:
        body = json.loads(data)
        uuid, time_millis = body.get(UUID_KEY), body.get("timeMillis")
    except (ValueError, AttributeError) as cause:
        raise DamagedError(
            path,
            found="bytes that are no schema JSON",
            expected="a Paimon schema file",
            action="Restore the file from a copy of the table.",
        ) from cause
    if uuid is None:
        return f"sha256-{hashlib.sha256(data).hexdigest()}"
    return f"{time_millis}-{uuid}"
