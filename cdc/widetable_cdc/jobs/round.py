"""One round: a part of the log, its changes of the schema, one commit for each table that it touches.

    part of the log ─► decoded ─► for each table: forms that differ ─► evolution ─► changes ─► commit
                                  all tables done ─► confirm the end of the last transaction

A part without a transaction of the publication lets the slot follow the server's log. A round that a killed job left
in some tables only is finished first, as it was (`barrier_line`). Raises what the source, the
decoder and the targets raise; nothing is confirmed then, and the next round gets the part again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby

from widetable.connector import counted, size_text
from widetable_cdc.jobs.captured_tables import CapturedTables
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.log.changes import ChangeBatch, Relation
from widetable_cdc.source.lsn import lsn_text
from widetable_cdc.source.spilled_bytes import SpilledColumns

_log = logging.getLogger("widetable")


def _most_changes(config: SyncConfig) -> int:
    # A round ends with the transaction that reaches the limit.
    return 1 if config.rules.every_transaction else config.limits.max_changes


@dataclass
class RoundCounts:
    """What the rounds of a run have had. changes: of the log. commits: of targets."""

    changes: int = 0
    commits: int = 0


def run_round(link: SourceLink, tables: CapturedTables, counts: RoundCounts) -> bool:
    """Run a round, and count what it has; return whether the log had changes."""
    upto = tables.barriers.unfinished(link.position)
    part = link.transport.changes(link.position, _most_changes(link.config), upto)
    log = link.decoder.decode(part.data, SpilledColumns().keep)
    end_lsn = log.end_lsn
    if end_lsn is None:
        if part.server_lsn > link.position:
            link.let_go()
            link.confirm(part.server_lsn)
        return False
    batches: dict[int, list[ChangeBatch]] = defaultdict(list)
    for batch in log.batches:
        batches[batch.relation.oid].append(batch)
    # Batches of one form follow one another.
    forms: dict[int, list[Relation]] = {
        oid: [form for form, _ in groupby(each.relation for each in of)]
        for oid, of in batches.items()
    }
    for relation in log.relations:
        sent = forms.setdefault(relation.oid, [])
        if not sent or sent[-1] != relation:
            sent.append(relation)
    changes, commits = sum(len(batch.kinds) for batch in log.batches), 0
    # The bytes and the batches of a table that is done are let go: a transaction may be large.
    transactions = log.transactions
    del part, log
    for oid in forms:
        commits += tables.apply(link, forms[oid], batches.pop(oid, []), transactions)
    link.confirm(end_lsn)
    counts.changes += changes
    counts.commits += commits
    if commits:
        _log.info(
            "%s: %s in %s, log at %s, %s held by the slot",
            link.config.name,
            counted(changes, "change"),
            counted(commits, "commit"),
            lsn_text(end_lsn),
            size_text(link.slot_status().held_bytes),
        )
    return True
