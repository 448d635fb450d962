"""An attribute that is computed when it is first asked for, and then kept: `functools.cached_property` without a lock.

That one holds a lock per class and attribute while it computes (Python 3.11 and older): a process that is forked while
a thread computes inherits the lock taken, and waits for it for ever; and threads wait for each other although their
objects have nothing in common. Here two threads that ask at the same time may both compute, and both get what the
first to end computed. Raises what the method raises, and keeps nothing then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")
S = TypeVar("S")


class derived_value(Generic[T]):
    """A decorator of methods without arguments, for objects that have a `__dict__`, frozen dataclasses too.

    The value goes into the `__dict__` under the attribute's name, past `__setattr__`, and is found
    there by the next access without a call. Copies and pickles take it along unless their class
    leaves it out (`TableSchema.__getstate__`); to forget it, take it out of the `__dict__`.
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
        """Called only while the object's `__dict__` has no such value: there is no `__set__`."""
        if instance is None:
            return self
        # setdefault is atomic under the interpreter's lock: of two threads that computed, both
        # give the value that came first, so what is asked for twice is one object.
        return cast("T", instance.__dict__.setdefault(self._name, self._compute(instance)))


def once_per_object(compute: Callable[[S], T]) -> Callable[[S], T]:
    """The same for what a later layer derives from an object that never changes: a decorator of a function of it.

    A check is such a function, too: it raises each time, and an object that passed is not looked at again.

        @once_per_object
        def check_readable(schema): ..    asked with every operation, done once for each schema
    """
    # A name that no attribute has: its dots keep it apart from those of the object's own class.
    key = f"{compute.__module__}.{compute.__qualname__}"

    @functools.wraps(compute)
    def kept(given: S) -> T:
        values = given.__dict__
        if key not in values:
            values.setdefault(key, compute(given))
        return cast("T", values[key])

    return kept
