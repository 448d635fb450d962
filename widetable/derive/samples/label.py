"""A label of a sample: whether an event came within a time after the sample's own, and perhaps with which value.

    on 10:00, within 7 h      event 09:59 no    10:00 yes    17:00 yes    17:01 no    null no

Both ends count. In: what a caller writes, such as `label("bought_at", within="7 d")`. Out: a `SampleLabel`. Raises
InvalidError for a time that is no duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from widetable.arguments import text
from widetable.operations.windows.window import duration_millis


@dataclass(frozen=True)
class SampleLabel:
    """What a label is computed from: the column of an event's time, and how late it may be. `label` makes it.

    Attributes
    ----------
    event_time : str
        The column with the time of the event.
    within_millis : int
        How long after the time of the sample the event counts, in milliseconds.
    value : str or None
        The column whose value the label has; None for true or false.

    Examples
    --------
    >>> import widetable as wt
    >>> wt.label("bought_at", within="7 d")
    SampleLabel(event_time='bought_at', within_millis=604800000, value=None)
    """

    __module__ = "widetable"

    event_time: str
    within_millis: int
    value: str | None = None


def label(event_time: str, within: str | timedelta, value: str | None = None) -> SampleLabel:
    """Describe a label of `Table.follow_samples`: whether the event came in time.

    The row has one time per column. So where several events come, the column says which counts: the last one, unless
    its aggregate function is `min` or `first_value`.

    Parameters
    ----------
    event_time : str
        The column with the time of the event: TIMESTAMP or DATE, or a number with a unit in `event_times`.
    within : str or timedelta
        How long after the time of the sample the event counts, such as "7 d". Both ends count; earlier events do not.
    value : str, default None
        A column whose value is the label where the event came in time; the label is null, or its default, where not.
        None: the label is true or false.

    Returns
    -------
    SampleLabel
        The description.

    Raises
    ------
    InvalidError
        The time is no duration above 0.

    Examples
    --------
    >>> import widetable as wt
    >>> wt.label("bought_at", within="7 d", value="price").within_millis
    604800000
    """
    return SampleLabel(
        text(event_time, "event_time"),
        duration_millis(within, "within"),
        None if value is None else text(value, "value"),
    )


label.__module__ = "widetable"
