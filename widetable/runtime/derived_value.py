"""An attribute that is computed at its first access and then cached: `functools.cached_property` without a lock.

`cached_property` holds a lock per class and attribute while it computes (Python 3.11 and older). A process that is
forked meanwhile inherits the locked lock and waits for it for ever, and threads wait for each other although their
objects have nothing in common. Here two threads may compute a value at the same time; both get the value that was
computed first. An error of the method is raised, and nothing is cached then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")
S = TypeVar("S")


class derived_value(Generic[T]):
    """A decorator of methods without arguments, for objects that have a `__dict__`, frozen dataclasses too.

    The value is stored in the `__dict__` under the attribute's name, without `__setattr__`; the next
    access reads it there without a call. Copies and pickles include it unless their class
    leaves it out (`TableSchema.__getstate__`). To drop the value, remove it from the `__dict__`.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    # A descriptor may be bound under another name than its function's.
    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> derived_value[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> derived_value[T] | T:
        """Compute and store the value. Python calls this only while the `__dict__` has none: there is no `__set__`."""
        if instance is None:
            return self
        # setdefault is atomic under the interpreter's lock: two threads that both computed return
        # the value that was stored first, so every access returns one and the same object.
        return cast("T", instance.__dict__.setdefault(self._name, self._compute(instance)))


def once_per_object(compute: Callable[[S], T]) -> Callable[[S], T]:
    """Decorate a function of an object that never changes: its value is computed once and cached in the object.

    This serves later layers, which cannot add a `derived_value`. It also serves checks: a check raises each time, and
    is not repeated for an object that passed.

        @once_per_object
        def engine_of(schema): ..    called with every operation, computed once for each schema
    """
    # A name that no attribute has: its dots keep it apart from those of the object's own class.
    key = f"{compute.__module__}.{compute.__qualname__}"

    @functools.wraps(compute)
    def cached(instance: S) -> T:
        values = instance.__dict__
        if key not in values:
            values.setdefault(key, compute(instance))
        return cast("T", values[key])

    return cached
