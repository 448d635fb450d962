"""How many bytes the files of a table have on the disk that snapshots name: data, manifests, indexes."""

from __future__ import annotations

from pathlib import Path


def stored_bytes(root: Path | str) -> int:
    """Of data and changelog files, manifests and their lists, and index files; of all branches."""
    return sum(
        path.stat().st_size
        for path in Path(root).rglob("*")
        if path.is_file()
        and (path.parent.name.startswith("bucket-") or path.parent.name in ("manifest", "index"))
    )
