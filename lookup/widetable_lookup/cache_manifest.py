"""The manifest of a cache: what the cache is a copy of, and its files.

    manifest   = JSON object, newline, 8 hex digits: CRC-32 of the bytes before the newline
    object     = boot, table, data_file, data_file_bytes, rows, schema_id, columns, types, retention_millis,
                 files: {name: [bytes, CRC-32 or null]}

It is written last, so a cache without a valid manifest is not complete. When a cache is opened, the size of every file
is checked, and the checksum of the files that are read then. `rows.arrow` and the SST file have no checksum here: they
are large, mostly only a small part is read, and both check each page or block when it is read.

Nothing is forced to the disk (an fsync costs more than many builds), so a crash of the host may leave files of the
right size with wrong bytes. A cache is therefore trusted for as long as the host runs: `boot` is the kernel's id of
this run. Hosts without such an id force each file to the disk.

In: values. Out: bytes, and back. Raises CacheFault for a manifest or files that differ from what was written, OSError.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from widetable_lookup.cache_fault import CacheFault, NoCache

MANIFEST: Final = "manifest"

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# These files are checked page by page, or block by block, when they are read.
_CHECKS_ITSELF: Final = ("rows.arrow", ".sst")
_DISK_BLOCK_BYTES: Final = 4096


@dataclass(frozen=True)
class CachedSource:
    """What a cache is a copy of. types: the types of the columns, as Arrow prints them. table, data_file: paths, for
    people.
    """

    table: str
    data_file: str
    data_file_bytes: int
    rows: int
    schema_id: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    retention_millis: int


@dataclass(frozen=True)
class CacheManifest:
    """The content of a manifest. files: name below the directory of the cache to (bytes, checksum or None)."""

    source: CachedSource
    boot: str
    files: Mapping[str, tuple[int, int | None]]

    @property
    def disk_bytes(self) -> int:
        """Return the space that the cache takes on the disk.

        It counts whole blocks of the disk, and one block for the manifest, which is not among the files.
        """
        blocks = sum(-(-size // _DISK_BLOCK_BYTES) for size, _ in self.files.values())
        return (blocks + 1) * _DISK_BLOCK_BYTES

    def content(self, directory: str, name: str) -> bytes:
        """Read a file that has a checksum, and check it."""
        path = f"{directory}/{name}"
        size_bytes, checksum = self.files.get(name, (0, None))
        with open(path, "rb") as file:
            data = file.read()
        if checksum is None or len(data) != size_bytes or zlib.crc32(data) != checksum:
            raise CacheFault(f"{path}: not the bytes that were written")
        return data

    def check_files(self, directory: str) -> None:
        """Check that all files exist with their sizes, and the checksums of the files of the key index.

        RocksDB opens the files of the key index, and would trust them; layout, pages and fences are checked when
        `content` reads them. Raises CacheFault, and OSError for a missing file.
        """
        for name, (size_bytes, checksum) in self.files.items():
            if checksum is not None and "/" in name:
                self.content(directory, name)
                continue
            actual_bytes = os.stat(f"{directory}/{name}").st_size
            if actual_bytes != size_bytes:
                raise CacheFault(
                    f"{directory}/{name}: {actual_bytes} bytes, {size_bytes} were written"
                )

    def to_bytes(self) -> bytes:
        body = json.dumps({**asdict(self.source), "boot": self.boot, "files": self.files}).encode()
        return b"%s\n%08x" % (body, zlib.crc32(body))


def seal(directory: str, source: CachedSource) -> CacheManifest:
    """Write the manifest of a cache whose other files are complete."""
    files = {}
    boot = boot_id()
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue
            if not boot:
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
            files[os.path.relpath(path, directory)] = _described(path)
    manifest = CacheManifest(source, boot, files)
    with open(f"{directory}/{MANIFEST}", "xb") as sealed:
        sealed.write(manifest.to_bytes())
    return manifest


def read_manifest(directory: str) -> CacheManifest:
    """Read the manifest of a cache.

    Raises CacheFault for a damaged manifest, NoCache for a missing one or one from before the host was started.
    """
    path = f"{directory}/{MANIFEST}"
    try:
        with open(path, "rb") as file:
            body, _, checksum = file.read().rpartition(b"\n")
    except FileNotFoundError as cause:
        raise NoCache(f"{path}: no such file") from cause
    if checksum != b"%08x" % zlib.crc32(body):
        raise CacheFault(f"{path}: not the bytes that were written")
    try:
        manifest = _from_object(json.loads(body))
    except (KeyError, TypeError, ValueError) as cause:
        raise CacheFault(f"{path}: no manifest: {cause}") from cause
    if manifest.boot != boot_id():
        raise NoCache(f"{path}: the host was started again since")
    return manifest


def boot_id() -> str:
    """Return the kernel's id of this run of the host; "" where there is none."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _from_object(body: dict[str, Any]) -> CacheManifest:
    source = CachedSource(
        table=str(body["table"]),
        data_file=str(body["data_file"]),
        data_file_bytes=int(body["data_file_bytes"]),
        rows=int(body["rows"]),
        schema_id=int(body["schema_id"]),
        columns=tuple(map(str, body["columns"])),
        types=tuple(map(str, body["types"])),
        retention_millis=int(body["retention_millis"]),
    )
    files = {
        str(name): (int(size), None if checksum is None else int(checksum))
        for name, (size, checksum) in body["files"].items()
    }
    return CacheManifest(source, str(body["boot"]), files)


def _described(path: str) -> tuple[int, int | None]:
    if path.endswith(_CHECKS_ITSELF):
        return os.stat(path).st_size, None
    with open(path, "rb") as file:
        data = file.read()
    return len(data), zlib.crc32(data)
