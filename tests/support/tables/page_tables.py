"""What is there before the blocks of a page run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import widetable as wt
from tests.support.programs.pages import ROOT


def of_paimon(folder: Path) -> None:
    """Tables that Paimon's Java wrote."""
    shutil.copytree(ROOT / "tests/fixtures/wh_java", folder / "paimon")


def in_trouble(folder: Path) -> None:
    """shop.users: commits that nobody compacts, a consumer that stopped, a file that nobody names. shop.orders: a live
    file with a wrong byte.
    """
    catalog = wt.Catalog(folder / "warehouse")
    options = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
    users = catalog.create_table(
        "shop.users", {"id": "BIGINT", "city": "STRING"}, primary_key=["id"], options=options
    )
    for id in range(2):
        users.write({"id": [id], "city": ["Oslo"]})
    list(users.follow(consumer_id="dashboard", timeout=0))
    for id in range(40):
        users.write({"id": [id], "city": ["Rome"]})
    (folder / "warehouse/shop.db/users/bucket-0/data-of-nobody-0.parquet").write_bytes(b"PAR1")
    orders = catalog.create_table(
        "shop.orders", {"id": "BIGINT", "amount": "DOUBLE"}, primary_key=["id"], options=options
    )
    orders.write({"id": [1, 2], "amount": [9.5, 3.0]})
    orders.write({"id": [3], "amount": [1.0]})
    file = max(
        folder.glob("warehouse/shop.db/orders/bucket-0/*.parquet"),
        key=lambda f: f.stat().st_mtime_ns,
    )
    file.write_bytes(file.read_bytes()[:-40])


PREPARED: Final[dict[str, Callable[[Path], None]]] = {
    "docs/from-paimon-on-flink.md": of_paimon,
    "docs/operations.md": in_trouble,
}
