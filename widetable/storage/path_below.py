"""What of a path stands behind the root of its storage, which serves no other."""

from __future__ import annotations

from widetable.errors import InvalidError


def path_below(root: str, path: str) -> str:
    """With its slash in front; "" for the root. Raises InvalidError for a path elsewhere.

    Below s3://b it is /a/c of s3://b/a/c, "" of s3://b; s3://bc/a is refused.
    """
    if path != root and not path.startswith(f"{root}/"):
        raise InvalidError(
            f"path {path!r}",
            found="another place",
            expected=f"a path below {root}",
            action="Open the other place by its own URL.",
        )
    return path[len(root) :]
