"""Writes, reads and continues the tables of `version_samples`, with whichever version of widetable Python imports.

    python -m tests.support.programs.version_program write DIRECTORY     prints nothing
    python -m tests.support.programs.version_program read DIRECTORY      prints what the version reads, as JSON
    python -m tests.support.programs.version_program go_on DIRECTORY     writes `later`, then prints as `read` does

It uses names that both versions have, so that they can run it on one warehouse. `write` ends several processes in the
middle of their work (`die`): their leases, notes, uncommitted files and a staged commit stay behind.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.support.tables.version_samples import KIND, SAMPLES, Batch, Sample
from widetable.storage.local import LocalFileIO

# The tables with a consumer; its reader has read the first batch.
FOLLOWED: Final = ("ordered", "groups", "totals", "firsts", "recorded", "vectors")
CONSUMER: Final = "reader"
BARRIERS: Final = {"widetable.barrier-interval": "10 s", "bucket": "1"}
BANK: Final = ("bank.debits", "bank.credits")
STAGED: Final = "bank.staged"
WAITING: Final = {"id": pa.int64(), "v": pa.int64()}
FIRST, SECOND, THIRD = 10_000, 20_000, 30_000
DEATHS: Final = ("writer", "staging", "maintainer", "compaction", "reader", "session")


def of(sample: Sample) -> str:
    return f"old.{sample.name}"


def newest_id(table: wt.Table) -> int:
    table.wait_for_compactions()
    return table.snapshots()[-1].id


def append(table: wt.Table, sample: Sample, batch: Batch) -> int:
    """Write one batch, with the changelog that belongs to it; return the newest snapshot."""
    table.write(pa.Table.from_pylist(list(batch), fields_of(table, batch)))
    if sample.options.get("changelog-producer") == "full-compaction":
        table.compact(full=True)
    return newest_id(table)


def fields_of(table: wt.Table, batch: Batch) -> pa.Schema:
    names = dict.fromkeys(name for row in batch for name in row)
    schema = table.arrow_schema
    return pa.schema([(n, pa.string() if n == KIND else schema.field(n).type) for n in names])


def followed(table: wt.Table) -> list[dict[str, Any]]:
    with table.follow(CONSUMER, timeout=0) as follower:
        return [row for batch in follower for row in batch.to_pylist()]


def write_sample(catalog: wt.Catalog, sample: Sample) -> list[int]:
    """Return the newest snapshot after each batch."""
    table = catalog.create_table(
        of(sample),
        dict(sample.schema),
        primary_key=sample.key,
        partition_by=sample.partition_by,
        options=dict(sample.options),
    )
    ids = []
    for number, batch in enumerate(sample.batches):
        if number == 1 and sample.alter:
            table = catalog.alter_table(of(sample), **sample.alter)
        ids.append(append(table, sample, batch))
        if number == 0:
            table.create_tag("first")
            if sample.name in FOLLOWED:
                followed(table)
    if sample.rescale is not None:
        table.rescale(sample.rescale)
    return ids


def write_branch(catalog: wt.Catalog) -> None:
    table = catalog.table("old.ordered")
    table.create_branch("trial", tag="first")
    branch = wt.Table.open(table.path, branch="trial")
    branch.write({"day": ["d1"], "id": [99], "v": ["branch"], "at": [1]})
    branch.create_tag("tried")


def write_barriers(catalog: wt.Catalog) -> None:
    """The first barrier is complete in both tables; of the second one, debits lacks the columns of one writer."""
    debits = {"id": pa.int64(), "x": pa.int64(), "y": pa.int64()}
    options = {**BARRIERS, "merge-engine": "partial-update", "changelog-producer": "lookup"}
    catalog.create_table("bank.debits", debits, primary_key=["id"], options=options)
    credits = {"id": pa.int64(), "t": pa.int64()}
    catalog.create_table("bank.credits", credits, primary_key=["id"], options=BARRIERS)
    xs, ys = (catalog.writer("bank.debits", name, [name]) for name in "xy")
    totals = catalog.writer("bank.credits", "t")
    for number, barrier in enumerate((FIRST, SECOND), 1):
        ids = list(range(number, 6))
        rows = {"id": ids, "x": [barrier + id for id in ids]}
        xs.write(rows, number, barrier=barrier, complete=True)
        totals.write({"id": ids, "t": ids}, number, barrier=barrier, complete=True)
    ys.write({"id": [1, 7], "y": [1, 7]}, 1, barrier=FIRST, complete=True)
    ys.write({"id": [2], "y": [22]}, 2, barrier=SECOND)
    staged = {**BARRIERS, "widetable.barrier-stage": "true"}
    catalog.create_table(
        STAGED, {"id": pa.int64(), "v": pa.int64()}, primary_key=["id"], options=staged
    )
    writer = catalog.writer(STAGED, "s")
    writer.write({"id": [1, 2], "v": [10, 20]}, 1, barrier=FIRST, complete=True)


def join_of(catalog: wt.Catalog) -> wt.DeltaJoin:
    return wt.DeltaJoin(
        catalog, "shop.joined", "shop.orders", "shop.customers", {"customer": "id"}, how="left"
    )


def write_derived(catalog: wt.Catalog) -> None:
    """A table with a widened column and an index, and a joined table."""
    customers = catalog.create_table(
        "shop.customers", {"id": pa.int64(), "city": pa.string()}, primary_key=["id"]
    )
    catalog.create_table(
        "shop.orders",
        {"order": pa.int64(), "customer": pa.int64(), "amount": pa.int64(), "at": pa.int64()},
        primary_key=["order"],
        options={
            "merge-engine": "partial-update",
            "changelog-producer": "lookup",
            "fields.at.sequence-group": "customer,amount",
            "widen.customer": "shop.customers(city as customer_city)",
            "index.customer": "shop.orders_by_customer",
        },
    )
    customers.write([{"id": id, "city": f"c{id}"} for id in range(4)])
    add_orders(catalog, range(6))
    join_of(catalog).create({"changelog-producer": "lookup"})
    bring_up_to_date(catalog)
    customers.write([{"id": 2, "city": "moved"}])
    bring_up_to_date(catalog)


def add_orders(catalog: wt.Catalog, orders: Iterable[int]) -> None:
    rows = [{"order": o, "customer": o % 5, "amount": o * 10, "at": o} for o in orders]
    catalog.table("shop.orders").write(rows)


def bring_up_to_date(catalog: wt.Catalog) -> None:
    catalog.table("shop.orders").maintain(once=True)
    join_of(catalog).run_once()


class EndsAtPublish(LocalFileIO):
    """Ends the process where it would publish a snapshot of a barrier that is noted."""

    def publish(self, path: str, data: bytes) -> bool:
        table, is_snapshot, _ = path.partition("/snapshot/snapshot-")
        note = Path(f"{table}/service/widetable-staged-s")
        if is_snapshot and json.loads(note.read_text("utf-8"))["barrier"] == SECOND:
            os._exit(0)
        return super().publish(path, data)


def die(warehouse: Path, death: str) -> None:
    """Begin some work and end the process in the middle of it."""
    catalog = wt.Catalog(warehouse)
    table = catalog.table("old.groups")
    if death == "writer":
        writer = table.new_writer(["id", "free"])
        writer.write(pa.table({"id": [1, 2], "free": ["lost", "lost"]}))
        writer.finish()
    elif death == "staging":
        ending = wt.Catalog(warehouse, file_io=EndsAtPublish())
        writer_of_barriers = ending.writer(STAGED, "s")
        writer_of_barriers.write({"id": [2, 3], "v": [200, 300]}, 2, barrier=SECOND, complete=True)
    elif death == "reader":
        reader, follower = table.lookup_session(), table.follow(scan_mode="latest-full", timeout=5)
        assert reader.lookup([1]).num_rows + len(next(iter(follower))) > 0
        os._exit(0)
    elif death == "maintainer":
        write_waiting(catalog, "tended", "write-only").maintain(on_round=lambda _: os._exit(0))
    elif death == "compaction":
        write_waiting(catalog, "waiting", "lookup-wait")
    else:
        session = catalog.session(list(BANK))
        assert session.table("bank.debits").scan().count() > 0
        os._exit(0)
    os._exit(0)


def write_waiting(catalog: wt.Catalog, name: str, option: str) -> wt.Table:
    """A table whose appends wait for no compaction."""
    options = {
        "changelog-producer": "lookup",
        "bucket": "1",
        option: str(option == "write-only").lower(),
    }
    table = catalog.create_table(f"old.{name}", WAITING, primary_key=["id"], options=options)
    table.write({"id": [1, 2], "v": [1, 2]})
    return table


def write(directory: Path) -> None:
    warehouse = directory / "wh"
    catalog = wt.Catalog(warehouse)
    ids = {sample.name: write_sample(catalog, sample) for sample in SAMPLES}
    write_branch(catalog)
    write_barriers(catalog)
    write_derived(catalog)
    (directory / "written.json").write_text(json.dumps(ids), "utf-8")
    for death in DEATHS:
        command = [sys.executable, "-m", "tests.support.programs.version_program", "die"]
        subprocess.run([*command, str(directory), death], check=True)


def facts_of(table: wt.Table) -> dict[str, Any]:
    """What a reader sees of a table: rows at each snapshot and tag, changes, consumers and branches."""
    ids = [snapshot.id for snapshot in table.snapshots()]
    sides = {name: wt.Table.open(table.path, branch=name) for name in table.branches()}
    return {
        "rows": texts(table.scan().to_arrow()),
        "snapshots": {id: texts(table.scan(snapshot_id=id).to_arrow()) for id in ids},
        "changes": {
            end: texts(table.changes(start, end))
            for start, end in itertools.pairwise([*([0] if ids[0] == 1 else []), *ids])
        },
        "tags": {tag: texts(table.scan(tag=tag).to_arrow()) for tag in table.tags()},
        "consumers": dict(table.consumers()),
        "branches": {
            name: [texts(side.scan().to_arrow()), sorted(side.tags())]
            for name, side in sides.items()
        },
    }


def texts(rows: pa.Table) -> list[str]:
    """The rows as sorted JSON texts."""
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def at_barrier(catalog: wt.Catalog, names: Iterable[str], consistency: str) -> dict[str, Any]:
    with catalog.session(list(names), consistency=consistency) as session:
        rows = {name: texts(session.table(name).scan().to_arrow()) for name in names}
        return {"barrier": session.barrier, **rows}


def read(directory: Path) -> dict[str, Any]:
    catalog = wt.Catalog(directory / "wh")
    names = [name for database in ("old", "bank", "shop") for name in tables_of(catalog, database)]
    return {
        "tables": {name: facts_of(catalog.table(name)) for name in names},
        "repeatable": at_barrier(catalog, BANK, "RepeatableRead"),
        "committed": at_barrier(catalog, [STAGED], "ReadCommitted"),
        "by_index": texts(catalog.table("shop.orders").lookup_index({"customer": [1, 2]})),
    }


def tables_of(catalog: wt.Catalog, database: str) -> list[str]:
    return [f"{database}.{table.rpartition('.')[2]}" for table in catalog.list_tables(database)]


def go_on(directory: Path) -> dict[str, Any]:
    """Write what comes later, compact, let the old consumers read, and complete the barriers."""
    catalog = wt.Catalog(directory / "wh")
    read_on = {}
    for sample in SAMPLES:
        table = catalog.table(of(sample))
        for batch in sample.later:
            append(table, sample, batch)
        table.compact()
        table.compact(full=True)
        if sample.name in FOLLOWED:
            read_on[sample.name] = followed(table)
    branch = wt.Table.open(catalog.table("old.ordered").path, branch="trial")
    branch.write({"day": ["d0"], "id": [98], "v": ["later"], "at": [2]})
    for name in ("waiting", "tended"):
        catalog.table(f"old.{name}").write({"id": [2, 3], "v": [-2, -3]})
        catalog.table(f"old.{name}").maintain(once=True)
    go_on_at_barriers(catalog)
    add_orders(catalog, range(4, 9))
    catalog.table("shop.customers").write([{"id": 4, "city": "new"}])
    bring_up_to_date(catalog)
    return {**read(directory), "read_on": read_on}


def go_on_at_barriers(catalog: wt.Catalog) -> None:
    """The writers come back by their names; the second barrier gets complete, and a third one."""
    xs, ys = (catalog.writer("bank.debits", name, [name]) for name in "xy")
    assert (xs.last_identifier, ys.last_identifier) == (2, 2)
    ys.write({"id": [3], "y": [33]}, 3, barrier=SECOND, complete=True)
    xs.write({"id": [3], "x": [-3]}, 3, barrier=THIRD, complete=True)
    ys.complete(THIRD)
    catalog.writer("bank.credits", "t").complete(THIRD)
    staged = catalog.writer(STAGED, "s")
    assert staged.last_identifier == 1
    staged.write({"id": [3], "v": [333]}, 2, barrier=THIRD, complete=True)


def main() -> None:
    action, directory, *rest = sys.argv[1:]
    if action == "die":
        die(Path(directory) / "wh", rest[0])
    elif action == "write":
        write(Path(directory))
    else:
        facts = {"read": read, "go_on": go_on}[action](Path(directory))
        sys.stdout.write(json.dumps(facts, default=str, sort_keys=True))


if __name__ == "__main__":
    main()
