"""Copying a table: one snapshot becomes a table of its own, in this warehouse or another one.

Raises what `operations.maintenance.table_copy` raises, and what opening the source raises.
"""

from __future__ import annotations

import os

from widetable.operations.maintenance import table_copy
from widetable.runtime.moment import Moment
from widetable.storage.paths import table_root
from widetable.table import Table
from widetable.warehouse.catalog_state import CatalogState, opened_at


def copy_table(
    catalog: CatalogState,
    source: str,
    target: str,
    *,
    target_warehouse: str | os.PathLike[str] | None = None,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
) -> Table:
    """Make a table of one snapshot of another table: the newest one, or that of `snapshot_id`, `timestamp` or `tag`.

    The columns are those of the snapshot's time. Data files are copied byte for byte, and committed in one overwrite,
    which readers of changes skip. The copy is whole or absent; in an object store it is empty for a few requests first
    (docs/object-stores.md). It has no other snapshots, tags, branches or consumers.

    Parameters
    ----------
    source : str
        `db.name`, or `db.name$branch_<branch>`.
    target : str
        `db.name` of the new table.
    target_warehouse : str or os.PathLike, default None
        The path or URL of the warehouse of the new table. None: this one.
    snapshot_id, timestamp, tag
        As in `Table.scan`. None: the newest snapshot, with the newest columns.

    Returns
    -------
    Table
        The new table.

    Raises
    ------
    InvalidError
        Something has the name of the new table, or more than one snapshot is named.
    NotFoundError
        The source, the snapshot or the tag does not exist.
    UnsupportedError
        The source has `index.*`, `widen.*` or `join.*` options, or is under barriers.
    ConflictError
        Another copy to that name is under way, or somebody wrote to it.

    Examples
    --------
    >>> catalog.copy_table("shop.users", "shop.users_of_today").scan().count()
    1
    """
    return _copied(catalog, source, target, target_warehouse, snapshot_id, timestamp, tag)


def _copied(
    catalog: CatalogState,
    source: str,
    target: str,
    target_warehouse: str | os.PathLike[str] | None,
    snapshot_id: int | None,
    timestamp: Moment | None,
    tag: str | None,
) -> Table:
    """Copy with the storage that the user gave the catalog.

    Without one, the target's own path names its storage, so a copy may go from a disk to an object store.
    """
    table, at = catalog.table(source), catalog._given.at
    warehouse = catalog._root if target_warehouse is None else at(target_warehouse)[1]
    root = table_root(warehouse, target, "target")
    table_copy.copy_table(
        table,
        root,
        snapshot_id=snapshot_id,
        timestamp=timestamp,
        tag=tag,
        file_io=at(root)[0] if catalog._given.is_given else None,
    )
    return opened_at(catalog, root)
