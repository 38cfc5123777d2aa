"""When a notice is tried again. Pure: no clock, no randomness of its own."""

from __future__ import annotations

FIRST_S = 1.0
LONGEST_S = 300.0
HOURLY_S = 3600.0
HOURLY_FROM_S = 72 * 3600.0  #: after three days nobody waits at the other end; nothing is dropped all the same
SPREAD = 0.2  #: of the delay, so that a receiver that comes back is not met by everything at once


def next_try_s(*, tries: int, age_s: float, retry_after_s: float | None = None, spread: float = 0.0) -> float:
    """Seconds from now to the next try, after `tries` that ended without an answer that counts.

    1, 2, 4, … 300 s, and hourly once the first try is more than 72 h ago. Never sooner than the
    receiver asked. `age_s` is the time since the first try, `spread` a random number in [0, 1).
    """
    doubled = FIRST_S * 2.0 ** min(max(tries - 1, 0), 30)
    delay = HOURLY_S if age_s > HOURLY_FROM_S else min(doubled, LONGEST_S)
    return max(delay, retry_after_s or 0.0) * (1.0 + SPREAD * spread)
