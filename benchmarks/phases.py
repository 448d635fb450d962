"""`python -m benchmarks.phases [own]`: where the CPU time of commits with a lookup changelog goes, by phase.

The rows of `lookup_changelog`, ours only; `own`: each group writes only its own columns. Functions of the package are
wrapped while it runs; a phase has the CPU time of its functions without that of phases inside it, per thread. CPU time
of threads says little about waiting, and much on a machine that others use too.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import two_groups
from benchmarks.harness import Size, scratch
from benchmarks.lookups.bench_lookup_changelog import (
    SHAPES,
    our_pass,
    write_narrow,
    write_wide,
)

# (module, name in it, phase); a name of two parts is a method. `{thread}`: what is encoded there.
_PHASES = (
    ("widetable.table", "Table.write", "other: commit, plan"),
    ("widetable.write.table_writer", "TableWriter.write", "normal form, buckets"),
    ("widetable.write.write_buffer", "collapse", "sort and collapse a commit's rows"),
    ("widetable.format.data_file_writer", "DataFileWriter.write", "encode {thread}"),
    ("widetable.format.data_file_writer", "DataFileWriter.close", "encode {thread}"),
    ("widetable.format.data_file_writer", "DataFileWriter._flush", "encode {thread}"),
    ("widetable.format.data_file_reader", "DataFile.batches", "decode files of the pick"),
    ("widetable_lookup.cache_writer", "CacheBuilder.write", "copy rows into caches (a thread)"),
    ("widetable_lookup.cache_writer", "CacheBuilder.close", "copy rows into caches (a thread)"),
    ("widetable.lsm.compaction", "find_rows", "find before-images below the pick"),
    ("widetable.lsm.compaction", "merge_with_changes", "order and plan the merge"),
    ("widetable.merge.sorted_merge", "gather", "gather merged rows"),
    ("widetable.merge.sorted_merge", "changelog", "plan and gather changelog rows"),
)
# What these call belongs to them, whatever it is.
_WHOLE = {"find before-images below the pick", "sort and collapse a commit's rows"}


class PhaseClock:
    """CPU seconds by phase, from all threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._local = threading.local()

    @contextmanager
    def running(self, phase: str) -> Iterator[None]:
        stack = self._stack()
        if stack and stack[-1] in _WHOLE:
            yield
            return
        self._lap()
        stack.append(phase)
        try:
            yield
        finally:
            self._lap()
            stack.pop()

    def _stack(self) -> list[str]:
        if not hasattr(self._local, "stack"):
            self._local.stack, self._local.since = [], time.thread_time()
        stack: list[str] = self._local.stack
        return stack

    def _lap(self) -> None:
        now, stack = time.thread_time(), self._stack()
        if stack:
            self.seconds[stack[-1]] += now - self._local.since
        self._local.since = now


def measure(clock: PhaseClock) -> None:
    """Wrap the functions of `_PHASES` in this process."""
    for module_name, name, phase in _PHASES:
        owner: Any = importlib.import_module(module_name)
        *outer, last = name.split(".")
        for part in outer:
            owner = getattr(owner, part)
        setattr(owner, last, _wrapped(getattr(owner, last), phase, clock))


def _wrapped(function: Callable[..., Any], phase: str, clock: PhaseClock) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        label = phase.format(thread=_encoded_here())
        with clock.running(label):
            result = function(*arguments, **named)
        return _stepped(result, label, clock) if isinstance(result, Iterator) else result

    return call


def _stepped(steps: Iterator[Any], phase: str, clock: PhaseClock) -> Iterator[Any]:
    while True:
        with clock.running(phase):
            try:
                step = next(steps)
            except StopIteration:
                return
        yield step


def _encoded_here() -> str:
    name = threading.current_thread().name
    if name.startswith("widetable-"):
        return name.removeprefix("widetable-").partition("_")[0] + " files (a thread)"
    return "level-0 files"


def main(arguments: list[str]) -> None:
    shape, clock = SHAPES[Size.FULL], PhaseClock()
    commits = two_groups.commits(2, shape.rows, shape.keys, shape.commits)
    with scratch("phases") as work:
        measure(clock)
        one = our_pass(work, commits, write_narrow if "own" in arguments else write_wide)
    rows = shape.rows * shape.commits
    for phase, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        print(f"{seconds:6.2f} s CPU  {seconds / rows * 1e6:6.2f} us/row  {phase}")
    print(f"{one.cpu_seconds:6.2f} s CPU, {one.total:.2f} s wall, worst commit {one.worst:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
