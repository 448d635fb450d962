"""The graph of jobs and tables: which tables lie before and behind another one, and in which layer each is. Pure.

    sources ─► job ─► sinks        two jobs that have a name in common are one

    layer 0: tables that no job makes of others; layer n: of tables of layers below n, of one of n - 1 at least

Source: F1, F15 and F24 of FLIP-276. Raises ConflictError for a cycle, which it spells out, also that of a job that
reads what it writes.

    clicks: - -> a      j1: a -> b      j2: a, b -> c      j3: x -> y      and a table z

    layers         [a, x, z], [b, y], [c]
    upstream(c)    [a, b]               downstream(a)   [b, c]
    components     [a, b, c], [x, y], [z]
    back: c -> a   the cycle c -> back -> a -> j1 -> b -> j2 -> c

A table is made of the sources of all jobs that write it, together. Of a cycle with the newest
job in it the text begins at the table that this job reads, so that its first two names say what
is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from widetable.commit.barriers.writer_registration import Job
from widetable.errors import ConflictError

# (is it a job, its name): a job may be named like a table.
_Node = tuple[bool, str]


class JobGraph:
    """Of the jobs that are given. tables: besides those that jobs name. Of a name that it does
    not have nothing is upstream or downstream.
    """

    def __init__(self, jobs: Iterable[Job], tables: Iterable[str] = ()) -> None:
        """Raises what a graph with a cycle raises."""
        self._made_of: dict[str, set[str]] = {name: set() for name in tables}
        self._feeds: dict[str, set[str]] = {}
        jobs = list(jobs)
        for job in jobs:
            for table in job.sources:
                self._made_of.setdefault(table, set())
                self._feeds.setdefault(table, set()).update(job.tables)
            for table in job.tables:
                self._made_of.setdefault(table, set()).update(job.sources)
        _check_acyclic(jobs)
        self._layers = _layers_of(self._made_of)

    def layers(self) -> list[list[str]]:
        """All tables, by name within a layer."""
        return [sorted(layer) for layer in self._layers]

    def upstream(self, table: str) -> list[str]:
        """The tables that it is made of, directly or not, those that are made first in front."""
        return self._in_order(_reached(table, self._made_of))

    def downstream(self, table: str) -> list[str]:
        """The tables that are made of it, directly or not, those that are made first in front."""
        return self._in_order(_reached(table, self._feeds))

    def components(self) -> list[list[str]]:
        """Tables that jobs connect, however far; each table is in one."""
        found: list[list[str]] = []
        seen: set[str] = set()
        beside = {name: near | self._feeds.get(name, set()) for name, near in self._made_of.items()}
        for table in sorted(beside):
            if table not in seen:
                found.append(self._in_order({table, *_reached(table, beside)}))
                seen.update(found[-1])
        return found

    def _in_order(self, tables: Iterable[str]) -> list[str]:
        chosen = set(tables)
        return [name for layer in self.layers() for name in layer if name in chosen]


def check_flow(job: Job, others: Iterable[Job]) -> None:
    """Refuse a job that would close a cycle, with others or by itself."""
    _check_acyclic([job, *(other for other in others if other.name != job.name)], job)


def _check_acyclic(jobs: Iterable[Job], newest: Job | None = None) -> None:
    before: dict[_Node, set[_Node]] = {}
    for job in jobs:
        node = (True, job.name)
        before.setdefault(node, set()).update((False, table) for table in job.sources)
        for table in job.tables:
            before.setdefault((False, table), set()).add(node)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as found:
        cycle: list[_Node] = found.args[1]
        raise ConflictError(
            "the topology" if newest is None else f"job {newest.name!r}",
            found=f"the cycle {_spelled(cycle, newest)}",
            expected="tables that are not made of themselves",
            action="Take another source or sink, or drop one of these jobs if it has ended.",
        ) from found


def _spelled(cycle: list[_Node], newest: Job | None) -> str:
    """graphlib: each node is a direct predecessor of the next, the last is the first.
    It begins anywhere; here it is turned, so that it begins, and ends, at the table in front of
    the newest job.
    """
    around = cycle[:-1]
    job = (True, newest.name) if newest is not None else None
    at = (around.index(job) - 1) % len(around) if job in around else 0
    return " -> ".join(name for _, name in [*around[at:], *around[:at], around[at]])


def _layers_of(made_of: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    sorter = TopologicalSorter(made_of)
    sorter.prepare()
    layers = []
    while sorter.is_active():
        layers.append(sorter.get_ready())
        sorter.done(*layers[-1])
    return layers


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found - {start}
