"""Floors and ceilings of a pool's stock by the hour of the week."""

from __future__ import annotations

import msgspec

from shared.pools import DAYS, Hours, Promise

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES


class Bounds(msgspec.Struct, frozen=True):
    """The stock is not below the floor nor above the ceiling."""

    floor: int
    ceiling: int | None


def bounds_at(promise: Promise, minute_of_week: int) -> Bounds:
    """Return the bounds that hold then: those of the first hours that fit, else the pool's own; a ceiling wins.

    Args:
        promise: of the pool.
        minute_of_week: UTC, from Monday 00:00.
    """
    floor, ceiling = promise.stock_min, promise.stock_max
    for hours in promise.hours:
        if _holds(hours, minute_of_week % WEEK_MINUTES):
            floor = hours.stock_min
            ceiling = hours.stock_max if hours.stock_max is not None else ceiling
            break
    return Bounds(floor if ceiling is None else min(floor, ceiling), ceiling)


def _holds(hours: Hours, minute_of_week: int) -> bool:
    """Return whether hours hold then; those that end before they begin go on into the next day."""
    day, minute = divmod(minute_of_week, DAY_MINUTES)
    begin, end = minutes_of(hours.begin), minutes_of(hours.end)
    if begin < end:
        return DAYS[day] in hours.days and begin <= minute < end
    if minute >= begin:
        return DAYS[day] in hours.days
    return minute < end and DAYS[day - 1] in hours.days


def minutes_of(text: str) -> int:
    """Return the minute of the day of `HH:MM`."""
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)
