"""The files beside a table that belong to a copy to its name (operations/maintenance/table_copy.py). Pure.

<db>.db/.widetable-copies/<table>/lease    held while a copy runs
                                 /begun    a copy is being made in the table's place, or was killed there
"""

from __future__ import annotations


def copies_beside(root: str) -> str:
    """Return the directory for all tables of the database. No table can have its name."""
    return f"{root.rpartition('/')[0]}/.widetable-copies"


def copy_place(root: str) -> str:
    """Return the directory for the table at `root`."""
    return f"{copies_beside(root)}/{root.rpartition('/')[2]}"


def unfinished_copy_mark(root: str) -> str:
    """Return the path of the mark of a copy that is made in the table's place and may have no snapshot yet."""
    return f"{copy_place(root)}/begun"
