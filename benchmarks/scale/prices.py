"""What the model takes from elsewhere: list prices and limits of a cloud, and what is reckoned with. Nothing measured.

List prices of us-east-1 without discounts, as public pages had them when they were looked up on 2026-11-25; a price
changes without notice here. Sources stand in docs/scale.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOURS_OF_MONTH: Final = 730
DAYS_OF_MONTH: Final = HOURS_OF_MONTH / 24
GB: Final = 1_000_000_000


@dataclass(frozen=True)
class Prices:
    """Dollars. put: with COPY, POST and LIST; get: with HEAD; deletes cost nothing. hour: of a machine."""

    gb_month: float = 0.023
    put: float = 0.005 / 1000
    get: float = 0.0004 / 1000
    hour: float = 0.624


@dataclass(frozen=True)
class Cloud:
    """The machine is an i3.2xlarge. request_s: of one small request, with what a commit does between two.

    puts_per_s, gets_per_s: what S3 gives a prefix before it has split it. core_share, disk_share: how full machines may
    be. bucket_share: of the time between two rounds, how much one bucket's task may take on average. rewrite_s: how
    long the rewriting of a whole bucket may keep its changelog. plan_s: what a reader may need for its first plan.
    """

    prices: Prices = Prices()
    cores: int = 8
    disk_bytes: float = 1_900 * GB
    request_s: float = 0.03
    puts_per_s: float = 3_500
    gets_per_s: float = 5_500
    core_share: float = 0.6
    disk_share: float = 0.8
    bucket_share: float = 0.5
    rewrite_s: float = 60
    plan_s: float = 10


CLOUD: Final = Cloud()
