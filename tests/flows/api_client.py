"""The HTTP API as its users see it, with the waiting that tests need."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.http.conformance import check_reply
from tests.waiting import eventually

TOKEN = "a-token-for-the-flow-tests"
PAYEE = "0x" + "b2" * 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def replayed(self) -> bool:
        """Whether an earlier request with this key was answered again."""
        return self.headers.get("Idempotency-Replayed") == "true"


class Api:
    """A client of one daemon, in its `async with`."""

    def __init__(self, port: int, *, token: str = TOKEN) -> None:
        """The daemon's port on the loopback address, and who asks."""
        self.port = port
        self._token = token
        self._root = f"http://127.0.0.1:{port}"

    @property
    def url(self) -> str:
        """Where the daemon listens."""
        return self._root

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, **query: str | int) -> Any:
        """The body of a GET below /api/v1; AssertionError unless 200."""
        async with self._session.get(f"{self._root}/api/v1/{path}", params=query) as response:
            body = await checked(response)
            assert response.status == 200, (response.status, body)
            return body

    async def post(self, path: str, body: Any, *, key: str | None = None) -> Answer:
        """A POST below /api/v1. Text goes as it is."""
        headers = {"Idempotency-Key": key} if key is not None else {}
        raw: dict[str, Any] = {"data": body} if isinstance(body, str) else {"json": body}
        if isinstance(body, str):
            headers["Content-Type"] = "application/json"
        async with self._session.post(f"{self._root}/api/v1/{path}", headers=headers, **raw) as response:
            return Answer(response.status, await checked(response), dict(response.headers))

    async def health(self) -> tuple[int, Any]:
        """Status and body of /health."""
        async with self._session.get(f"{self._root}/health") as response:
            return response.status, await checked(response)

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        async with self._session.get(f"{self._root}/metrics") as response:
            text = await response.text()
        found = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == f"payoutd_{name}"]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found if all(pair in line for pair in wanted))

    # ------------------------------------------------------------------ payouts

    def order(self, *, amount: str = "1.5", destination: str = PAYEE, **more: Any) -> dict[str, Any]:
        """The body of an order."""
        return {"asset": "USDC", "network": "ethereum", "destination": destination, "amount": amount, **more}

    async def submit(self, key: str, **order: Any) -> Any:
        """A new payout; AssertionError unless it was accepted."""
        answer = await self.post("payouts", self.order(**order), key=key)
        assert answer.status == 201, (answer.status, answer.body)
        return answer.body

    async def submit_many(self, count: int, *, prefix: str = "many", first: int = 0, **order: Any) -> list[Any]:
        """`count` payouts in parallel, each to an address of its own, from the `first`-th on."""
        numbers = range(first, first + count)
        orders = [self.submit(f"{prefix}-{number}", destination=address(number), **order) for number in numbers]
        return list(await asyncio.gather(*orders))

    async def credit(self, *, asset: str = "USDC", amount: str = "1000000", account: str = "default") -> None:
        """Funds for an account; once per account and asset."""
        body = {"asset": asset, "amount": amount, "reference": "opening"}
        answer = await self.post(f"accounts/{account}/credits", body, key=f"opening-{account}-{asset}")
        assert answer.status in (200, 201), (answer.status, answer.body)

    async def balance(self, *, asset: str = "USDC", account: str = "default") -> dict[str, str]:
        """What an account has."""
        for row in (await self.get(f"accounts/{account}/balances"))["data"]:
            if row["asset"] == asset:
                return {name: row[name] for name in ("available", "reserved", "settled")}
        raise AssertionError(f"no balance of {asset}")

    async def payout(self, payout_id: str) -> Any:
        """A payout as it is now."""
        return await self.get(f"payouts/{payout_id}")

    async def payouts(self) -> list[Any]:
        """All of them, up to 500."""
        return list((await self.get("payouts", limit=500))["data"])

    async def until(self, payout_id: str, *statuses: str, timeout_s: float = 45.0) -> Any:
        """The payout, once it is in one of these states."""

        async def reached() -> Any:
            shown = await self.payout(payout_id)
            return shown if shown["status"] in statuses else None

        return await eventually(reached, timeout_s=timeout_s, what=f"payout {payout_id} in {statuses}")

    async def until_all(self, ids: Sequence[str], *statuses: str, timeout_s: float = 30.0) -> list[Any]:
        """The payouts, once each is in one of these states."""
        wanted = frozenset(ids)

        async def reached() -> list[Any] | None:
            shown = [one for one in await self.payouts() if one["id"] in wanted]
            done = len(shown) == len(wanted) and all(one["status"] in statuses for one in shown)
            return shown if done else None

        return await eventually(reached, timeout_s=timeout_s, what=f"{len(ids)} payouts in {statuses}")

    async def until_review(self, payout_id: str, reason: str) -> Any:
        """The payout, once it is in review for this reason."""

        async def reached() -> Any:
            shown = await self.payout(payout_id)
            return shown if shown["review"] and shown["review"]["reason"] == reason else None

        return await eventually(reached, what=f"payout {payout_id} in review: {reason}")

    async def sends(self, payout_id: str) -> list[dict[str, Any]]:
        """Every send of every attempt of a payout, with the attempt's hash."""
        attempts = (await self.get(f"payouts/{payout_id}/attempts"))["data"]
        return [{**send, "tx_hash": attempt["tx_hash"]} for attempt in attempts for send in attempt["sends"]]

    # ------------------------------------------------------------------ incidents and wallets

    async def incidents(self, kind: str | None = None) -> list[Any]:
        """Incidents, newest first."""
        found = await self.get("incidents", limit=500, **({"kind": kind} if kind else {}))
        return list(found["data"])

    async def until_incident(self, kind: str, *, count: int = 1, state: str | None = None) -> list[Any]:
        """The incidents of a kind, once there are at least `count` (in this state)."""

        async def reached() -> list[Any] | None:
            found = [one for one in await self.incidents(kind) if state in (None, one["state"])]
            return found if len(found) >= count else None

        return await eventually(reached, what=f"{count} incident(s) {kind}")

    async def wallet(self, name: str) -> Any:
        """A wallet as it is now."""
        return next(one for one in (await self.get("wallets"))["data"] if one["name"] == name)

    async def transfers(self, **filters: str) -> list[Any]:
        """What was seen leaving, newest first."""
        return list((await self.get("transfers", limit=500, **filters))["data"])

    async def until_scanned(self, wallet: str, height: int) -> None:
        """Wait until every block up to `height` is read for a wallet."""

        async def reached() -> bool:
            return int((await self.wallet(wallet))["scanned_to"] or -1) >= height

        await eventually(reached, what=f"{wallet} read up to {height}")


async def checked(response: aiohttp.ClientResponse) -> Any:
    """The body, which is as the OpenAPI document says."""
    raw = await response.read()
    check_reply(response.method, response.url.raw_path, response.status, response.headers, raw)
    return await response.json(content_type=None)


def address(number: int) -> str:
    """The address of the `number`-th payee."""
    return "0x" + f"{0xB0000 + number:040x}"
