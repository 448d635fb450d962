"""The laws of derived tables, which `Table.audit` checks.

    index     each row of the base at the snapshot that the index fits, whose indexed columns have values, is in the
              index, and there are no more rows in it
    joined    a table that holds a join has, at its newest snapshot, the join of its tables at those of the last round
    history   the newest version of each key is its row at the snapshot up to which the history goes (history_audit)
    widened   in the last commit of the widener that ended a round, facts that nobody wrote since its fact snapshot
              have the columns of the dim's row at its dim snapshot; in a table under barriers, as of the last barrier
              of the widener, facts that nobody has deleted since have those of the dim's row as of that barrier

The report lists a law as skipped if it cannot be checked because a snapshot has expired or a table was dropped or
altered. Raises what audits raise (operations/health/audit).

Each law is checked as of the snapshots that its last round names. Leases hold them, so writers and maintainers go on;
work that they have yet to do is no finding. Memory: batches of rows, and the rows that are looked up for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pyarrow as pa

from widetable.commit.snapshots.committed import DIGEST
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.changes.touched_rows import untouched_rows
from widetable.derive.indexes.index_progress import index_columns, index_progress
from widetable.derive.indexes.index_table import find_index
from widetable.derive.joins.delta_join import joining_of
from widetable.derive.joins.join_difference import JoinDifference
from widetable.derive.joins.join_progress import last_round
from widetable.derive.joins.joined_plan import JoinDefinition, KeyAccess, definition_of
from widetable.derive.upkeep.history_audit import audit_history
from widetable.derive.upkeep.keyed_findings import add_each
from widetable.derive.versions.history_table import history_name
from widetable.derive.widening.widen_changes import lookup_as_of, not_deleted
from widetable.derive.widening.widen_progress import last_round as last_widened
from widetable.derive.widening.widen_progress import user_of, widening_of
from widetable.derive.widening.widening import DIM, FACT
from widetable.errors import DamagedError, InvalidError, NotFoundError, UnsupportedError
from widetable.kernels.arrow_buffers import one_array
from widetable.messages.counted import counted
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.chosen_state import state_of_view
from widetable.operations.handle.neighbour import name_of, neighbour
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.audit import FOLDED_ROWS, audit_table
from widetable.operations.health.audit_report import (
    FINDINGS_PER_LAW,
    AuditReport,
    Finding,
    Findings,
)
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import IndexOption, WidenOption, index_options, widen_options


def audit(
    table: OpenTable,
    start: int | str | None = None,
    findings_per_law: int = FINDINGS_PER_LAW,
    folded_rows: int = FOLDED_ROWS,
) -> AuditReport:
    """Check the laws of the format, of the changelog, and of derived tables.

    It checks the changelog, if the table keeps one, from `start` on, and the derived data: indexes, widened columns,
    the history, the join that the table holds. It changes nothing, except that leases keep the snapshots meanwhile.

    Parameters
    ----------
    start : int or str, default None
        The id of a snapshot or the name of a tag, onto whose rows the changelog is folded. 0: the empty table,
        as long as snapshot 1 exists. None: the oldest snapshot that exists.
    findings_per_law : int, default 20
        The number of findings that are listed for each law; the others are counted.
    folded_rows : int, default 50000000
        The highest number of rows to read when whole buckets are folded.

    Returns
    -------
    AuditReport
        What was checked, and the findings.

    Raises
    ------
    NotFoundError
        The snapshot or tag `start` does not exist.
    InvalidError
        A number is negative.
    UnsupportedError
        The files of the table lie in another directory.
    """
    return audit_table(table, start, findings_per_law, folded_rows, partial(_audit_derived, table))


def _audit_derived(table: OpenTable, findings: Findings) -> None:
    options = table.schema.options
    for index in index_options(options):
        with _skipped(findings, f"index of {index.table}"):
            _audit_index(table, index, findings)
    for widen in widen_options(options):
        with _skipped(findings, f"widened of {widen.column}"):
            _audit_widened(table, widen, findings)
    if history_name(table) is not None:
        with _skipped(findings, "history"), _unless_gone(findings, "history"):
            audit_history(table, findings)
    definition = definition_of(table.schema)
    if definition is not None:
        with _skipped(findings, "joined"):
            _audit_joined(table, definition, findings)


@contextlib.contextmanager
def _skipped(findings: Findings, law: str) -> Iterator[None]:
    """Note the law as skipped if its data cannot be derived (`inspect` warns of that).

    Damage is a finding of this law; the other laws are checked nevertheless.
    """
    try:
        yield
    except DamagedError as damage:
        each = Finding(law.split()[0], None, damage.expected, damage.found, file=damage.subject)
        findings.add(each)
    except (InvalidError, UnsupportedError, NotFoundError) as error:
        findings.skip(f"law {law}: {error}")


@contextlib.contextmanager
def _unless_gone(findings: Findings, law: str) -> Iterator[None]:
    """Note the law as skipped if one of its snapshots has expired."""
    try:
        yield
    except NotFoundError as gone:
        findings.skip(f"law {law}: {gone.subject} is {gone.found}")


def _audit_index(base: OpenTable, option: IndexOption, findings: Findings) -> None:
    """Look up all rows of the base in the index, then count both: so a surplus row is counted, but not named.

    The check uses the snapshot that the last round claims, even if another commit has changed the index since: it must
    find just that change.
    """
    index = find_index(base, option)
    latest = None if index is None else index._committer.snapshots.latest()
    source_id = None if index is None else index_progress(index, base, option, latest).claimed_id
    if index is None or latest is None or source_id is None:
        findings.skip(f"law index: {option.table} was never fed, or fits no existing snapshot")
        return
    columns = index_columns(option, base.schema)
    with (
        _unless_gone(findings, f"index of {option.table}"),
        held(index._state(), latest.id),
        held(base._state(), source_id),
        closing(view_at(index, latest.id, columns)) as view,
    ):
        expected = 0
        for batch in scan_at(base, source_id, columns).to_batches():
            rows = pa.Table.from_batches([batch]).drop_null()
            expected += rows.num_rows
            missing = one_array(view.lookup(rows).column(0)).is_null()
            wrong = Finding("index", source_id, "the row in the index", "none")
            add_each(findings, wrong, rows.filter(missing))
        actual = sum(b.num_rows for b in scan_at(index, latest.id, columns[:1]).to_batches())
        findings.checked("index", expected)
        if actual != expected:
            text, at = f"{counted(expected, 'row')} in {option.table}", f"its snapshot {latest.id}"
            findings.add(Finding("index", source_id, text, f"{counted(actual, 'row')} at {at}"))


def _audit_widened(fact: OpenTable, option: WidenOption, findings: Findings) -> None:
    """Check the widened columns as of the commit that ended the last round.

    Rows that others wrote between snapshot f and that commit are left out, as the round did.
    """
    dim = neighbour(fact, option.table, f"option {option.key!r}")
    if fact.schema.typed_options.get(BARRIER_INTERVAL) is not None:
        _audit_widened_at_barrier(fact, dim, option, findings)
        return
    store, user = fact._committer.snapshots, user_of(option)
    ends = (store.load(id) for id in sorted(store.ids(), reverse=True))
    last = next((s for s in ends if s.commit_user == user and FACT in s.properties), None)
    if last is None:
        findings.skip(f"law widened of {option.column}: no snapshot exists that ended a round")
        return
    is_known = last_widened(widening_of(fact, dim, option), last).done is not None
    if not is_known and DIGEST in last.properties:
        findings.skip(
            f"law widened of {option.column}: tables, columns or snapshots have changed since that round"
        )
        return
    fact_id, dim_id = int(last.properties[FACT]), int(last.properties[DIM])
    text = f"the columns of {option.table} at snapshot {dim_id}"
    wrong = Finding("widened", last.id, text, "other values")
    with (
        _unless_gone(findings, f"widened of {option.column}"),
        held(fact._state(), min(fact_id, last.id)),
        held(dim._state(), dim_id),
        closing(view_at(dim, dim_id, list(option.columns.values()))) as view,
    ):
        for batch in scan_at(fact, last.id, _compared(fact, option)).to_batches():
            table = pa.Table.from_batches([batch])
            rows = untouched_rows(fact, table, fact_id, user, last.id)
            _add_differing(findings, fact, option, rows, view, wrong)


def _audit_widened_at_barrier(
    fact: OpenTable, dim: OpenTable, option: WidenOption, findings: Findings
) -> None:
    law, views = f"widened of {option.column}", barrier_views(fact)
    own = views.newest().members.get(option.writer_of(name_of(fact)))
    if own is None or own.at is None:
        findings.skip(f"law {law}: no round has ended")
        return
    text = f"the columns of {option.table} as of barrier {own.at}"
    wrong, names = Finding("widened", views.ids[-1], text, "other values"), _compared(fact, option)
    with _unless_gone(findings, law):
        of_fact, of_dim = views.ahead(own.at, ()), barrier_views(dim).view(own.at)
        with (
            held(fact._state(), of_fact.first_id),
            held(dim._state(), of_dim.first_id),
            closing(lookup_as_of(dim, of_dim, list(option.columns.values()))) as view,
        ):
            for batch in state_of_view(fact, of_fact, fact.schema).scan(names).to_batches():
                rows, _ = not_deleted(fact, pa.Table.from_batches([batch]), own.at)
                _add_differing(findings, fact, option, rows, view, wrong)


def _compared(fact: OpenTable, option: WidenOption) -> list[str]:
    return list(dict.fromkeys([*fact.schema.primary_keys, option.column, *option.columns]))


def _add_differing(
    findings: Findings,
    fact: OpenTable,
    option: WidenOption,
    rows: pa.Table,
    dim: LookupView,
    wrong: Finding,
) -> None:
    """Add a finding for each fact whose widened columns differ from the dim's row."""
    expected = dim.lookup(one_array(rows.column(option.column)))
    differs = pa.array(~equal_rows(rows.select(list(option.columns)), expected))
    findings.checked("widened", rows.num_rows)
    add_each(findings, wrong, rows.filter(differs).select(list(fact.schema.primary_keys)))


def _audit_joined(out: OpenTable, definition: JoinDefinition, findings: Findings) -> None:
    """Add a finding for each row that a round would write which compares all rows."""
    latest = out._committer.snapshots.latest()
    last = last_round(out, latest)[1]
    if latest is None or last is None:
        findings.skip("law joined: no round has ended")
        return
    joining = joining_of(out, definition)
    plan, key = joining.plan, list(out.schema.primary_keys)
    if not plan.by_key and KeyAccess.INDEX in (plan.left_access, plan.right_access):
        findings.skip("law joined: many to many by an index")
        return
    wrong = Finding("joined", latest.id, "the join of the rows of both tables", "other values")
    with _unless_gone(findings, "joined"), contextlib.ExitStack() as stack:
        ids = (last.left_id, last.right_id, latest.id)
        for table, id in zip(joining.tables, ids, strict=True):
            if id:
                stack.enter_context(held(table._state(), id))
        difference = JoinDifference(plan, joining.tables, ids)
        stack.callback(difference.close)
        for batch in scan_at(out, latest.id, key[:1]).to_batches():
            findings.checked("joined", batch.num_rows)
        for piece in difference.pieces(None):
            add_each(findings, wrong, piece.select(key))
