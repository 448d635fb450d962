"""FileIO on an object store, by obstore: S3 and stores with its protocol, Google Cloud Storage, Azure Blob (`bucket`).

A path is the whole URL; a key is the part after the bucket, byte by byte as Paimon's Java client names it. An object
appears whole or not at all, and is durable when its put is answered. A commit is a put on the condition that the key
does not exist (`If-None-Match: *`); a store without such puts cannot hold a table, and is refused at the first try.

    lost answers            the put may have been carried out: it is retried, and if the key exists then, or the tries
                            are over, the object is read back: an object with our bytes is ours. After a refusal of the
                            first try nothing is read
    directories             exist as long as they have objects below them; there are no empty ones
    links                   copies in the store; small ones are conditional puts, so that nothing is overwritten
    moves of directories    refused by name
    locks (`turn`)          among the processes of this machine, on a temporary file

Credentials and the endpoint come from `storage_options`, otherwise from the environment, as in the store's own tools
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …). No error and no repr shows them. A pickle contains the options, but not
the environment: tasks elsewhere use that of their machines.

Source: format.md section 11. Raises as `file_io` says, UnsupportedError if obstore is not installed.

A conditional put whose answer is lost, in `_put_if`:

    first try      the store puts the object, the connection breaks         the outcome is uncertain from here on
    second try     "the key exists"                                         read back: our bytes, so the put succeeded

The pauses between nine tries add up to 26 s at most, in addition to the tries themselves.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import pyarrow as pa

from widetable.errors import InvalidError, NotFoundError, StorageError
from widetable.storage.file_io import FileStatus
from widetable.storage.path_below import path_below
from widetable.storage.remote.bucket import SCHEMES, bucket_of
from widetable.storage.remote.flat_keys import FlatKeys, check_exclusive, taken_key
from widetable.storage.remote.ranged_input import RangedFile, RangedInput
from widetable.storage.remote.remote_output import RemoteOutput
from widetable.storage.remote.replace_in_steps import holds
from widetable.storage.remote.storage_options import AZURE, StorageOptions, options_of_the_file
from widetable.storage.remote.store_client import store_client

T = TypeVar("T")

_ANSWER_TRIES: Final = 4
# A longer object is uploaded in parts of this size.
_PART_BYTES: Final = 8 << 20
# Up to this size a link is a conditional put; the store copies a longer object, to a name that is new.
_SMALL_BYTES: Final = 8 << 20
# The longest pauses between the tries of a conditional put.
_PAUSES_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)


class ObjectStoreFileIO(FlatKeys):
    """A FileIO on one bucket. root: its URL, such as `s3://bucket`. options: None: those of the environment.

    Picklable and thread-safe. Objects of one bucket and the same options share a client (`store_client`).
    """

    def __init__(self, root: str, options: StorageOptions | None = None) -> None:
        self._bucket, self._root = bucket_of(root)
        self._options = options
        client_options = options_of_the_file() if options is None else options
        self._client = store_client(self._bucket, client_options)

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectStoreFileIO, (self._root, self._options)

    def beside(self, url: str) -> tuple[ObjectStoreFileIO, str] | None:
        """Return the storage, with the same options, and the path of a URL in this bucket; None for a URL elsewhere."""
        if url.partition("://")[0].lower() not in SCHEMES:
            return None
        bucket, path = bucket_of(url)
        is_same = bucket == self._bucket
        return (ObjectStoreFileIO(bucket.root, self._options), path) if is_same else None

    def read(self, path: str) -> bytes:
        return self._answered(path, lambda obs, store, key: bytes(obs.get(store, key).bytes()))

    def open_input(self, path: str) -> pa.NativeFile:
        # The size comes with the tail, so opening is one request. Azure has no ranges from the
        # end, so its size is requested before.
        def tail(size: int) -> tuple[bytes, int]:
            has_no_tails = self._bucket.store == AZURE
            start = max(0, self.size(path) - size) if has_no_tails else None
            of = {"suffix": size} if start is None else {"offset": start}

            def request(obs: Any, store: Any, key: str) -> tuple[bytes, int]:
                answer = obs.get(store, key, options={"range": of})
                return bytes(answer.bytes()), int(answer.meta["size"])

            try:
                return self._answered(path, request)
            except StorageError:
                if self.size(path):
                    raise
                return b"", 0  # stores refuse ranges of an empty object

        def range_of(start: int, end: int) -> bytes:
            return self._answered(
                path, lambda obs, store, key: bytes(obs.get_range(store, key, start=start, end=end))
            )

        return RangedFile(RangedInput(tail, range_of))

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new object without checking that it does not exist: names of data files are always new."""
        with self._client.mapped_errors(path):
            writer = self._client.obs.open_writer(
                self._client.store, self._key(path), buffer_size=_PART_BYTES
            )
        return pa.PythonFile(
            RemoteOutput(writer, lambda request: self._client.mapped_errors(path)(request)()),
            mode="w",
        )

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise taken_key(path)

    def publish(self, path: str, data: bytes) -> bool:
        self._key(path)  # first: a path that is refused tells nothing about the store
        if not self._client.is_exclusive:
            check_exclusive(self._root, path, self._put_new, self.delete)
            self._client.is_exclusive = True
        return self._put_new(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._answered(path, lambda obs, store, key: obs.put(store, key, data))

    def replace_if(self, path: str, expected: bytes, data: bytes) -> bool:
        """Read the object, then put on the condition that it has not changed since (`If-Match`)."""

        def request(obs: Any, store: Any, key: str) -> tuple[bool, dict[str, Any]]:
            answer = obs.get(store, key)
            return bytes(answer.bytes()) == expected, answer.meta

        try:
            is_expected, meta = self._answered(path, request)
            if not is_expected:
                return False
            version = {name: meta[name] for name in ("e_tag", "version") if meta[name]}
            return self._put_if(path, data, version)
        except NotFoundError:
            return False

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Copy an object. A small one is read and put conditionally: of two callers with one target, one gets True.
        The store copies a large one after a check that the target does not exist, and both callers may get True.
        With `replace` the store copies an object of any size.
        """
        if replace or self.size(source) > _SMALL_BYTES:
            if not replace and self.exists(target):
                return False
            to = self._key(target)
            self._answered(source, lambda obs, store, key: obs.copy(store, key, to, overwrite=True))
            return True
        return self.publish(target, self.read(source))

    def exists(self, path: str) -> bool:
        try:
            self._head(path)
        except NotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        return int(self._head(path)["size"])

    def list(self, path: str) -> list[FileStatus]:
        key = self._key(path)
        below = f"{key}/" if key else ""
        listing = self._answered(
            path, lambda obs, store, _: obs.list_with_delimiter(store, prefix=below or None)
        )
        entries = [
            FileStatus(prefix[len(below) :].rstrip("/"), True, 0, 0, 0)
            for prefix in listing["common_prefixes"]
        ]
        for one in listing["objects"]:
            name, millis = one["path"][len(below) :], int(one["last_modified"].timestamp() * 1000)
            if name:  # some tools put an empty object in place of a directory
                entries.append(FileStatus(name, False, one["size"], millis, millis))
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, path: str) -> bool:
        """Check first whether the object exists, because S3's answer to a delete does not tell."""
        if not self.exists(path):
            return False
        try:
            self._answered(path, lambda obs, store, key: obs.delete(store, key))
        except NotFoundError:
            return False
        return True

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        """Delete a thousand objects per request, without checking which of them exist."""
        all_paths = tuple(paths)
        if all_paths:
            self._delete_all([self._key(path) for path in all_paths])
        return all_paths

    def delete_dir(self, path: str) -> bool:
        was_there = False

        def delete_pages(obs: Any, store: Any, key: str) -> None:
            nonlocal was_there
            for page in obs.list(store, prefix=f"{key}/"):
                was_there = True
                self._delete_all([one["path"] for one in cast("Sequence[dict[str, Any]]", page)])

        self._answered(path, delete_pages)
        return was_there

    def _answered(self, path: str, request: Callable[[Any, Any, str], T]) -> T:
        """Make a request that may be repeated, and retry it if the answer is cut off: obstore retries only if there is
        no answer, not if the answer breaks off, be it a listing or the error for a missing object.
        """
        key = self._key(path)
        for tries_left in reversed(range(_ANSWER_TRIES)):
            try:
                with self._client.mapped_errors(path):
                    return request(self._client.obs, self._client.store, key)
            except StorageError as refusal:
                if not tries_left or "response body" not in refusal.found:
                    raise
        raise AssertionError("the last try returns or raises")

    def _delete_all(self, keys: Sequence[str]) -> None:
        """Delete keys in one call. Stores other than S3 raise an error if another client deleted a key meanwhile."""
        try:
            self._answered(self._root, lambda obs, store, _: obs.delete(store, keys))
        except NotFoundError:
            for key in keys:
                self.delete(f"{self._root}/{key}")

    def _put_new(self, path: str, data: bytes) -> bool:
        return self._put_if(path, data, "create")

    def _put_if(self, path: str, data: bytes, mode: Any) -> bool:
        """Put on a condition (obstore's PutMode); return False if it does not hold."""
        client, key, is_certain = self._client, self._key(path), True
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                with self._client.mapped_errors(path):
                    client.obs.put(client.store_once, key, data, mode=mode, use_multipart=False)
                return True
            except (
                InvalidError
            ):  # the key exists; after a try without an answer it may be our object
                return not is_certain and holds(self, path, data)
            except StorageError as refusal:
                may_pass = client.is_transient(refusal)
                is_certain = is_certain and not may_pass
                # Retry while the error may be transient. Then raise it if no try can have been
                # carried out, or the object is not ours.
                if may_pass and pause_seconds is not None:
                    time.sleep(random.uniform(0.5, 1) * pause_seconds)
                elif is_certain or not holds(self, path, data):
                    raise
                else:
                    return True
        raise AssertionError("the last try returns or raises")

    def _head(self, path: str) -> dict[str, Any]:
        return self._answered(path, lambda obs, store, key: obs.head(store, key))

    def _key(self, path: str) -> str:
        return path_below(self._root, path)[1:]
