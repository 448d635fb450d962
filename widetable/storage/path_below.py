"""The part of a path after the root of its storage. A storage serves only paths below its root."""

from __future__ import annotations

from widetable.errors import InvalidError


def path_below(root: str, path: str) -> str:
    """Return the part after the root, with its slash; "" for the root. Raises InvalidError for a path elsewhere.

    With the root s3://b, it is /a/c for s3://b/a/c, and "" for s3://b; s3://bc/a is refused.
    """
    if path != root and not path.startswith(f"{root}/"):
        raise InvalidError(
            f"path {path!r}",
            found="a path on another storage",
            expected=f"a path below {root}",
            action="Open the other storage by its own URL.",
        )
    return path[len(root) :]
