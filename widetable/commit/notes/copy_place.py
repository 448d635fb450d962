"""Beside a table, where copies to its name have what is theirs (operations/maintenance/table_copy.py). Pure.

<db>.db/.widetable-copies/<table>/lease    held while one goes on
                                 /begun    one is made in its place, or was killed there
"""

from __future__ import annotations


def copies_beside(root: str) -> str:
    """Of all tables of the database. No table has such a name."""
    return f"{root.rpartition('/')[0]}/.widetable-copies"


def copy_place(root: str) -> str:
    """Of the table at `root`."""
    return f"{copies_beside(root)}/{root.rpartition('/')[2]}"


def begun_copy(root: str) -> str:
    """The mark of a copy that is made in its place, and may have no snapshot yet."""
    return f"{copy_place(root)}/begun"
