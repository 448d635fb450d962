"""The file systems of other libraries that can store tables, and the paths on them.

    s3fs.S3FileSystem             s3://bucket/key    s3a://..
    gcsfs.GCSFileSystem           gs://bucket/key    gcs://..
    adlfs.AzureBlobFileSystem     abfs://container/key   abfss://container@account.dfs.core.windows.net/key, az://, wasb[s]://
    pyarrow.fs                    S3FileSystem, AzureFileSystem

These create an object completely or not at all. Others are refused by name: fsspec's file systems for memory, SFTP and
HTTP show a file before it is complete, caching ones return old content, and obstore's `FsspecStore` ignores the
condition of a put. pyarrow's have no put on the condition that the key does not exist, so they read and never write;
for the others the probe before the first write checks it (`flat_keys`).

A path may lack its scheme (`bucket/key`), as in these libraries. Raises InvalidError, UnsupportedError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from widetable.arguments import path as checked
from widetable.errors import InvalidError, UnsupportedError
from widetable.storage.remote.bucket import with_plain_host
from widetable.storage.remote.redacted_errors import redacted_message

_S3: Final = ("s3", "s3a")
_GCS: Final = ("gs", "gcs")
_AZURE: Final = ("abfs", "abfss", "az", "wasb", "wasbs")
# The schemes by library and class name.
_SCHEMES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("s3fs", "S3FileSystem"): _S3,
    ("gcsfs", "GCSFileSystem"): _GCS,
    ("adlfs", "AzureBlobFileSystem"): _AZURE,
    ("pyarrow", "S3FileSystem"): _S3,
    ("pyarrow", "AzureFileSystem"): _AZURE,
}
# Listings that fsspec's clients cache would hide the changes of other writers. `asynchronous` is off because fsspec's
# own threads make the requests. `#1` at the end of a key is not a generation.
_RECREATED: Final = {"use_listings_cache": False, "asynchronous": False, "version_aware": False}
_BUCKET: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]*")
_SECRET_NAME: Final = re.compile(
    r"key|secret|token|sas|pass|cred|conn|sign|auth|private", re.IGNORECASE
)


@dataclass(frozen=True)
class ServedFilesystem:
    """A file system of the user.

    name: that of the user's class. filesystem: an fsspec file system without cached listings. schemes: those of its
    URLs, its own first. secrets: credentials among its arguments. writes: its `pipe_file` passes "create" to the store;
    fsspec's default, which wraps pyarrow's, checks and then writes, and would pass any probe. range_options: those of
    `cat_file` for a range.

    A pickle includes the file system, with the arguments that created it, also credentials.
    """

    name: str
    filesystem: Any
    schemes: tuple[str, ...]
    secrets: tuple[str, ...] = field(repr=False)
    writes: bool = True
    range_options: Mapping[str, Any] = field(default_factory=dict)


def served_filesystem(value: Any) -> ServedFilesystem | None:
    """Check a file system; return None for an object that is not one of pyarrow or fsspec. Raises UnsupportedError for
    one that cannot store tables.
    """
    kinds = [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__]
    if not {("fsspec", "AbstractFileSystem"), ("pyarrow", "FileSystem")} & {*kinds}:
        return None
    kind = next((kind for kind in kinds if kind in _SCHEMES), None)
    if kind is None or not _puts_by_library(type(value), kind[0]):
        raise UnsupportedError(
            "file_io",
            found=f"a {type(value).__name__} of {kinds[0][0]}",
            expected=f"one of {', '.join('.'.join(each) for each in _SCHEMES)}: others show a file before it is "
            "complete, or overwrite an existing one, and commits of two writers would be lost",
            action="Use one of them; or leave file_io out, and pass the path or URL (s3://.., gs://.., abfss://.., "
            "hdfs://..) with storage_options.",
        )
    schemes = _SCHEMES[kind]
    if kind[0] == "pyarrow":
        secrets = (*_secrets(value.__reduce__()[1:]),)
        return ServedFilesystem(
            f"pyarrow.fs.{kind[1]}", _wrapped(value), schemes, secrets, False, {"seekable": True}
        )
    arguments = [*value.storage_args]
    options = {**value.storage_options, **_RECREATED}
    options.pop("loop", None)
    secrets = (*_secrets({"key": arguments}), *_secrets(value.storage_options))
    filesystem = _made(_class(value, kind), arguments, options, secrets)
    return ServedFilesystem(type(value).__name__, filesystem, schemes, secrets)


def place_on(served: ServedFilesystem, where: Any) -> tuple[str, str, str]:
    """Return (root, bucket, path) of a path or URL. The path begins with the root, which stands for the bucket.
    The root is always a URL, so that the path cannot be mistaken for one on a disk.

        adlfs       c/w                                       abfs://c, c, abfs://c/w
                    abfss://c@acc.dfs.core.windows.net/w/     abfss://c@acc.dfs.core.windows.net, c, ../w
        s3fs        s3a://b//w                                s3a://b, b, s3a://b/w

    An account in the URL must be the account of the file system.
    """
    text = checked(where, "path")
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = served.schemes[0], text
    authority, _, key = rest.partition("/")
    authority = with_plain_host(authority)
    bucket, at, account = authority.partition("@")
    names = [name for name in key.split("/") if name]
    is_account = bool(at) and served.schemes == _AZURE and "." in account
    own_account = getattr(served.filesystem, "account_name", None) or account.partition(".")[0]
    is_account = is_account and account.partition(".")[0] == own_account
    is_place = scheme.lower() in served.schemes and _BUCKET.fullmatch(bucket)
    if not is_place or (at and not is_account) or {".", ".."} & {*names}:
        raise InvalidError(
            "path",
            found="a path with an @" if "@" in text else repr(text),
            expected=f"a path on the file system in file_io: bucket/warehouse or {served.schemes[0]}://bucket/warehouse"
            ", without credentials",
            action="Correct the path, or pass it without file_io.",
        )
    root = f"{scheme.lower()}://{authority}"
    return root, bucket, "/".join([root, *names])


def _puts_by_library(cls: type, library: str) -> bool:
    """Return whether the puts are the library's own: a subclass may check and then write, which no probe detects. In a
    zonal bucket, gcsfs's extended class shows objects before they are complete; an instance of that class itself is
    replaced by the plain class (`_class`), but a subclass of it is refused.
    """
    own = [
        each for each in cls.__mro__ if each.__module__.partition(".")[0] not in (library, "fsspec")
    ]
    is_changed = any(
        name in vars(each) for each in own for name in ("_pipe_file", "pipe_file", "open", "_open")
    )
    is_extended = any(each.__name__ == "ExtendedGcsFileSystem" for each in cls.__mro__)
    return not is_changed and not (is_extended and {*own} - {object})


def _class(given: Any, kind: tuple[str, str]) -> type:
    if kind[0] == "gcsfs" and type(given).__module__.partition(".")[0] == "gcsfs":
        return next(cls for cls in type(given).__mro__ if cls.__module__ == "gcsfs.core")
    return type(given)


def _made(cls: type, arguments: list[Any], options: dict[str, Any], secrets: Sequence[str]) -> Any:
    """Create the file system again, as unpickling it would."""
    try:
        return cls(*arguments, **options)
    except Exception as cause:
        raise InvalidError(
            "file_io",
            found=f"a {cls.__name__} that cannot be created again: {redacted_message(cause, secrets)}",
            expected="a class that accepts its original arguments, and use_listings_cache=False",
            action="Pass these arguments on to the base class.",
        ) from cause


def _wrapped(filesystem: Any) -> Any:
    try:
        module = import_module("fsspec.implementations.arrow")
    except ImportError as cause:
        raise UnsupportedError(
            "file_io",
            found=f"a file system of pyarrow, and no fsspec ({cause})",
            expected="the package that adapts file systems of pyarrow",
            action="pip install fsspec",
        ) from cause
    return module.ArrowFSWrapper(filesystem)


def _secrets(values: Any, *, is_secret: bool = False) -> Iterator[str]:
    """Yield texts under names that suggest credentials, at any depth, and the parts of connection strings."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _secrets(value, is_secret=is_secret or bool(_SECRET_NAME.search(str(name))))
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _secrets(value, is_secret=is_secret)
    elif isinstance(values, (str, bytes)) and is_secret:
        text = values if isinstance(values, str) else values.decode(errors="replace")
        yield text
        yield from (part.partition("=")[2] for part in text.split(";") if "=" in part)
