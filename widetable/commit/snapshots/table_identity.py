"""The identity of a table: a table that was dropped and made again at the same path has another one.

    identity = time of the first schema in epoch millis "-" its uuid      (`widetable.uuid`, of our tables)
             | "sha256-" digest of the first schema's bytes               (of other clients' tables)
               then, for a branch, "-branch-" name, and "-" its life      (`branch_mark`)

It is read on every call, so no cached value outlives the table. Raises NotFoundError if there is no table, InvalidError
for another table than expected, DamagedError for bytes that are no schema, StorageError.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from widetable.commit.snapshots.branch_mark import branch_life
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.schema.table_schema import UUID_KEY, schema_body
from widetable.storage.file_io import FileIO
from widetable.storage.paths import MAIN_BRANCH, TablePaths


def table_identity(file_io: FileIO, paths: TablePaths) -> str:
    """Return the identity of a table, which is unique and does not change while the table lives."""
    path = paths.schema(0)
    try:
        data = file_io.read(path)
    except NotFoundError:
        # Other clients may have deleted the first schemas.
        path = paths.schema(SchemaStore(file_io, paths).first_id())
        data = file_io.read(path)
    identity = _identity(data, path)
    branch = "" if paths.branch == MAIN_BRANCH else f"-branch-{paths.branch}"
    life = branch_life(file_io, paths)
    return f"{identity}{branch}-{life}" if life else f"{identity}{branch}"


def check_identity(file_io: FileIO, paths: TablePaths, expected: str) -> None:
    """Raise InvalidError if another table is at the path now, NotFoundError if none is."""
    current = table_identity(file_io, paths)
    if current != expected:
        raise InvalidError(
            paths.root,
            found=f"another table ({current}): it was dropped and made again, or continues as a branch",
            expected=f"the table that was opened ({expected})",
            action="Open the table again, and restart its readers and writers.",
            code=ErrorCode.OTHER_TABLE,
        )


# The cache is keyed by the bytes, which are read each time: only the parsing is saved.
@lru_cache(maxsize=64)
def _identity(data: bytes, path: str) -> str:
    """Parse the identity; called for every commit and poll of a stream, so the many columns are not parsed."""
    try:
        body = schema_body(data)
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
