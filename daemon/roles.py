"""The roles that a daemon process may have; all of them in one process by default."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """A share of the daemon's work."""

    API = "api"
    SIGN = "sign"
    SEND = "send"
    WATCH = "watch"
    DETECT = "detect"
    ALERT = "alert"


def parse(text: str) -> frozenset[Role]:
    """Roles from "api,sign". Raises ValueError, which names what there is."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in list(Role)]
    if unknown or not words:
        known = ", ".join(Role)
        raise ValueError(f"found role {unknown[0]!r}" if unknown else f"no role is named; there are: {known}")
    return frozenset(Role(word) for word in words)
