"""Which file systems of other libraries hold tables, and how a path on them is read.

    s3fs.S3FileSystem             s3://bucket/key    s3a://..
    gcsfs.GCSFileSystem           gs://bucket/key    gcs://..
    adlfs.AzureBlobFileSystem     abfs://container/key   abfss://container@account.dfs.core.windows.net/key, az://, wasb[s]://
    pyarrow.fs                    S3FileSystem, AzureFileSystem

These put an object whole or not at all. Others, such as fsspec's for memory, SFTP and HTTP, make a file appear before
its bytes are there, or keep what was there before (caching ones), or pass a condition over (obstore's `FsspecStore`),
and are refused by name. pyarrow's can put nothing on the condition that nobody has the key, so they read and never
write; of the others the first write finds it out (`flat_keys`).

A path may be without its scheme (`bucket/key`), as these libraries take it. Raises InvalidError, UnsupportedError.
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
from widetable.storage.remote.redacted_errors import said_without_secrets

_S3: Final = ("s3", "s3a")
_GCS: Final = ("gs", "gcs")
_AZURE: Final = ("abfs", "abfss", "az", "wasb", "wasbs")
# By the library and the name of the class.
_SCHEMES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("s3fs", "S3FileSystem"): _S3,
    ("gcsfs", "GCSFileSystem"): _GCS,
    ("adlfs", "AzureBlobFileSystem"): _AZURE,
    ("pyarrow", "S3FileSystem"): _S3,
    ("pyarrow", "AzureFileSystem"): _AZURE,
}
# Lists that fsspec's clients keep would hide what other writers did; its own threads ask for us; `#1` at the end of a
# key is no generation.
_ANEW: Final = {"use_listings_cache": False, "asynchronous": False, "version_aware": False}
_BUCKET: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]*")
_SECRET_NAME: Final = re.compile(
    r"key|secret|token|sas|pass|cred|conn|sign|auth|private", re.IGNORECASE
)


@dataclass(frozen=True)
class ServedFilesystem:
    """name: of the class that was given. filesystem: of fsspec, one that keeps no lists. schemes: of its URLs, its own
    first. secrets: what it was made with that nobody may see. writes: its `pipe_file` says "create" to the store;
    fsspec's own, which pyarrow's would get, looks and then writes, and passes any probe. range_options: of `cat_file`
    for a range.

    Pickled with the file system, whose own pickle has what it was made with, credentials too.
    """

    name: str
    filesystem: Any
    schemes: tuple[str, ...]
    secrets: tuple[str, ...] = field(repr=False)
    writes: bool = True
    range_options: Mapping[str, Any] = field(default_factory=dict)


def served_filesystem(given: Any) -> ServedFilesystem | None:
    """None for what is no file system of pyarrow or fsspec. Raises UnsupportedError for those that are not served."""
    kinds = [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(given).__mro__]
    if not {("fsspec", "AbstractFileSystem"), ("pyarrow", "FileSystem")} & {*kinds}:
        return None
    kind = next((kind for kind in kinds if kind in _SCHEMES), None)
    if kind is None or not _puts_by_library(type(given), kind[0]):
        raise UnsupportedError(
            "file_io",
            found=f"a {type(given).__name__} of {kinds[0][0]}",
            expected=f"one of {', '.join('.'.join(each) for each in _SCHEMES)}: others let a file be seen before it is "
            "whole, or write over one that is there, and commits of two writers would get lost",
            action="Use one of them; or leave file_io out, and give the path or URL (s3://.., gs://.., abfss://.., "
            "hdfs://..) with storage_options.",
        )
    schemes = _SCHEMES[kind]
    if kind[0] == "pyarrow":
        secrets = (*_secrets(given.__reduce__()[1:]),)
        return ServedFilesystem(
            f"pyarrow.fs.{kind[1]}", _wrapped(given), schemes, secrets, False, {"seekable": True}
        )
    arguments = [*given.storage_args]
    options = {**given.storage_options, **_ANEW}
    options.pop("loop", None)
    secrets = (*_secrets({"key": arguments}), *_secrets(given.storage_options))
    made = _made(_class(given, kind), arguments, options, secrets)
    return ServedFilesystem(type(given).__name__, made, schemes, secrets)


def place_on(served: ServedFilesystem, where: Any) -> tuple[str, str, str]:
    """Of a path or URL: (root, bucket, path), where the path begins with the root, and the root stands for the bucket.
    The root is a URL in any case: whoever sees the path knows that it is none of a disk.

        of adlfs    c/w                                       abfs://c, c, abfs://c/w
                    abfss://c@acc.dfs.core.windows.net/w/     abfss://c@acc.dfs.core.windows.net, c, ../w
        of s3fs     s3a://b//w                                s3a://b, b, s3a://b/w

    An account in the URL must be the one that the file system was made for.
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
    asked = getattr(served.filesystem, "account_name", None) or account.partition(".")[0]
    is_account = is_account and account.partition(".")[0] == asked
    is_place = scheme.lower() in served.schemes and _BUCKET.fullmatch(bucket)
    if not is_place or (at and not is_account) or {".", ".."} & {*names}:
        raise InvalidError(
            "path",
            found="one with an @" if "@" in text else repr(text),
            expected=f"one on the file system that was given: bucket/warehouse or {served.schemes[0]}://bucket/warehouse"
            ", without credentials",
            action="Correct the path, or give it without file_io.",
        )
    root = f"{scheme.lower()}://{authority}"
    return root, bucket, "/".join([root, *names])


def _puts_by_library(cls: type, library: str) -> bool:
    """Whether the puts are the library's own: a subclass may look and then write, which no probe shows. gcsfs's
    extended class makes, in a zonal bucket, objects that can be seen before they are whole; itself it is made as the
    plain one.
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
    """Anew, as a pickle of it would be."""
    try:
        return cls(*arguments, **options)
    except Exception as cause:
        raise InvalidError(
            "file_io",
            found=f"a {cls.__name__} that cannot be made again: {said_without_secrets(cause, secrets)}",
            expected="one that takes what it was made with, and use_listings_cache=False",
            action="Pass these on to the class that it is made from.",
        ) from cause


def _wrapped(given: Any) -> Any:
    try:
        module = import_module("fsspec.implementations.arrow")
    except ImportError as cause:
        raise UnsupportedError(
            "file_io",
            found=f"a file system of pyarrow, and no fsspec ({cause})",
            expected="the package by which those of pyarrow are read",
            action="pip install fsspec",
        ) from cause
    return module.ArrowFSWrapper(given)


def _secrets(values: Any, *, is_secret: bool = False) -> Iterator[str]:
    """Texts under names that speak of credentials, at any depth; of a connection string its parts, too."""
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
