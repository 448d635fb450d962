"""Every test of kernels runs in both of their tiers."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def both_tiers(tier: str) -> str:
    return tier
