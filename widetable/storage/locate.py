"""Which FileIO serves a path or URL.

A storage that cannot publish exclusively, or that this version does not serve, is refused by name.

    s3://b//w/          ObjectStoreFileIO    s3://b/w             empty parts go
    S3://b/w            the same             s3://b/w             the scheme in small letters
    file:///tmp/a%20b/  LocalFileIO          /tmp/a b             decoded
    warehouse           LocalFileIO          /current/directory/warehouse
    oss://b/w           UnsupportedError     with the reason where one is known

Makes no request: whether something is there is found out by who uses the storage.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from widetable.arguments import path as checked
from widetable.arguments import refused
from widetable.errors import NotFoundError, UnsupportedError
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO
from widetable.storage.remote.bucket import SCHEMES, bucket_of
from widetable.storage.remote.fsspec_store import FsspecFileIO
from widetable.storage.remote.hdfs import HdfsFileIO
from widetable.storage.remote.hdfs_client import SCHEME as HDFS
from widetable.storage.remote.hdfs_client import root_of
from widetable.storage.remote.object_store import ObjectStoreFileIO
from widetable.storage.remote.storage_options import StorageOptions

_WHY_NOT: Final = {"oss": ", whose puts know no If-None-Match"}
_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


def locate(
    where: str | os.PathLike[str], *, fsync: bool = True, options: StorageOptions | None = None
) -> tuple[FileIO, str]:
    """The storage of a path or URL, and the path on it without a trailing slash. options: of an object store; None: as
    the environment says. Raises UnsupportedError for other schemes, InvalidError for what is none of both,
    NotFoundError for a relative one in a working directory that has gone.
    """
    scheme, root, path = _place(where)
    if scheme == HDFS:
        return HdfsFileIO(root, fsync=fsync), path
    return (ObjectStoreFileIO(root, options) if scheme else LocalFileIO(fsync=fsync)), path


def path_at(where: str | os.PathLike[str]) -> str:
    """The path that `locate` reads in it, for a storage that somebody else has made. Raises as `locate`."""
    return _place(where)[2]


def _place(where: str | os.PathLike[str]) -> tuple[str, str, str]:
    """(scheme, root, path), the first two empty for a disk."""
    url = checked(where, "path")
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower() if separator else ""
    if scheme in SCHEMES:
        bucket, path = bucket_of(url)
        return scheme, bucket.root, path
    if scheme == HDFS:
        return scheme, *root_of(url)
    return "", "", local_path(url)


def locate_beside(
    known: FileIO, where: str | os.PathLike[str], *, fsync: bool = True
) -> tuple[FileIO, str]:
    """As `locate`, from a table on the storage `known`: what lies in the same bucket, by whichever of its schemes, is
    asked by the same options, or by the same file system that was given.

    In another bucket the environment says who asks: options were given for the bucket that they
    were given with.
    """
    url = checked(where, "path")
    same = known.beside(url) if isinstance(known, (FsspecFileIO, ObjectStoreFileIO)) else None
    return locate(url, fsync=fsync) if same is None else same


def local_path(where: str | os.PathLike[str]) -> str:
    """The whole path of a file or directory on a disk of this machine, which may be given as a file: URL. Raises as
    `locate`, and UnsupportedError for what lies elsewhere.
    """
    path = url = checked(where, "path")
    if _SCHEME.match(url):
        try:
            parts = urlsplit(url)
        except ValueError as cause:  # brackets that are no IPv6 address
            raise refused(url, "path", f"a path or file: URL ({cause})") from cause
        if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
            raise UnsupportedError(
                f"path {url!r}",
                found=f"the storage {parts.scheme!r}{_WHY_NOT.get(parts.scheme.lower(), '')}",
                expected=f"a local path or a file: URL; a table may be in a bucket or on HDFS "
                f"({', '.join((*SCHEMES, HDFS))})",
                action="Use a place that is served.",
            )
        path = checked(unquote(parts.path), "path")
    try:
        return os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"path {url!r}",
            found="a working directory that has gone",
            expected="one that it is relative to",
            action="Go to a directory that is there, or give a whole path.",
        ) from cause
