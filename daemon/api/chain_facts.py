"""What the API asks a chain while a request waits: briefly, outside of any transaction, and silence is an answer.

Nothing here sends. A node that does not answer in time has said nothing, and nothing may be concluded from that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog
from aiohttp import web

from chains.base import Rail
from chains.errors import ChainError
from chains.types import SightingKind
from daemon.payouts.resolution import Answer, BalanceQuestion, PoolQuestion
from daemon.store.resolving import Asked

log = structlog.get_logger(__name__)

ANSWER_MOST_S = 1.0
TX_IDS_MOST = 4  #: the newest of what was signed
RAILS = web.AppKey("rails", Mapping[str, Rail])  #: by CAIP-2 id


async def answer_to(rails: Mapping[str, Rail], asked: Asked) -> Answer:
    """What the chain says, within a second."""
    rail = rails.get(asked.chain_id)
    if rail is None:
        return Answer(asked.question)  # the config has this chain no more
    try:
        async with asyncio.timeout(ANSWER_MOST_S):
            return await ask(rail, asked)
    except (ChainError, OSError) as error:
        log.info("api.chain_silent", chain=asked.chain_id, detail=str(error) or type(error).__name__)
        return Answer(asked.question)


async def ask(rail: Rail, asked: Asked) -> Answer:
    """What the chain says. Raises RailUnavailable, and takes as long as it takes."""
    match asked.question:
        case PoolQuestion() as question:
            return await _known(rail, question)
        case BalanceQuestion() as question:
            return await _balances(rail, asked, question)


async def _known(rail: Rail, question: PoolQuestion) -> Answer:
    seen = [await rail.look_up(tx_id) for tx_id in question.tx_ids[:TX_IDS_MOST]]
    known = [
        f"{one.tx_id} is {one.kind.value}"
        + (f" in block {one.block}" if one.block is not None else " in a node's pool")
        for one in seen
        if one.kind is not SightingKind.UNSEEN
    ]
    return Answer(question, known=tuple(known))


async def _balances(rail: Rail, asked: Asked, question: BalanceQuestion) -> Answer:
    """What the destination owned before and after; unknown where nodes contradict each other."""
    owned = []
    for block in (question.block - 1, question.block):
        reading = await rail.wallet(asked.destination, contracts=(asked.contract,), block=block)
        if not reading.agreed:
            return Answer(question)
        owned.append(reading.balances[asked.contract])
    return Answer(question, balances=(owned[0], owned[1]))
