"""All states that a system can get into, breadth first: is each of them right, and can each still be finished?

In: a system (`System`). Out: how many states and steps there are, and the first fault, with a shortest way to it: what
`check` or `steps` raised as Broken, else a state from which nothing finished can be reached, a deadlock or a livelock.
RuntimeError: there are more states than the limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

LIMIT = 6_000_000
S = TypeVar("S", bound=Hashable)


class Broken(Exception):
    """An invariant does not hold; the text says which."""


class System(Protocol[S]):
    def start(self) -> S: ...

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """What may happen next: its name, and the state after it."""

    def check(self, state: S) -> None:
        """Raises Broken."""

    def finished(self, state: S) -> bool: ...


class Explored(NamedTuple):
    """way: the names of the steps to the fault; depth: that of the fault, else the greatest."""

    states: int
    steps: int
    depth: int
    fault: str | None
    way: list[str]


class Graph:
    """What was found: states by number, the step that each was found by, and all states before it."""

    def __init__(self) -> None:
        self.parents = [(-1, "start")]
        self.depths = [0]
        self.before: list[list[int]] = [[]]
        self.steps = 0

    def add(self, parent: int, action: str) -> None:
        self.parents.append((parent, action))
        self.depths.append(self.depths[parent] + 1)
        self.before.append([])

    def way(self, at: int) -> list[str]:
        actions = []
        while at > 0:
            at, action = self.parents[at]
            actions.append(action)
        return actions[::-1]

    def stuck(self, finished: list[int]) -> int | None:
        """The first state from which none of the finished ones can be reached."""
        reached = bytearray(len(self.parents))
        todo = list(finished)
        for number in todo:
            reached[number] = 1
        while todo:
            for number in self.before[todo.pop()]:
                if not reached[number]:
                    reached[number] = 1
                    todo.append(number)
        first = reached.find(0)
        return None if first < 0 else first

    def explored(self, fault: str | None = None, at: int = 0) -> Explored:
        depth = self.depths[at] if fault else max(self.depths)
        return Explored(len(self.parents), self.steps, depth, fault, self.way(at))


def explore(system: System[S], limit: int = LIMIT) -> Explored:
    start = system.start()
    numbers = {start: 0}
    graph, queue = Graph(), deque([start])
    finished: list[int] = []
    while queue:
        state = queue.popleft()
        number = numbers[state]
        try:
            for action, after in _checked_steps(system, state):
                graph.steps += 1
                to = numbers.get(after)
                if to is None:
                    to = numbers[after] = len(numbers)
                    graph.add(number, action)
                    queue.append(after)
                graph.before[to].append(number)
        except Broken as error:
            return graph.explored(str(error), number)
        if system.finished(state):
            finished.append(number)
        if len(numbers) > limit:
            raise RuntimeError(f"more than {limit} states")
    stuck = graph.stuck(finished)
    if stuck is not None:
        return graph.explored("nothing finished can be reached from here", stuck)
    return graph.explored()


def _checked_steps(system: System[S], state: S) -> Iterator[tuple[str, S]]:
    system.check(state)
    yield from system.steps(state)
