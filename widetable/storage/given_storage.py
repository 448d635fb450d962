"""The arguments `file_io` and `storage_options` of the public face.

Raises InvalidError for what is no storage, UnsupportedError for the file systems of other libraries: pyarrow's put
nothing on the condition that nobody has the name, by which two writers do not write over each other's commits; those of
fsspec that can (0038) are not served yet.
"""

from __future__ import annotations

from typing import Any, Final

from widetable.arguments import refused
from widetable.errors import InvalidError, UnsupportedError
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO
from widetable.storage.storage_options import StorageOptions, checked_storage_options

_METHODS: Final = tuple(name for name in vars(FileIO) if not name.startswith("_"))
# Where the classes are from; the modules are not imported for it.
_FOREIGN: Final = {
    "pyarrow._fs": "pyarrow.fs",
    "fsspec": "fsspec",
    "obstore": "obstore",
}


def given_storage(
    file_io: Any, storage_options: Any
) -> tuple[FileIO | None, StorageOptions | None]:
    """Both, checked; at most one of them is given."""
    options = checked_storage_options(storage_options)
    if file_io is not None and options is not None:
        raise InvalidError(
            "storage_options",
            found="it with file_io",
            expected="one of them: options are for the storage that the path names",
            action="Leave one out.",
        )
    return _checked_file_io(file_io), options


def _checked_file_io(value: Any) -> FileIO | None:
    if value is None:
        return None
    modules = [cls.__module__ for cls in type(value).__mro__]
    if "pyarrow._fs" in modules and type(value).__name__ == "LocalFileSystem":
        return LocalFileIO()
    for module, library in _FOREIGN.items():
        if any(name == module or name.startswith(f"{module}.") for name in modules):
            raise UnsupportedError(
                "file_io",
                found=f"a {type(value).__name__} of {library}",
                expected="a storage of this package: each has its own way to publish a file on the condition that "
                "nobody has its name, without which commits of two writers would get lost",
                action="Leave file_io out, and give the URL (s3://.., gs://.., abfss://..) with storage_options.",
            )
    missing = [name for name in _METHODS if not callable(getattr(value, name, None))]
    if missing:
        raise refused(value, "file_io", f"a FileIO, with {', '.join(missing)}")
    storage: FileIO = value
    return storage
