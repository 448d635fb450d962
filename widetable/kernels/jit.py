"""The one decorator of every compiled loop, and when a loop is compiled.

A kernel takes scalars and contiguous arrays, holds no GIL and is cached on disk. It never gets `parallel=True`: callers
use threads over columns or key ranges. It allocates nothing and returns no array, but fills those that it is given: so
it needs no counts of references, which numba does not get rid of where a loop has several ways out (a comparison of
keys: 9 times slower). It copies arrays by loops: to assign one slice to another takes a second to compile. Arrays that
are read-only in one call and not in another would compile it twice; those of Arrow always are (arrow_buffers.py).

To compile a kernel costs as much as to run it in plain Python over some 100,000 items, and the first write of a process
meets thirty of them. So a kernel has two tiers, of one source:

    interpreted     while its calls are small, and few: numba is not even imported
    compiled        from the first call on that has many items, or when many small ones have come together

The two must not differ in one bit (tests/widetable/kernels runs in both). Therefore a kernel names the width of its
numbers where it matters: numpy joins uint64 and int64 to float64, as numba does, and wraps like it, but eight bits that
are shifted left stay eight bits; a negative number becomes uint64 only if it was an int64 before.

Where others wait for what a thread does, such as for its turn to commit, it compiles nothing if it can be helped: numba
takes seconds for each kernel, minutes on a machine with much to do (`compiled_afterwards`).

A kernel names constants and kernels of its own file only, and takes others as arguments: the cache notices changes of
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

# Items of all arrays that a call is given; with more it is compiled before it runs.
ITEMS_OF_A_CALL: Final = 4096
# Items of all calls together, per kernel.
ITEMS: Final = 1 << 16
# Items of a call that is interpreted while others wait: about a second. More are compiled also then.
ITEMS_WHILE_OTHERS_WAIT: Final = 1 << 20


_log = logging.getLogger("widetable")


class _Postponed(threading.local):
    """Of this thread, kernels that are to be compiled later, with the arguments of a call; None: none is put off."""

    wanted: dict[Kernel, tuple[Any, ...]] | None = None


_POSTPONED: Final = _Postponed()


@contextmanager
def compiled_afterwards() -> Iterator[None]:
    """Kernels that this thread calls inside are interpreted, and those that were due are compiled when the block ends.
    So another context manager, in which others wait, has its place inside of this one. Raises nothing of its own: what
    the block did may be published. A kernel that could not be compiled is compiled when it is called next, which tells
    why.
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
        except Exception as refusal:  # noqa: BLE001 - whatever the compiler has
            _log.info("%s is compiled when it is called next: %r", kernel, refusal)


class Kernel:
    """A loop over arrays. Threads may call it together: a lost count only puts off when it is compiled.

    States: nothing compiled, calls are weighed; compiled (`_compiled` is set), all calls go
    there, whatever their size. There is no way back.
    """

    # False: every call is compiled. For a process that is there to fill the cache.
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
        """Run it in plain Python; what it returns are Python's numbers, as when it is compiled."""
        with np.errstate(all="ignore"):
            result = self._plain(*arguments)
        return tuple(map(_unboxed, result)) if isinstance(result, tuple) else _unboxed(result)

    def compile(self, *arguments: Any) -> Any:
        """Run it compiled, from now on always."""
        if self._compiled is not None:
            return self._run_compiled(self._compiled, arguments)
        # A child would wait for modules that numba imports meanwhile, and for its locks.
        with UNFORKABLE:
            result = self._run_compiled(self._dispatcher, arguments)
        self._compiled = self._dispatcher
        return result

    def compile_for(self, arguments: tuple[Any, ...]) -> None:
        """Compile it for arguments of these types, and run nothing."""
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
        """The function, calling that form of each kernel that it names."""
        code, names = self._function.__code__, self._function.__globals__
        # The names that the code mentions, bound to the plain or the compiled functions: a
        # compiled one cannot call a Kernel, and an interpreted one should not count items for
        # each call.
        kernels = {
            n: getattr(names[n], form) for n in code.co_names if isinstance(names.get(n), Kernel)
        }
        calling = FunctionType(code, {**names, **kernels}, code.co_name)
        functools.update_wrapper(calling, self._function)
        return calling


def _despite_cache(compiled: Dispatcher, run: Callable[[], Any]) -> Any:
    """What `run` does with a compiled kernel; again, where the cache has failed it."""
    try:
        return run()
    except MemoryError:
        raise
    except Exception as refusal:  # noqa: BLE001 - not of the loop, which raises nothing
        # Loading from the cache, or writing to it, may have failed: then the second call
        # succeeds, and the cache is blamed. It may be made again: the loop raises nothing,
        # so it had not begun.
        directory = COMPILER.keep_nothing(compiled)
        result = run()  # raises again what is not the cache's
        COMPILER.blame_cache(directory, refusal)
        return result


def kernel(function: _Function) -> _Function:
    """Make a kernel of a function; the signature that callers see stays the function's."""
    return cast("_Function", Kernel(cast("FunctionType", function)))


def items_of(arguments: tuple[Any, ...]) -> int:
    """How many a call passes over, at most."""
    return sum(getattr(argument, "size", 1) for argument in arguments)


def _unboxed(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
