"""What schemathesis is pointed at: the API with payouts in many states behind it, and what is expected of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import schemathesis
from schemathesis.config import SchemathesisConfig

from daemon.api.openapi import document
from tests.http.api_world import ALICE, BOB, CHECKSUMMED, COLD, World, api_world
from tests.http.chain_steps import land, pay
from tests.http.conformance import faults_of

EXAMPLES = 5  #: inputs that are made up for each operation, beside those that the document's bounds call for
TOKEN = "adminadmin"
START_S = 60
#: What the document cannot know: the wallets, addresses, decimals and payouts that are here, cursors, and today.
ONLY_KNOWN_HERE = frozenset({"/wallet", "/destination", "/amount", "/expected_repeat_of", "?cursor", "?day"})
WORDS: dict[str, Sequence[str]] = {
    "assets": ("USDC", "usdt", "ETH"),
    "networks": ("Ethereum", "ethereum", "polygon"),
    "addresses": (ALICE, BOB, CHECKSUMMED, COLD),
    "amounts": ("1", "0.5", "0.000001", "12.50"),
    "wallets": ("hot-1", "cold-1"),
}
#: What every wallet holds, for longer than the tests last: a sweep is decided by it, and is 503 without.
BALANCES = """
    INSERT INTO wallet_balances (wallet_id, asset_id, amount, block, at)
    SELECT wallet_id, asset_id, 10::numeric ^ 30, 50, now() + interval '1 day' FROM wallets JOIN assets USING (chain_id)
"""
#: Where they are put in, of two inputs one; the others are made up.
AIMED = {
    "asset": "assets", "network": "networks", "destination": "addresses", "amount": "amounts", "wallet": "wallets",
    "name": "wallets",
}  # fmt: skip


def described(*, examples: int, seed: int, only: str | None = None) -> Any:
    """The document as schemathesis reads it, or one operation of it. The same seed asks the same."""
    rest = {"exclude-operation-id": only} if only is not None else {"include-tag": "withdrawals"}
    config = SchemathesisConfig.from_dict({
        "seed": seed,
        "generation": {"max-examples": examples, "database": "none"},
        "dictionaries": {name: {"values": list(words)} for name, words in WORDS.items()},
        "parameters": {
            f"{place}.{name}": {"dictionary": words, "probability": 0.5}
            for name, words in AIMED.items()
            for place in ("body", "query", "path")
        },
        "auth": {"openapi": {"bearer": {"bearer": TOKEN}}},
        # The tokens are the tests' own, and a request that cannot be repeated is of no use.
        "output": {"sanitization": {"enabled": False}},
        "checks": {
            # 400 is looked at by `only_known_here`; 404 and 409 are of ids and acts, 422 of what the order means.
            "positive_data_acceptance": {"expected-statuses": ["2xx", "304", "400", "404", "409", "422"]},
            "negative_data_rejection": {"expected-statuses": ["400", "401", "404", "405", "413", "415"]},
        },
        "operations": [
            {**rest, "enabled": False},
            {
                # A broken item is answered inside of a 200: `each_item_by_itself` looks at them.
                "include-operation-id": "orderPayoutBatch",
                "checks": {"negative_data_rejection": {"enabled": False}},
            }
        ],
    })  # fmt: skip
    return schemathesis.openapi.from_dict(document(), config=config)


def only_known_here(context: Any, response: Any, case: Any) -> None:
    """What the document allows is refused as malformed only for what no document can know."""
    if response.status_code != 400 or case.meta is None or case.meta.generation.mode.is_negative:
        return
    problem = response.json()
    pointers = {error["pointer"] for error in problem["errors"]}
    assert pointers, problem
    assert pointers <= ONLY_KNOWN_HERE, problem


def each_item_by_itself(context: Any, response: Any, case: Any) -> None:
    """Of a batch that is taken, exactly the items that the document forbids are refused as malformed."""
    if response.status_code != 200 or not case.path.endswith("/batch") or case.method != "POST":
        return
    for item, result in zip(case.body["payouts"], response.json()["data"], strict=True):
        fits = faults_of(item, {"$ref": "#/components/schemas/BatchItem"}) == []
        if result["status"] == 400:
            at = f"/payouts/{result['index']}"
            pointers = {error["pointer"].removeprefix(at) for error in result["problem"]["errors"]}
            assert not fits or pointers <= ONLY_KNOWN_HERE, (item, result)
        else:
            assert fits, (item, result)


CHECKS = [only_known_here, each_item_by_itself]


@dataclass(frozen=True, slots=True)
class Target:
    """The running API, and what there is to ask for."""

    url: str
    payouts: tuple[str, ...]
    incidents: tuple[str, ...]

    def aim(self, case: Any) -> None:
        """Point a request at something that is there, three times of four, and leave out a cursor that is none."""
        if case.meta is not None and not case.meta.generation.mode.is_negative and len(case.query) % 2:
            case.query.pop("cursor", None)
        real = self.incidents if "/incidents/" in case.path else self.payouts
        made_up = case.path_parameters.get("id")
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # no id: it is to be refused as it is
            number = UUID(made_up).int
            if number % 4:
                case.path_parameters["id"] = real[number % len(real)]


@contextlib.contextmanager
def target(dsn: str) -> Iterator[Target]:
    """The API in a thread of its own, on this database: schemathesis asks and waits."""
    loop = asyncio.new_event_loop()
    found: Future[Target] = Future()
    done = asyncio.Event()

    async def serve() -> None:
        async with api_world(dsn) as world:
            found.set_result(await _filled(world))
            await done.wait()

    with contextlib.closing(loop), ThreadPoolExecutor(1) as pool:
        ended = pool.submit(loop.run_until_complete, serve())
        either: tuple[Future[Any], ...] = (found, ended)
        wait(either, timeout=START_S, return_when=FIRST_COMPLETED)
        try:
            if ended.done():
                ended.result()
            yield found.result(0)
        finally:
            loop.call_soon_threadsafe(done.set)
        ended.result(START_S)  # raises what the watch of the API has found


async def _filled(world: World) -> Target:
    """Payouts in every state that the API alone can bring about, one that was paid, a stranger's transfer."""
    for account in ("default", "other"):
        await world.credit("1" + "0" * 50, account=account)  # nobody gets to its end
    paid = (await world.order()).body
    await pay(world, paid)
    await land(world, tx_id="0xbad", destination=BOB, amount=7, result="orphan", block=91)
    waiting = (await world.order(amount="2")).body["id"]
    equal = (await world.order(amount="2")).body["id"]
    refused = (await world.order(amount="9" + "0" * 60)).body["payout_id"]
    cancelled = (await world.order(amount="3")).body["id"]
    await world.post(f"/payouts/{cancelled}/cancel", {"reason": "test"}, who="operator")
    held = (await world.order(amount="4")).body["id"]
    await world.post(f"/payouts/{held}/hold", {"reason": "test"}, who="operator")
    await world.rows(BALANCES)
    swept = (await world.order(who="admin", kind="sweep", destination=COLD, account=...)).body["id"]
    incidents = (await world.get("/incidents", who="admin")).body["data"]
    assert incidents, "two equal orders open one"
    payouts = (paid["id"], waiting, equal, refused, cancelled, held, swept)
    return Target(world.url, payouts, tuple(one["id"] for one in incidents))
