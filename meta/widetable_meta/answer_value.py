"""Values of what the service answers. Raises StorageError for an answer that is none of this version."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from widetable import StorageError

T = TypeVar("T")


def value_of(adapter: TypeAdapter[T], body: Any) -> T:
    """body: of JSON. Fields that this version does not know are passed over."""
    try:
        return adapter.validate_python(body)
    except ValidationError as refusal:
        raise StorageError(
            "the service",
            found=f"an answer that this version does not know: {refusal.errors()[0]['msg']}",
            expected="one of the same version",
            action="Bring the service and this client to the same version.",
        ) from refusal
