"""Snapshots and tags: one small JSON file that says which manifests make a table.

Source: Paimon `Snapshot`, `Tag`; keys, their order and which are optional: format.md section 3.
Keys that this version does not know are kept in `extra` and written again at the end. Bytes that
are no such JSON raise DamagedError naming the subject; a newer format version raises
UnsupportedError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from widetable.errors import DamagedError, UnsupportedError
from widetable.format.damaged_file import damaged_bytes
from widetable.format.html_facts import html_facts

# On disk: never change.
SNAPSHOT_VERSION: Final = 3
COMMIT_KIND_APPEND: Final = "APPEND"
COMMIT_KIND_COMPACT: Final = "COMPACT"
COMMIT_KIND_OVERWRITE: Final = "OVERWRITE"
COMMIT_KIND_ANALYZE: Final = "ANALYZE"
COMMIT_KINDS: Final = (
    COMMIT_KIND_APPEND,
    COMMIT_KIND_COMPACT,
    COMMIT_KIND_OVERWRITE,
    COMMIT_KIND_ANALYZE,
)
# The identifier of batch writers, which commit once and have no epoch.
BATCH_COMMIT_IDENTIFIER: Final = 2**63 - 1
_NO_WATERMARK: Final = -(2**63)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One version of a table: its live files are the entries of the base list, then the delta list.

    sizes: bytes of the list files; counts: rows in files (a compaction's delta may be negative);
    times: epoch millis.
    properties: string to string, empty when the file has none. extra: JSON keys unknown to this
    version.

    The delta has the changes of this commit; readers of changes without a changelog need only that.
    commit_user, commit_identifier: they identify the commit, so that a repeated one is recognised
    (docs/decisions/0015). Names of lists are without a directory. watermark: epoch millis,
    None also for the Long.MIN_VALUE of writers that have none.
    commit_kind: APPEND adds files, COMPACT replaces files by others with the same rows, OVERWRITE
    replaces existing rows, ANALYZE changes no file.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    total_record_count: int
    delta_record_count: int
    version: int = SNAPSHOT_VERSION
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    writer_version: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def list_bytes(self) -> dict[str, int | None]:
        """The manifest lists (base, delta and changelog), by name, with their recorded sizes."""
        lists = {
            self.base_manifest_list: self.base_manifest_list_size,
            self.delta_manifest_list: self.delta_manifest_list_size,
        }
        if self.changelog_manifest_list is not None:
            lists[self.changelog_manifest_list] = self.changelog_manifest_list_size
        return lists

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the keys of the snapshot file that have a value, numbers without separators."""
        body = _snapshot_body(self)
        facts = {key: str(value) for key, value in body.items() if value is not None}
        facts["timeMillis"] = _time_text(self.time_millis)
        return html_facts(f"Snapshot {self.id}", facts)

    def to_json(self) -> str:
        """Return the text of a snapshot file; optional keys without a value are left out, as in Paimon."""
        return _dump(_snapshot_body(self))


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A snapshot that is kept by name.

    create_time: (year, month, day, hour, minute, second, nanos), local time of the creator, without a zone.
    created_millis: this instant since 1970 UTC; None in tags of other clients. All are None without
    a time to live.
    The tag contains the whole snapshot, so it outlives the snapshot's own file.
    """

    snapshot: Snapshot
    create_time: tuple[int, ...] | None = None
    time_retained_seconds: float | None = None
    created_millis: int | None = None

    @staticmethod
    def of(snapshot: Snapshot, retained_millis: int | None, now_millis: int) -> Tag:
        """Return a tag with the current time: local time, which other clients write and compare, and the instant.
        retained_millis: None for ever.
        """
        if retained_millis is None:
            return Tag(snapshot=snapshot)
        now = datetime.fromtimestamp(now_millis / 1000)
        day = (now.year, now.month, now.day)
        moment = (*day, now.hour, now.minute, now.second, now.microsecond * 1000)
        return Tag(
            snapshot=snapshot,
            create_time=moment,
            time_retained_seconds=retained_millis / 1000,
            created_millis=now_millis,
        )

    @property
    def created_at(self) -> datetime | None:
        """The local creation time; None: unknown or invalid. Java leaves out trailing zeros of a time."""
        if self.create_time is None:
            return None
        year, month, day, hour, minute, second, nanos = (*self.create_time, *[0] * 7)[:7]
        try:
            return datetime(year, month, day, hour, minute, second, nanos // 1000)
        except (OverflowError, ValueError):
            return None

    @property
    def ends_at(self) -> datetime | None:
        """The local time when the tag expires; None: never, or an invalid time."""
        created_at = self.created_at
        if created_at is None or self.time_retained_seconds is None:
            return None
        try:
            return created_at + timedelta(seconds=self.time_retained_seconds)
        except (OverflowError, ValueError):
            return None

    @property
    def ends_millis(self) -> int | None:
        """The instant when the tag expires, since 1970 UTC; None: never, or not recorded in the tag."""
        if self.created_millis is None or self.time_retained_seconds is None:
            return None
        millis = self.created_millis + self.time_retained_seconds * 1000
        return int(millis) if millis < 2**63 else None

    def is_over(self, now_millis: int) -> bool:
        """Whether the tag has expired: by its recorded instant, which is equal on every machine. A tag of another
        client has none: it is compared with this machine's local time, as other clients do.
        """
        if self.created_millis is not None:
            return self.ends_millis is not None and self.ends_millis < now_millis
        return self.ends_at is not None and self.ends_at < datetime.fromtimestamp(now_millis / 1000)

    def to_json(self) -> str:
        """Return the text of a tag file: the snapshot's keys, then the tag's."""
        body = _snapshot_body(self.snapshot)
        if self.create_time is not None:
            body["tagCreateTime"] = list(self.create_time)
        if self.time_retained_seconds is not None:
            body["tagTimeRetained"] = self.time_retained_seconds
        if self.created_millis is not None:
            body[_TAG_CREATED_MILLIS] = self.created_millis
        return _dump(body)


def _time_text(millis: int) -> str:
    try:
        moment = datetime.fromtimestamp(millis / 1000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return str(millis)
    return f"{millis} ({moment:%Y-%m-%d %H:%M:%S} UTC)"


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no integer")
    return value


def _watermark(value: Any) -> int | None:
    """Read a watermark. Flink's jobs write Java's smallest long where no event time is known."""
    millis = _integer(value)
    return None if millis == _NO_WATERMARK else millis


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _text_map(value: Any) -> dict[str, str]:
    return {_text(key): _text(item) for key, item in value.items()}


# On disk: never change. (JSON key, attribute, reader, required), in the order in which they are
# written.
_KEYS: Final[tuple[tuple[str, str, Callable[[Any], Any], bool], ...]] = (
    ("version", "version", _integer, True),
    ("uuid", "uuid", _text, False),
    ("id", "id", _integer, True),
    ("schemaId", "schema_id", _integer, True),
    ("baseManifestList", "base_manifest_list", _text, True),
    ("baseManifestListSize", "base_manifest_list_size", _integer, False),
    ("deltaManifestList", "delta_manifest_list", _text, True),
    ("deltaManifestListSize", "delta_manifest_list_size", _integer, False),
    ("changelogManifestList", "changelog_manifest_list", _text, False),
    ("changelogManifestListSize", "changelog_manifest_list_size", _integer, False),
    ("indexManifest", "index_manifest", _text, False),
    ("commitUser", "commit_user", _text, True),
    ("commitIdentifier", "commit_identifier", _integer, True),
    ("writerVersion", "writer_version", _text, False),
    ("commitKind", "commit_kind", _text, True),
    ("timeMillis", "time_millis", _integer, True),
    ("totalRecordCount", "total_record_count", _integer, True),
    ("deltaRecordCount", "delta_record_count", _integer, True),
    ("changelogRecordCount", "changelog_record_count", _integer, False),
    ("watermark", "watermark", _watermark, False),
    ("statistics", "statistics", _text, False),
    ("properties", "properties", _text_map, False),
    ("nextRowId", "next_row_id", _integer, False),
    ("operation", "operation", _text, False),
)
_KNOWN: Final = frozenset(key for key, *_ in _KEYS)
# Our own key, which other clients ignore, because `tagCreateTime` has no zone.
_TAG_CREATED_MILLIS: Final = "widetable.tag-created-millis"
_TAG_KEYS: Final = frozenset({"tagCreateTime", "tagTimeRetained", _TAG_CREATED_MILLIS})


def snapshot_from_json(data: str | bytes, subject: str) -> Snapshot:
    """Parse a snapshot file. subject: its path, for messages."""
    return _snapshot_from_body(_load(data, subject), subject, _KNOWN)


def tag_from_json(data: str | bytes, subject: str) -> Tag:
    """Parse a tag file: a snapshot with, at most, a creation time and a time to live."""
    body = _load(data, subject)
    snapshot = _snapshot_from_body(body, subject, _KNOWN | _TAG_KEYS)
    created, retained = body.get("tagCreateTime"), body.get("tagTimeRetained")
    millis = body.get(_TAG_CREATED_MILLIS)
    try:
        return Tag(
            snapshot=snapshot,
            create_time=None if created is None else tuple(_integer(part) for part in created),
            time_retained_seconds=None if retained is None else float(retained),
            created_millis=None if millis is None else _integer(millis),
        )
    except (TypeError, ValueError) as cause:
        raise _damaged(subject, f"a tag with a wrong time: {cause}") from cause


def _snapshot_body(snapshot: Snapshot) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, attribute, _, required in _KEYS:
        value = getattr(snapshot, attribute)
        if required or (value is not None and value != {}):
            body[key] = dict(value) if attribute == "properties" else value
    return body | dict(snapshot.extra)


def _snapshot_from_body(body: dict[str, Any], subject: str, known_keys: frozenset[str]) -> Snapshot:
    values: dict[str, Any] = {}
    for key, attribute, reader, required in _KEYS:
        value = body.get(key)
        if value is None:
            if required:
                raise _damaged(subject, f"a snapshot without the key {key!r}")
            continue
        try:
            values[attribute] = reader(value)
        except (TypeError, ValueError, AttributeError) as cause:
            raise _damaged(subject, f"a snapshot with a wrong {key!r}: {cause}") from cause
    if values["version"] > SNAPSHOT_VERSION:
        raise UnsupportedError(
            subject,
            found=f"snapshot version {values['version']}",
            expected=f"at most {SNAPSHOT_VERSION}",
            action="Use a newer version of this package.",
        )
    if values["commit_kind"] not in COMMIT_KINDS:
        raise _damaged(subject, f"the commit kind {values['commit_kind']!r}")
    extra = {key: value for key, value in body.items() if key not in known_keys}
    return Snapshot(**values, extra=extra)


def _load(data: str | bytes, subject: str) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as cause:
        raise _damaged(subject, "bytes that are no JSON") from cause
    if not isinstance(body, dict):
        raise _damaged(subject, "JSON that is no object")
    return body


def _dump(body: dict[str, Any]) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False)


def _damaged(subject: str, finding: str) -> DamagedError:
    return damaged_bytes(subject, finding, "a Paimon snapshot file")
