"""A warehouse to look at: three layers of tables, several jobs, long and hostile names, writers that are behind."""

from __future__ import annotations

from pathlib import Path

import widetable as wt

BARRIER = 1_767_225_600_000
INTERVAL = 10_000
LONG = "the_totals_of_all_orders_of_a_user_by_item_country_and_campaign_of_last_year"
HOSTILE = "<img src=x onerror=alert(1)> & \"quoted\" 'job'"
_COLUMNS = ("id", "amount", "price", "clicks", "city")
# Job -> sources, sinks; those without sources are roots, one for each of their tables.
_DERIVED = {
    "amounts": (["shop.shopping"], {"shop.user_item_amount": ["amount"]}),
    "prices": (["shop.shopping"], {"shop.user_item_price": ["price"]}),
    HOSTILE: (["shop.shopping", "shop.users"], {f"shop.{LONG}": ["clicks"]}),
    "averages": (
        ["shop.user_item_amount", "shop.user_item_price"],
        {"shop.averages": ["amount", "price"]},
    ),
}


def shop(warehouse: Path) -> str:
    """All tables are complete at one barrier, some of them at the next one; one was revised."""
    catalog = wt.Catalog(warehouse)
    sinks = [table for _, of in _DERIVED.values() for table in of]
    for name in ("shop.shopping", "shop.users", *sinks):
        catalog.create_table(
            name,
            dict.fromkeys(_COLUMNS, "BIGINT"),
            primary_key=["id"],
            options={
                "bucket": "1",
                "merge-engine": "partial-update",
                "widetable.fsync": "false",
                "widetable.barrier-interval": f"{INTERVAL} ms",
            },
        )
    topology = catalog.topology()
    for job, (sources, of) in _DERIVED.items():
        topology.register(job, sources=sources, sinks=of)
        topology.running(job)
    roots = [catalog.writer("shop.shopping", "clicks", ["amount", "price"])]
    roots += [catalog.writer("shop.users", f"crm-{at}", [c]) for at, c in enumerate(_COLUMNS[1:])]
    derived = {
        job: [catalog.writer(table, job, columns) for table, columns in of.items()]
        for job, (_, of) in _DERIVED.items()
    }
    for number in range(2):
        barrier = BARRIER + number * INTERVAL
        for writer in roots if number == 0 else roots[:2]:
            writer.complete(barrier)
        for job, writers in derived.items():
            if number == 0 or job == "amounts":
                for writer in writers:
                    writer.complete(barrier)
    catalog.revise("shop.averages", to=None)
    catalog.writer("shop.averages", "averages", ["amount", "price"]).complete(BARRIER)
    return str(warehouse)
