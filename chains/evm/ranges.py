"""Which refusals of eth_getLogs mean "too many blocks" or "too many logs": ask for less. Pure.

A text that is not here is no reason to split: rate limits share their codes with range limits
(-32005), and splitting would answer a rate limit with twice the requests.
"""

from __future__ import annotations

import re

# Each with who says it. Lower case; the texts carry numbers, so they are patterns.
RANGE_TEXTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"query returned more than \d+ results",  # Infura, geth forks (-32005)
        r"range \d+ exceeds limit of \d+",  # Infura (-32602)
        r"exceeds? (?:the )?(?:max(?:imum)? )?(?:allowed )?(?:block )?range",  # BSC, several gateways
        r"log response size exceeded",  # Alchemy
        r"response size (?:is larger|exceeded|should not)",  # FireFly's list of gateways
        r"(?:is )?limited to (?:a )?[\d,]+ (?:block )?range",  # QuickNode (-32614)
        r"limited to 0 - [\d,]+ blocks? range",  # Ankr and kin
        r"up to a [\d,]+ block range",  # Alchemy's free plan
        r"requested too many blocks from \d+ to \d+",  # dRPC
        r"too wide blocks range",  # (limit 100)
        r"block range (?:is )?too (?:large|wide)",  # Polygon
        r"block range is larger than",
        r"block range limit exceeded",
        r"blocks distance: \d+",  # maximum [from, to] blocks distance
        r"query exceeds max (?:block range|results)",  # reth
        r"exceeds maximum rpc range limit",  # Besu
        r"exceed maximum block range",  # BSC
        r"range (?:is )?too large",
    )
)


def is_range_limit(message: str) -> bool:
    """Whether a smaller range may be answered where this one was refused."""
    text = message.lower()
    return any(pattern.search(text) for pattern in RANGE_TEXTS)
