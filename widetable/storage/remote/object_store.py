"""FileIO on an object store, by obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob (`bucket`).

A path is the whole URL, a key what stands behind the bucket, byte by byte as Paimon's Java names it. An object appears
whole or not at all, and is durable when its put is answered. A commit is a put on the condition that nobody has the key
(`If-None-Match: *`); a store that takes no such puts cannot hold a table, and is refused by name at the first try.

    answers that got lost   a put on condition may have been carried out: it is tried again, and where "somebody" has
                            the key then, or the tries are over, it is read back: what holds our bytes is ours. After
                            a first answer that says no nothing is read
    directories             those that have objects below them; an empty one is never there
    links                   copies in the store; small ones are put on condition, so that nothing is written over
    moves of directories    refused by name
    turns                   of the processes of this machine, at a file among the temporary ones

Credentials and the endpoint come from `storage_options`, else from the environment, as the store's own tools take
them (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …). They are in no error and no repr. A pickle has the options, and not
the environment: tasks elsewhere take that of their machines.

Source: format.md section 11. Raises as `file_io` says, UnsupportedError where obstore is not installed.

A put on condition whose answer gets lost, in `_put_if`:

    first try      the store has put the object, the connection breaks      not certain from here on
    second try     "somebody has the key"                                   read back: our bytes, so it was us

The pauses between nine tries add up to 26 s at most, beside what the tries take.
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
from widetable.storage.remote.remote_output import FarOutput
from widetable.storage.remote.replace_in_steps import holds
from widetable.storage.remote.storage_options import AZURE, StorageOptions, options_of_the_file
from widetable.storage.remote.store_client import store_client

T = TypeVar("T")

_ANSWER_TRIES: Final = 4
# Of one object that is written: what is longer goes up in parts.
_PART_BYTES: Final = 8 << 20
# Up to here bytes are put on condition; what is longer is copied by the store, under a name that is new.
_SMALL_BYTES: Final = 8 << 20
# Between the tries of a put on condition, at most.
_PAUSES_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)


class ObjectStoreFileIO(FlatKeys):
    """Of one bucket. root: its URL, such as `s3://bucket`. options: None: as the environment says. Picklable.

    Threads may share it. Those of one bucket and the same options share a client
    (`store_client`).
    """

    def __init__(self, root: str, options: StorageOptions | None = None) -> None:
        self._bucket, self._root = bucket_of(root)
        self._options = options
        asked = options_of_the_file() if options is None else options
        self._client = store_client(self._bucket, asked)

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectStoreFileIO, (self._root, self._options)

    def beside(self, url: str) -> tuple[ObjectStoreFileIO, str] | None:
        """Of a URL in this bucket: the storage by which it is asked as this one is, and the path; None for one
        elsewhere.
        """
        if url.partition("://")[0].lower() not in SCHEMES:
            return None
        bucket, path = bucket_of(url)
        is_same = bucket == self._bucket
        return (ObjectStoreFileIO(bucket.root, self._options), path) if is_same else None

    def read(self, path: str) -> bytes:
        return self._answered(path, lambda obs, store, key: bytes(obs.get(store, key).bytes()))

    def open_input(self, path: str) -> pa.NativeFile:
        # The size comes with the tail, so opening is one request; Azure has no ranges from the
        # end, and is asked for it.
        def tail(size: int) -> tuple[bytes, int]:
            has_no_tails = self._bucket.store == AZURE
            start = max(0, self.size(path) - size) if has_no_tails else None
            of = {"suffix": size} if start is None else {"offset": start}

            def ask(obs: Any, store: Any, key: str) -> tuple[bytes, int]:
                found = obs.get(store, key, options={"range": of})
                return bytes(found.bytes()), int(found.meta["size"])

            try:
                return self._answered(path, ask)
            except StorageError:
                if self.size(path):
                    raise
                return b"", 0  # stores have no range of an empty object

        def range_of(start: int, end: int) -> bytes:
            return self._answered(
                path, lambda obs, store, key: bytes(obs.get_range(store, key, start=start, end=end))
            )

        return RangedFile(RangedInput(tail, range_of))

    def open_output(self, path: str) -> pa.NativeFile:
        """Nobody looks whether the object is there: names of data files are new by themselves."""
        with self._client.mapped_errors(path):
            writer = self._client.obs.open_writer(
                self._client.store, self._key(path), buffer_size=_PART_BYTES
            )
        return pa.PythonFile(
            FarOutput(writer, lambda ask: self._client.mapped_errors(path)(ask)()), mode="w"
        )

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise taken_key(path)

    def publish(self, path: str, data: bytes) -> bool:
        self._key(path)  # first: what is refused for its place says nothing of the store
        if not self._client.is_exclusive:
            check_exclusive(self._root, path, self._put_new, self.delete)
            self._client.is_exclusive = True
        return self._put_new(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._answered(path, lambda obs, store, key: obs.put(store, key, data))

    def replace_if(self, path: str, held: bytes, data: bytes) -> bool:
        """On the condition that it has not changed since the look (`If-Match`)."""

        def ask(obs: Any, store: Any, key: str) -> tuple[bool, dict[str, Any]]:
            found = obs.get(store, key)
            return bytes(found.bytes()) == held, found.meta

        try:
            is_there, meta = self._answered(path, ask)
            if not is_there:
                return False
            version = {name: meta[name] for name in ("e_tag", "version") if meta[name]}
            return self._put_if(path, data, version)
        except NotFoundError:
            return False

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """A small one is read and put on condition: of two who link to one name one gets True. A
        large one is copied by the store after a look, and of two both may; `replace` of any
        size is a copy.
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
        found = self._answered(
            path, lambda obs, store, _: obs.list_with_delimiter(store, prefix=below or None)
        )
        entries = [
            FileStatus(prefix[len(below) :].rstrip("/"), True, 0, 0, 0)
            for prefix in found["common_prefixes"]
        ]
        for one in found["objects"]:
            name, millis = one["path"][len(below) :], int(one["last_modified"].timestamp() * 1000)
            if name:  # some tools put an empty object in the place of a directory
                entries.append(FileStatus(name, False, one["size"], millis, millis))
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, path: str) -> bool:
        """S3 does not say whether there was anything: it is asked before."""
        if not self.exists(path):
            return False
        try:
            self._answered(path, lambda obs, store, key: obs.delete(store, key))
        except NotFoundError:
            return False
        return True

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        """A thousand in a request, without asking which are there."""
        asked = tuple(paths)
        if asked:
            self._delete_all([self._key(path) for path in asked])
        return asked

    def delete_dir(self, path: str) -> bool:
        was_there = False

        def delete_pages(obs: Any, store: Any, key: str) -> None:
            nonlocal was_there
            for page in obs.list(store, prefix=f"{key}/"):
                was_there = True
                self._delete_all([one["path"] for one in cast("Sequence[dict[str, Any]]", page)])

        self._answered(path, delete_pages)
        return was_there

    def _answered(self, path: str, ask: Callable[[Any, Any, str], T]) -> T:
        """What may be done twice, begun anew: obstore asks again where there was no answer, not where one was cut, be
        it a list or what is said of an object that is not there.
        """
        key = self._key(path)
        for tries_left in reversed(range(_ANSWER_TRIES)):
            try:
                with self._client.mapped_errors(path):
                    return ask(self._client.obs, self._client.store, key)
            except StorageError as refusal:
                if not tries_left or "response body" not in refusal.found:
                    raise
        raise AssertionError("the last try returns or raises")

    def _delete_all(self, keys: Sequence[str]) -> None:
        """S3 takes them at once; other stores mind those that somebody else has deleted."""
        try:
            self._answered(self._root, lambda obs, store, _: obs.delete(store, keys))
        except NotFoundError:
            for key in keys:
                self.delete(f"{self._root}/{key}")

    def _put_new(self, path: str, data: bytes) -> bool:
        return self._put_if(path, data, "create")

    def _put_if(self, path: str, data: bytes, mode: Any) -> bool:
        """Put on a condition (obstore's PutMode); False when it does not hold."""
        client, key, is_certain = self._client, self._key(path), True
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                with self._client.mapped_errors(path):
                    client.obs.put(client.store_once, key, data, mode=mode, use_multipart=False)
                return True
            except InvalidError:  # somebody was there; after a try without an answer, perhaps we
                return not is_certain and holds(self, path, data)
            except StorageError as refusal:
                may_pass = client.is_transient(refusal)
                is_certain = is_certain and not may_pass
                # Tried again while it may pass. Then raised where no try can have been carried
                # out, or the object is not ours.
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
