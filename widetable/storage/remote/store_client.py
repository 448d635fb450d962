"""obstore's side of a bucket: the stores that ask it, and its errors as ours, without secrets.

One client for all tables of a bucket that have the same options: its connections stay. Raises StorageError,
UnsupportedError where obstore is not installed.

Two stores of one bucket: `store` tries again by itself, for what may be done twice; `store_once`
does not, for puts on condition. They are opened when they are used: a process that only makes
the object may still fork.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from widetable.errors import StorageError, UnsupportedError
from widetable.storage.remote.bucket import StoreBucket, open_store
from widetable.storage.remote.flat_keys import no_object, taken_key
from widetable.storage.remote.redacted_errors import said_without_secrets
from widetable.storage.remote.storage_options import StorageOptions

# Of an answer that a retry will not change: any 4xx but 408 (too slow) and 429 (too many requests).
_FINAL_STATUS: Final = re.compile(r"status code: 4(?!08|29)\d\d")


class StoreClient:
    """Its stores are opened when they are first used. is_exclusive: known to honour conditional puts."""

    def __init__(self, bucket: StoreBucket, options: StorageOptions) -> None:
        self._bucket = bucket
        self._options = options
        self._stores: dict[bool, Any] = {}
        self.is_exclusive = False
        self.obs: Any = _obstore("obstore")
        self._errors: Any = _obstore("obstore.exceptions")

    @property
    def store(self) -> Any:
        """It tries again what failed. Raises StorageError in a child that was forked after the first use: obstore's
        threads are gone there, and whoever waits for them waits for ever.
        """
        return self._store(retries=True)

    @property
    def store_once(self) -> Any:
        """It tries nothing again: who puts on condition must know which try has failed."""
        return self._store(retries=False)

    def _store(self, *, retries: bool) -> Any:
        check_not_forked(self._bucket.root, "an object store")
        if retries not in self._stores:
            module = _obstore("obstore.store")
            self._stores[retries] = open_store(module, self._bucket, self._options, retries=retries)
        return self._stores[retries]

    def _said(self, cause: Exception) -> str:
        return said_without_secrets(cause, self._options.secrets)

    def is_transient(self, refusal: StorageError) -> bool:
        """Whether another try may get another answer."""
        cause = refusal.__cause__
        return isinstance(cause, self._errors.GenericError) and not _FINAL_STATUS.search(str(cause))

    @contextlib.contextmanager
    def mapped_errors(self, path: str) -> Iterator[None]:
        """Turn the errors of obstore and Python into ours, naming the path. A condition that does not hold is an
        InvalidError.
        """
        errors = self._errors
        try:
            yield
        except (errors.NotFoundError, FileNotFoundError) as cause:
            self._said(cause)
            raise no_object(path) from cause
        except (errors.AlreadyExistsError, errors.PreconditionError) as cause:
            self._said(cause)
            raise taken_key(path) from cause
        except errors.NotSupportedError as cause:
            raise UnsupportedError(
                path,
                found=self._said(cause),
                expected="a store that takes puts on the condition that nobody has the key",
                action="Use a store that does, such as S3 itself, or a local disk.",
            ) from cause
        except errors.InvalidPathError as cause:
            raise StorageError(
                path,
                found=self._said(cause),
                expected="keys without empty, '.' and '..' parts and without control characters",
                action="Delete or move that object with the store's own tools; no table has such names.",
            ) from cause
        except (errors.BaseError, OSError, pa.ArrowException) as cause:
            raise StorageError(
                path,
                found=self._said(cause),
                expected="a store that takes the operation",
                action="Check the store, its endpoint and credentials, then retry.",
            ) from cause


# Which process has the client's threads.
_USERS: Final[dict[str, int]] = {}
_CLIENTS: Final[dict[tuple[str, StorageOptions], StoreClient]] = {}


def store_client(bucket: StoreBucket, options: StorageOptions) -> StoreClient:
    """The one of this process."""
    key = bucket.root, options
    if key not in _CLIENTS:
        _CLIENTS[key] = StoreClient(bucket, options)
    return _CLIENTS[key]


def check_not_forked(root: str, what: str) -> None:
    """Called before each use of a client whose threads a forked child does not have. what: it is a client of.

    The first process that asks is noted, per kind of client. A child that asks first, where its
    parent never did, is that process.
    """
    if _USERS.setdefault(what, os.getpid()) != os.getpid():
        raise StorageError(
            root,
            found=f"a process that was forked from one that had used {what}",
            expected="a process that was not, or that was forked before",
            action="Start it anew (multiprocessing's 'spawn' or 'forkserver').",
        )


def _obstore(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as cause:
        raise UnsupportedError(
            "object store",
            found=f"no obstore ({cause})",
            expected="the package that reads and writes object stores",
            action="pip install 'widetable[object-store]'",
        ) from cause
