"""What an operation of this room takes: the state of a catalog, and the calls of a catalog that operations use."""

from __future__ import annotations

from typing import Protocol

from widetable.operations.barriers.barrier_listing import ShownBarriers
from widetable.storage.file_io import FileIO
from widetable.storage.given_storage import GivenStorage
from widetable.table import Table
from widetable.topology.meta_service import ServiceLink
from widetable.topology.warehouse import Warehouse


class CatalogState(Warehouse, Protocol):
    """The state of a `Catalog`, which is all that its operations know of it.

    _given: the storage that the user gave. _file_io, _root: the storage and the absolute path of the warehouse.
    _consistency: of sessions that name none. _service: the link to a meta service; None: this process chooses
    barriers. _shown: the barriers that sessions of this catalog have shown.
    """

    _given: GivenStorage
    _file_io: FileIO
    _root: str
    _consistency: str
    _service: ServiceLink | None
    _shown: ShownBarriers

    def table(self, name: str) -> Table:
        """Open the table `db.name`, or a branch of it."""
        ...


def opened_at(catalog: CatalogState, root: str) -> Table:
    """Open the table whose directory is `root`, with the storage of the catalog."""
    return Table._open(catalog._given, root)
