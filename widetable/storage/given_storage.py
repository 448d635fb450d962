"""The public arguments `file_io` and `storage_options`, which choose the storage of a path.

Raises InvalidError for a value that is not a storage, UnsupportedError for file systems that cannot store tables
(`served_filesystem`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from widetable.arguments import refused
from widetable.errors import InvalidError, UnsupportedError
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO
from widetable.storage.locate import locate, path_at
from widetable.storage.remote.fsspec_store import FsspecFileIO
from widetable.storage.remote.served_filesystem import ServedFilesystem, place_on, served_filesystem
from widetable.storage.remote.storage_options import StorageOptions, checked_storage_options

_METHODS: Final = tuple(name for name in vars(FileIO) if not name.startswith("_"))
# File systems of a local disk, by module and class.
_LOCAL: Final = frozenset(
    {("pyarrow._fs", "LocalFileSystem"), ("fsspec.implementations.local", "LocalFileSystem")}
)


@dataclass(frozen=True)
class GivenStorage:
    """The storage that the user chose; at most one attribute is set. None is set if the path and the environment's
    options decide.
    """

    file_io: FileIO | None = None
    served: ServedFilesystem | None = None
    options: StorageOptions | None = None

    def at(self, where: str | os.PathLike[str], *, fsync: bool = True) -> tuple[FileIO, str]:
        """Return the storage of a path, and the path on it, as `locate` does. fsync: for a storage that is created.

        A FileIO that the user passed serves every path; the path is still parsed as `locate` parses it.
        """
        if self.served is not None:
            root, bucket, path = place_on(self.served, where)
            return FsspecFileIO(self.served, root, bucket), path
        if self.file_io is not None:
            return self.file_io, path_at(where)
        return locate(where, fsync=fsync, options=self.options)

    @property
    def is_given(self) -> bool:
        """Whether the user passed a storage, and not only options."""
        return self.file_io is not None or self.served is not None


def given_storage(file_io: Any, storage_options: Any) -> GivenStorage:
    """Check both arguments. If both are None, the path decides.

    A file system of a local disk, by whichever library, becomes LocalFileIO, which publishes by links.
    """
    options = checked_storage_options(storage_options)
    if file_io is not None and options is not None:
        raise InvalidError(
            "storage_options",
            found="both storage_options and file_io",
            expected="only one of them: storage_options are for the storage that the path names",
            action="Leave one of them out.",
        )
    if file_io is None:
        return GivenStorage(options=options)
    if (type(file_io).__module__, type(file_io).__name__) in _LOCAL:
        return GivenStorage(LocalFileIO())
    served = served_filesystem(file_io)
    return GivenStorage(_checked_file_io(file_io)) if served is None else GivenStorage(None, served)


def _checked_file_io(value: Any) -> FileIO:
    """Check a FileIO by its methods, as a user's class need not be derived from FileIO. Stores of obstore, which look
    usable, are refused by name.
    """
    if type(value).__module__.partition(".")[0] == "obstore":
        raise UnsupportedError(
            "file_io",
            found=f"a {type(value).__name__} of obstore",
            expected="a storage of this package, which is made from the URL",
            action="Leave file_io out, and give the URL (s3://.., gs://.., abfss://..) with storage_options.",
        )
    missing = [name for name in _METHODS if not callable(getattr(value, name, None))]
    if missing:
        raise refused(value, "file_io", f"a FileIO, with {', '.join(missing)}")
    storage: FileIO = value
    return storage
