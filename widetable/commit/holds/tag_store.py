"""Tags: snapshots that are kept by name.

On disk `tag/tag-<name>`, the JSON of the snapshot (format.md section 3; Paimon `TagManager`). It
is a copy: the tag reads on when the snapshot's own file has expired. It keeps data files,
manifests and indexes, but no changelog.

    who tags     writes the tag ─► is the snapshot's file there?   no: takes the tag back, NotFoundError
    expiry       removes the snapshot's file ─► looks for tags     sees the tag, and leaves its files

Each writes first and looks then, so one of the two sees the other, whichever comes first.

Raises InvalidError for names that break a rule or are taken, NotFoundError that says which tags there are, DamagedError
for a tag that cannot be read when it is asked for by name.
"""

from __future__ import annotations

from widetable.arguments import refused, text
from widetable.commit.notes.skipped_files import pass_over, readable
from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot, Tag, tag_from_json
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TAG_PREFIX, TEMPORARY_BYTES, TablePaths, check_name, tag_name


class TagStore:
    """Without state: every call looks at the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def names(self) -> list[str]:
        """All tags, sorted by name."""
        entries = self._file_io.list(self._paths.tag_dir)
        found = (tag_name(entry.name) for entry in entries)
        return [name for name in found if name is not None]

    def load(self, name: str) -> Snapshot:
        """The snapshot that a tag keeps; it need not have a snapshot file any more."""
        return self.load_tag(name).snapshot

    def load_tag(self, name: str) -> Tag:
        """The same with its times."""
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
                action="It keeps nothing from expiry: restore the file, or delete the tag and make it anew.",
            ) from cause

    def all(self, *, strict: bool = False) -> dict[str, Snapshot]:
        """Name to snapshot, sorted by name. One that cannot be read is left out and logged; strict: raised."""
        found, damaged = readable(self.names(), self.load)
        for damage in damaged:
            if strict:
                raise damage
            pass_over(damage)
        return found

    def damaged(self) -> list[DamagedError]:
        """Tags that cannot be read."""
        return readable(self.names(), self.load)[1]

    def expired(self, now_millis: int) -> list[str]:
        """Those whose time is over. One that cannot be read is not among them: it says no time."""
        readable_tags = readable(self.names(), self.load_tag)[0]
        return [name for name, tag in readable_tags.items() if tag.is_over(now_millis)]

    def create(self, name: str, tag: Tag) -> None:
        """Keep a snapshot. A tag that keeps it already is left as it is.
        So a caller that was killed may come again. A name of digits alone is refused: other clients take
        it for a snapshot's id where either is expected.
        """
        if text(name, "tag").isdigit():
            raise refused(name, "tag", "a name that is no number: that would be a snapshot's id")
        snapshot = tag.snapshot
        if self.keep(name, tag):
            return
        held = self.load_tag(name)
        if (held.snapshot.id, held.time_retained_seconds) != (
            snapshot.id,
            tag.time_retained_seconds,
        ):
            raise InvalidError(
                f"tag {name!r}",
                found=f"a tag of snapshot {held.snapshot.id} that is kept {_kept(held)}",
                expected=f"no tag of that name, or one of snapshot {snapshot.id} that is kept {_kept(tag)}",
                action="Use another name, or delete the tag first.",
            )

    def keep(self, name: str, tag: Tag) -> bool:
        """Keep a snapshot by any name; False where there is a tag of that name, whatever it keeps.

        Expiry removes the snapshot's file, then looks for tags: if the file is still there now, the tag is seen.
        """
        # It is published under a temporary name first, which is longer; an old tag is found by its own length.
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
            )
        return True

    def delete(self, name: str, *, dry_run: bool = False) -> None:
        """The snapshot itself stays for as long as it is not expired. dry_run: only look for the tag."""
        path = self._path(name)
        if not (self._file_io.exists(path) if dry_run else self._file_io.delete(path)):
            raise self._not_found(name)

    def discard(self, name: str) -> bool:
        """The same; False where there is no such tag.
        For who cleans up: several may, at once.
        """
        return self._file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return self._paths.tag(check_name(text(name, "tag"), "tag", len(TAG_PREFIX)))

    def _not_found(self, name: str) -> NotFoundError:
        there = ", ".join(self.names())
        return NotFoundError(
            f"tag {name!r}",
            found="no such tag",
            expected=f"one of {there}" if there else "a table with tags; it has none",
            action="Correct the name.",
        )


def _kept(tag: Tag) -> str:
    seconds = tag.time_retained_seconds
    return "for ever" if seconds is None else f"for {seconds:g} s"


def _content(name: str, tag: Tag) -> bytes:
    """The bytes of a tag, proven to be read back."""
    data = tag.to_json().encode()
    try:
        tag_from_json(data, name)
    except DamagedError as cause:
        raise InvalidError(
            f"tag {name!r}",
            found=f"a snapshot that makes no tag: {cause.found}",
            expected="a snapshot of the table",
            action="Tag a snapshot that the table has.",
        ) from cause
    return data
