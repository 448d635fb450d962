"""Chooses the FileIO of a path or URL.

A storage that cannot publish exclusively, or that this version does not support, is refused by name.

    s3://b//w/          ObjectStoreFileIO    s3://b/w             empty parts are removed
    S3://b/w            ObjectStoreFileIO    s3://b/w             the scheme in lower case
    file:///tmp/a%20b/  LocalFileIO          /tmp/a b             decoded
    warehouse           LocalFileIO          /current/directory/warehouse
    oss://b/w           UnsupportedError     with the reason if it is known

Makes no request: the caller finds out whether the path exists.
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

_WHY_NOT: Final = {"oss": ", whose puts do not support If-None-Match"}
_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


def locate(
    where: str | os.PathLike[str], *, fsync: bool = True, options: StorageOptions | None = None
) -> tuple[FileIO, str]:
    """Return the storage of a path or URL, and the path on it.

    Parameters
    ----------
    where : str or os.PathLike
        A path or URL.
    fsync : bool, default True
        Whether files are forced to the disk.
    options : StorageOptions, default None
        Options of an object store. None: the environment provides them.

    Returns
    -------
    tuple of FileIO and str
        The storage, and the path without a trailing slash.

    Raises
    ------
    UnsupportedError
        The scheme is not supported.
    InvalidError
        It is neither a path nor a URL.
    NotFoundError
        A relative path in a working directory that no longer exists.
    """
    scheme, root, path = _place(where)
    if scheme == HDFS:
        return HdfsFileIO(root, fsync=fsync), path
    return (ObjectStoreFileIO(root, options) if scheme else LocalFileIO(fsync=fsync)), path


def path_at(where: str | os.PathLike[str]) -> str:
    """Return the path that `locate` would return, for a storage that the caller already has. Raises as `locate`."""
    return _place(where)[2]


def _place(where: str | os.PathLike[str]) -> tuple[str, str, str]:
    """Return (scheme, root, path); scheme and root are empty for a disk."""
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
    neighbour: FileIO, where: str | os.PathLike[str], *, fsync: bool = True
) -> tuple[FileIO, str]:
    """Do what `locate` does, for a table beside one on the storage `neighbour`. A path in the same bucket, by whichever
    of its schemes, is accessed with the same options, or with the same file system.

    A path in another bucket is accessed with the options of the environment, because the options of a storage are
    meant for its own bucket.
    """
    url = checked(where, "path")
    stores = (FsspecFileIO, ObjectStoreFileIO)
    same = neighbour.beside(url) if isinstance(neighbour, stores) else None
    return locate(url, fsync=fsync) if same is None else same


def local_path(where: str | os.PathLike[str]) -> str:
    """Return the whole path of a file or directory on a disk of this machine.

    Parameters
    ----------
    where : str or os.PathLike
        A path or file: URL.

    Returns
    -------
    str
        The path.

    Raises
    ------
    InvalidError
        It is neither a path nor a URL.
    UnsupportedError
        It lies elsewhere.
    """
    path = url = checked(where, "path")
    if _SCHEME.match(url):
        try:
            parts = urlsplit(url)
        except ValueError as cause:  # brackets that do not contain an IPv6 address
            raise refused(url, "path", f"a path or file: URL ({cause})") from cause
        if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
            raise UnsupportedError(
                f"path {url!r}",
                found=f"the storage {parts.scheme!r}{_WHY_NOT.get(parts.scheme.lower(), '')}",
                expected=f"a local path or a file: URL; a table may be in a bucket or on HDFS "
                f"({', '.join((*SCHEMES, HDFS))})",
                action="Use a storage that is supported.",
            )
        path = checked(unquote(parts.path), "path")
    try:
        return os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"path {url!r}",
            found="a working directory that was removed",
            expected="a working directory that exists, for a relative path",
            action="Change to a directory that exists, or pass an absolute path.",
        ) from cause
