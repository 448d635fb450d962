"""A service over the jobs, tables and barriers of a warehouse (docs/meta-service.md), and its client.

    client = widetable_meta.MetaClient(["http://host:9096", "http://other:9096"])
    with client.session(["shop.users", "shop.amounts"]) as session: session.barrier, session.snapshot_ids

The service reads all its answers from the tables, so `widetable.Catalog` gives the same answers without it.
"""

from __future__ import annotations

from widetable_meta.client import MetaClient
from widetable_meta.client_session import ClientSession

__all__ = ["ClientSession", "MetaClient"]
