"""The client of a bucket (obstore), which translates errors into those of this package, without secrets.

All tables of a bucket with the same options share a client, so that connections stay open. Raises StorageError,
UnsupportedError if obstore is not installed.

A client has two stores of its bucket: `store` retries by itself, for requests that may be repeated;
`store_once` does not, for conditional puts. They are opened at their first use: a process that only
creates the client may still fork.
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
from widetable.storage.remote.redacted_errors import redacted_message
from widetable.storage.remote.storage_options import StorageOptions

# The status of an answer that a retry does not change: any 4xx but 408 (too slow) and 429 (too many requests).
_FINAL_STATUS: Final = re.compile(r"status code: 4(?!08|29)\d\d")


class StoreClient:
    """The client of one bucket. Its stores are opened at their first use.

    is_exclusive: the store has passed the probe for conditional puts.
    """

    def __init__(self, bucket: StoreBucket, options: StorageOptions) -> None:
        self._bucket = bucket
        self._options = options
        self._stores: dict[bool, Any] = {}
        self.is_exclusive = False
        self.obs: Any = _obstore("obstore")
        self._errors: Any = _obstore("obstore.exceptions")

    @property
    def store(self) -> Any:
        """The store that retries. Raises StorageError in a child that was forked after the first use: obstore's threads
        do not exist there, and a call would never return.
        """
        return self._store(retries=True)

    @property
    def store_once(self) -> Any:
        """The store that does not retry: the caller of a conditional put must know which try has failed."""
        return self._store(retries=False)

    def _store(self, *, retries: bool) -> Any:
        check_not_forked(self._bucket.root, "an object store")
        if retries not in self._stores:
            module = _obstore("obstore.store")
            self._stores[retries] = open_store(module, self._bucket, self._options, retries=retries)
        return self._stores[retries]

    def _redacted(self, cause: Exception) -> str:
        return redacted_message(cause, self._options.secrets)

    def is_transient(self, refusal: StorageError) -> bool:
        """Return whether another try may get another answer."""
        cause = refusal.__cause__
        return isinstance(cause, self._errors.GenericError) and not _FINAL_STATUS.search(str(cause))

    @contextlib.contextmanager
    def mapped_errors(self, path: str) -> Iterator[None]:
        """Translate errors of obstore and Python into those of this package, which name the path. InvalidError: a
        condition did not hold.
        """
        errors = self._errors
        try:
            yield
        except (errors.NotFoundError, FileNotFoundError) as cause:
            self._redacted(cause)
            raise no_object(path) from cause
        except (errors.AlreadyExistsError, errors.PreconditionError) as cause:
            self._redacted(cause)
            raise taken_key(path) from cause
        except errors.NotSupportedError as cause:
            raise UnsupportedError(
                path,
                found=self._redacted(cause),
                expected="a store that supports puts on the condition that the key does not exist",
                action="Use a store that does, such as S3 itself, or a local disk.",
            ) from cause
        except errors.InvalidPathError as cause:
            raise StorageError(
                path,
                found=self._redacted(cause),
                expected="keys without empty, '.' and '..' parts and without control characters",
                action="Delete or move that object with the store's own tools; no table has such names.",
            ) from cause
        except (errors.BaseError, OSError, pa.ArrowException) as cause:
            raise StorageError(
                path,
                found=self._redacted(cause),
                expected="a store that accepts the operation",
                action="Check the store, its endpoint and credentials, then retry.",
            ) from cause


# The process that runs the threads of a kind of client.
_USERS: Final[dict[str, int]] = {}
_CLIENTS: Final[dict[tuple[str, StorageOptions], StoreClient]] = {}


def store_client(bucket: StoreBucket, options: StorageOptions) -> StoreClient:
    """Return the client of a bucket and its options, one per process."""
    key = bucket.root, options
    if key not in _CLIENTS:
        _CLIENTS[key] = StoreClient(bucket, options)
    return _CLIENTS[key]


def check_not_forked(root: str, what: str) -> None:
    """Refuse a client in a forked child, which lacks the client's threads. what: the kind of client.

    Called before each use. The first process that uses a kind of client is recorded. A child whose parent never used
    the client may be that process. Raises StorageError.
    """
    if _USERS.setdefault(what, os.getpid()) != os.getpid():
        raise StorageError(
            root,
            found=f"a process that was forked from a process that had used {what}",
            expected="a process that was spawned, or that was forked before the first use",
            action="Start it as a new process (multiprocessing's 'spawn' or 'forkserver').",
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
