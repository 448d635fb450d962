"""The decorator of every compiled loop, and the rule when a loop is compiled.

A kernel takes scalars and contiguous arrays, holds no GIL and is cached on disk. It never gets `parallel=True`: callers
use threads over columns or key ranges. It allocates nothing and returns no array, but fills its arguments: so it needs
no reference counts, which numba does not remove where a loop has several exits (a comparison of
keys: 9 times slower). It copies arrays by loops: assigning one slice to another takes a second to compile. Arrays that
are read-only in one call and not in another would compile it twice; those of Arrow always are (arrow_buffers.py).

Compiling a kernel costs as much as running it in plain Python over some 100,000 items, and the first write of a process
uses thirty kernels. So a kernel has two tiers, from one source:

    interpreted     while its calls are small and few: numba is not even imported
    compiled        from the first call on that has many items, or when small calls add up to many items

Both tiers must give the same bits (tests/widetable/kernels runs in both). Therefore a kernel names the width of its
numbers where it matters: numpy promotes uint64 and int64 to float64, as numba does, and wraps like it, but eight bits
that are shifted left stay eight bits; a negative number becomes uint64 only if it was an int64 before.

While other threads or processes wait for a thread, such as for its turn to commit, it avoids compiling: numba
takes seconds for each kernel, minutes on a busy machine (`compiled_afterwards`).

A kernel uses constants and kernels of its own file only, and takes others as arguments: the cache notices changes of
that file and of no other (tests/test_kernel_names.py).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np

from widetable.kernels.compiler import COMPILER, Dispatcher
from widetable.runtime.derived_value import derived_value
from widetable.runtime.forked_child import UNFORKABLE

_Function = TypeVar("_Function", bound=Callable[..., object])

# Items of all arguments of a call; with more the kernel is compiled before it runs.
ITEMS_OF_A_CALL: Final = 4096
# Items of all calls together, per kernel.
ITEMS: Final = 1 << 16
# Items of a call that is interpreted while others wait: about a second. With more the kernel is compiled even then.
ITEMS_WHILE_OTHERS_WAIT: Final = 1 << 20


_log = logging.getLogger("widetable")


class _Postponed(threading.local):
    """This thread's kernels to compile later, each with the arguments of a call; None: kernels are compiled at once."""

    wanted: dict[Kernel, tuple[Any, ...]] | None = None


_POSTPONED: Final = _Postponed()


@contextmanager
def compiled_afterwards() -> Iterator[None]:
    """Interpret kernels that this thread calls inside, and compile those that were due when the block ends.
    Put a context manager in which others wait inside of this one. Raises no errors of its own, because the block may
    have published its result. A kernel that could not be compiled is compiled at its next call, which raises the
    error.
    """
    if _POSTPONED.wanted is not None:
        yield
        return
    wanted: dict[Kernel, tuple[Any, ...]] = {}
    _POSTPONED.wanted = wanted
    try:
        yield
    finally:
        _POSTPONED.wanted = None
    for kernel, arguments in wanted.items():
        try:
            kernel.compile_for(arguments)
        except Exception as refusal:  # noqa: BLE001 - the compiler may raise any error
            _log.info("%s is compiled at its next call: %r", kernel, refusal)


class Kernel:
    """A loop over arrays. Threads may call it concurrently: a lost count only delays its compilation.

    States: not compiled, calls are counted; compiled (`_compiled` is set), all calls run
    compiled, whatever their size. A compiled kernel stays compiled.
    """

    # False: every call is compiled. For a process that fills the cache.
    interprets: ClassVar[bool] = True

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._items_left = ITEMS
        self._compiled: Dispatcher | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            return self._run_compiled(self._compiled, arguments)
        items = items_of(arguments)
        self._items_left -= items
        is_cheap = items <= ITEMS_OF_A_CALL and self._items_left >= 0
        if self.interprets and (is_cheap or self._is_put_off(items, arguments)):
            return self.interpret(*arguments)
        return self.compile(*arguments)

    def _is_put_off(self, items: int, arguments: tuple[Any, ...]) -> bool:
        wanted = _POSTPONED.wanted
        if wanted is None or items > ITEMS_WHILE_OTHERS_WAIT:
            return False
        wanted.setdefault(self, arguments)
        return True

    def interpret(self, *arguments: Any) -> Any:
        """Run the loop in plain Python; it returns Python's numbers, as when it is compiled."""
        with np.errstate(all="ignore"):
            result = self._plain(*arguments)
        return tuple(map(_unboxed, result)) if isinstance(result, tuple) else _unboxed(result)

    def compile(self, *arguments: Any) -> Any:
        """Compile the loop and run it; later calls run compiled, too."""
        if self._compiled is not None:
            return self._run_compiled(self._compiled, arguments)
        # A process forked meanwhile would wait for ever for numba's imports and locks.
        with UNFORKABLE:
            result = self._run_compiled(self._dispatcher, arguments)
        self._compiled = self._dispatcher
        return result

    def compile_for(self, arguments: tuple[Any, ...]) -> None:
        """Compile the loop for arguments of these types, without running it."""
        if self._compiled is None:
            from numba import typeof

            with UNFORKABLE:
                kinds = tuple(map(typeof, arguments))
                _despite_cache(self._dispatcher, lambda: self._dispatcher.compile(kinds))
            self._compiled = self._dispatcher

    def _run_compiled(self, compiled: Dispatcher, arguments: tuple[Any, ...]) -> Any:
        return _despite_cache(compiled, lambda: compiled(*arguments))

    @derived_value
    def _dispatcher(self) -> Dispatcher:
        return COMPILER.compile(self._calling("_dispatcher"))

    @derived_value
    def _plain(self) -> Callable[..., Any]:
        return self._calling("_plain")

    def _calling(self, form: str) -> FunctionType:
        """Return the function, bound to that form of each kernel that it names."""
        code, names = self._function.__code__, self._function.__globals__
        # The kernels that the code names are replaced by plain or compiled functions: a
        # compiled function cannot call a Kernel, and an interpreted one should not count items for
        # each call.
        kernels = {
            n: getattr(names[n], form) for n in code.co_names if isinstance(names.get(n), Kernel)
        }
        calling = FunctionType(code, {**names, **kernels}, code.co_name)
        functools.update_wrapper(calling, self._function)
        return calling


def _despite_cache(compiled: Dispatcher, run: Callable[[], Any]) -> Any:
    """Run a compiled kernel; run it again without the cache when the cache failed."""
    try:
        return run()
    except MemoryError:
        raise
    except Exception as refusal:  # noqa: BLE001 - the loop itself raises nothing
        # Loading from the cache, or writing to it, may have failed: then the second call
        # succeeds, and the cache is reported. Repeating is safe: the loop raises nothing,
        # so it had not begun.
        directory = COMPILER.keep_nothing(compiled)
        result = run()  # raises again unless the cache was the cause
        COMPILER.blame_cache(directory, refusal)
        return result


def kernel(function: _Function) -> _Function:
    """Turn a function into a kernel; type checkers see the function's own signature."""
    return cast("_Function", Kernel(cast("FunctionType", function)))


def items_of(arguments: tuple[Any, ...]) -> int:
    """Return how many array items a call reads at most."""
    return sum(getattr(argument, "size", 1) for argument in arguments)


def _unboxed(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
