"""Tags: snapshots that are kept by name.

On disk `tag/tag-<name>`, the JSON of the snapshot (format.md section 3; Paimon `TagManager`). It is a copy: the tag can
be read after the snapshot's own file has expired. It keeps data files, manifests and indexes, but no changelog.

    tagging      writes the tag ─► does the snapshot's file exist?   no: deletes the tag, NotFoundError
    expiry       removes the snapshot's file ─► reads the tags       sees the tag, and keeps its files

Each writes first and checks afterwards, so one of the two sees the other, whichever comes first.

Raises InvalidError for names that break a rule or are taken, NotFoundError that lists the tags of the table,
DamagedError for a tag that cannot be read when it is requested by name.
"""

from __future__ import annotations

from widetable.arguments import refused, text
from widetable.commit.notes.skipped_files import log_skipped, readable
from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot, Tag, tag_from_json
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TAG_PREFIX, TEMPORARY_BYTES, TablePaths, check_name, tag_name


class TagStore:
    """The tags of one table. Stateless: every call reads the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def names(self) -> list[str]:
        """Return the names of all tags, sorted."""
        entries = self._file_io.list(self._paths.tag_dir)
        tag_names = (tag_name(entry.name) for entry in entries)
        return [name for name in tag_names if name is not None]

    def load(self, name: str) -> Snapshot:
        """Return the snapshot that a tag keeps; its own snapshot file may have expired."""
        return self.load_tag(name).snapshot

    def load_tag(self, name: str) -> Tag:
        """Return a tag: its snapshot and its times."""
        path = self._path(name)
        try:
            return tag_from_json(self._file_io.read(path), path)
        except NotFoundError as cause:
            raise self._not_found(name) from cause
        except DamagedError as cause:
            raise DamagedError(
                path,
                found=cause.found,
                expected="a tag file",
                action="The file keeps nothing from expiry: restore it, or delete the tag and create it again.",
            ) from cause

    def all(self, *, strict: bool = False) -> dict[str, Snapshot]:
        """Return the snapshot of each tag, sorted by name. Unreadable tags are skipped and logged; strict: raised."""
        tags, damaged = readable(self.names(), self.load)
        for damage in damaged:
            if strict:
                raise damage
            log_skipped(damage)
        return tags

    def damaged(self) -> list[DamagedError]:
        """Return an error for each tag that cannot be read."""
        return readable(self.names(), self.load)[1]

    def expired(self, now_millis: int) -> list[str]:
        """Return the tags whose time is over; unreadable tags have no time and are left out."""
        readable_tags = readable(self.names(), self.load_tag)[0]
        return [name for name, tag in readable_tags.items() if tag.is_over(now_millis)]

    def create(self, name: str, tag: Tag) -> None:
        """Create a tag. An equal tag is left as it is, so a caller that was killed may repeat the call.

        A name of digits alone is refused: other clients would read it as a snapshot's id where either is expected.
        """
        if text(name, "tag").isdigit():
            raise refused(name, "tag", "a name that is no number: that would be a snapshot's id")
        snapshot = tag.snapshot
        if self.keep(name, tag):
            return
        existing = self.load_tag(name)
        if (existing.snapshot.id, existing.time_retained_seconds) != (
            snapshot.id,
            tag.time_retained_seconds,
        ):
            raise InvalidError(
                f"tag {name!r}",
                found=f"a tag of snapshot {existing.snapshot.id} that is kept {_kept(existing)}",
                expected=f"no tag of that name, or one of snapshot {snapshot.id} that is kept {_kept(tag)}",
                action="Use another name, or delete the tag first.",
            )

    def keep(self, name: str, tag: Tag) -> bool:
        """Create a tag with any valid name; return False if there is a tag of that name, whatever it keeps.

        Expiry removes the snapshot's file, then reads the tags: if the file still exists now, expiry sees the tag.
        """
        # It is published under a temporary name first, which is longer; an existing tag is read under its own name.
        path = self._path(check_name(name, "tag", len(TAG_PREFIX) + TEMPORARY_BYTES))
        if not self._file_io.publish(path, _content(name, tag)):
            return False
        if not self._file_io.exists(self._paths.snapshot(tag.snapshot.id)):
            self._file_io.delete(path)
            raise NotFoundError(
                f"snapshot {tag.snapshot.id}",
                found="an expired snapshot",
                expected="a snapshot that is still kept",
                action="Tag a newer snapshot.",
                code=ErrorCode.SNAPSHOT_EXPIRED,
            )
        return True

    def delete(self, name: str, *, dry_run: bool = False) -> None:
        """Delete a tag; the snapshot itself stays until it expires. dry_run: only check that the tag exists."""
        path = self._path(name)
        if not (self._file_io.exists(path) if dry_run else self._file_io.delete(path)):
            raise self._not_found(name)

    def discard(self, name: str) -> bool:
        """Delete a tag; return False if there is none. For clean-ups, which several processes may do at once."""
        return self._file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return self._paths.tag(check_name(text(name, "tag"), "tag", len(TAG_PREFIX)))

    def _not_found(self, name: str) -> NotFoundError:
        names = ", ".join(self.names())
        return NotFoundError(
            f"tag {name!r}",
            found="no such tag",
            expected=f"one of {names}" if names else "a table with tags; it has none",
            action="Correct the name.",
            code=ErrorCode.TAG_NOT_FOUND,
        )


def _kept(tag: Tag) -> str:
    seconds = tag.time_retained_seconds
    return "for ever" if seconds is None else f"for {seconds:g} s"


def _content(name: str, tag: Tag) -> bytes:
    """Return the bytes of a tag, checked to be readable."""
    data = tag.to_json().encode()
    try:
        tag_from_json(data, name)
    except DamagedError as cause:
        raise InvalidError(
            f"tag {name!r}",
            found=f"a snapshot that cannot be tagged: {cause.found}",
            expected="a snapshot of the table",
            action="Tag a snapshot that the table has.",
        ) from cause
    return data
