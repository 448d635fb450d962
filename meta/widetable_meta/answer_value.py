"""Values of the answers of the service. Raises StorageError for an answer of another version."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from widetable import StorageError

T = TypeVar("T")


def value_of(adapter: TypeAdapter[T], body: Any) -> T:
    """Return the value of a JSON body. Unknown fields are ignored."""
    try:
        return adapter.validate_python(body)
    except ValidationError as refusal:
        raise StorageError(
            "the service",
            found=f"an answer that this version cannot read: {refusal.errors()[0]['msg']}",
            expected="an answer of the same version",
            action="Install the same version for the service and this client.",
        ) from refusal
