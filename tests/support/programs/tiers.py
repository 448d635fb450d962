"""The two tiers of a kernel (widetable/kernels/jit.py), each alone, for tests that run in both."""

from __future__ import annotations

from typing import Any

import pytest

from widetable.kernels.jit import ITEMS_OF_A_CALL, Kernel, items_of


def _interpret(self: Kernel, *arguments: Any) -> Any:
    small = items_of(arguments) <= ITEMS_OF_A_CALL
    return (self.interpret if small else self.compile)(*arguments)


TIERS = {"interpreted": _interpret, "compiled": Kernel.compile}


def only(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every kernel in this tier, however often it is called; large calls are always compiled."""
    monkeypatch.setattr(Kernel, "__call__", TIERS[tier])
