"""The graph of jobs and tables: the tables upstream and downstream of another one, and the layer of each. Pure.

    sources ─► job ─► sinks        two jobs of the same name are one

    layer 0: tables that no job makes from others; layer n: made from tables of layers below n, at least one of n - 1

Source: F1, F15 and F24 of FLIP-276. Raises ConflictError for a cycle, which it spells out, including that of a job that
reads what it writes.

    clicks: - -> a      j1: a -> b      j2: a, b -> c      j3: x -> y      and a table z

    layers         [a, x, z], [b, y], [c]
    upstream(c)    [a, b]               downstream(a)   [b, c]
    components     [a, b, c], [x, y], [z]
    back: c -> a   the cycle c -> back -> a -> j1 -> b -> j2 -> c

A table is made from the sources of all jobs that write it. If the newest job is part of a cycle, the text of the cycle
begins at the table that this job reads, so that its first two names show the problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from widetable.commit.barriers.writer_registration import Job
from widetable.errors import ConflictError

# (whether it is a job, its name): a job may have the name of a table.
_Node = tuple[bool, str]


class JobGraph:
    """Orders the tables of some jobs. tables: additional tables, which no job names. An unknown name has no upstream
    and no downstream tables.
    """

    def __init__(self, jobs: Iterable[Job], tables: Iterable[str] = ()) -> None:
        """Make the graph. Raises ConflictError for a cycle."""
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
        """Return all tables by layer, sorted by name within a layer."""
        return [sorted(layer) for layer in self._layers]

    def upstream(self, table: str) -> list[str]:
        """Return the tables from which it is made, directly or not, in the order in which they are made."""
        return self._in_order(_reached(table, self._made_of))

    def downstream(self, table: str) -> list[str]:
        """Return the tables that are made from it, directly or not, in the order in which they are made."""
        return self._in_order(_reached(table, self._feeds))

    def components(self) -> list[list[str]]:
        """Return the groups of tables that jobs connect, directly or not; each table is in one group."""
        components: list[list[str]] = []
        seen: set[str] = set()
        beside = {name: near | self._feeds.get(name, set()) for name, near in self._made_of.items()}
        for table in sorted(beside):
            if table not in seen:
                components.append(self._in_order({table, *_reached(table, beside)}))
                seen.update(components[-1])
        return components

    def _in_order(self, tables: Iterable[str]) -> list[str]:
        chosen = set(tables)
        return [name for layer in self.layers() for name in layer if name in chosen]


def check_flow(job: Job, others: Iterable[Job]) -> None:
    """Raise ConflictError for a job that would close a cycle, with others or by itself."""
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
    except CycleError as error:
        cycle: list[_Node] = error.args[1]
        raise ConflictError(
            "the topology" if newest is None else f"job {newest.name!r}",
            found=f"the cycle {_spelled(cycle, newest)}",
            expected="tables that are not made from themselves",
            action="Take another source or sink, or drop one of these jobs if it has ended.",
        ) from error


def _spelled(cycle: list[_Node], newest: Job | None) -> str:
    """Spell out a cycle of graphlib, in which each node is a direct predecessor of the next, and the last is the first.
    It is rotated so that it begins and ends at the table before the newest job.
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
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached - {start}
