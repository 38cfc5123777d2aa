"""Sentences about the schema: a situation, one statement, and what the database says to it; and the world of `SEED`."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg
import pytest

HOT, SOLANA, WATCHED, SPARE, CUSTODY, NEW = 1, 2, 3, 4, 5, 6  # wallet ids
USDC, ETH, USDC_SOLANA = 1, 2, 3  # asset ids
CHAIN, OTHER_CHAIN = "eip155:1", "solana:x"

IDENTITY = "INSERT INTO deployment (instance, system_identifier, timeline) VALUES ('tests', 1, 1);"
SEED_WITHOUT_IDENTITY = f"""
    INSERT INTO chains (chain_id, genesis) VALUES ('{CHAIN}', '0xgenesis'), ('{OTHER_CHAIN}', 'genesis');
    INSERT INTO units (name, decimals) VALUES ('USDC', 6), ('ETH', 18);
    INSERT INTO assets (chain_id, contract, decimals, unit_id)
    VALUES ('{CHAIN}', '0xusdc', 6, 1), ('{CHAIN}', '', 18, 2), ('{OTHER_CHAIN}', 'mint', 6, 1);
    INSERT INTO wallets (chain_id, address, name, signs, next_nonce)
    VALUES ('{CHAIN}', '0xhot', 'hot', true, 5), ('{OTHER_CHAIN}', 'Sol', 'sol', true, NULL),
           ('{CHAIN}', '0xcold', 'cold', false, NULL), ('{CHAIN}', '0xspare', 'spare', true, 0);
    INSERT INTO wallets (provider, provider_wallet, name, signs) VALUES ('circle', 'w-1', 'custody', true);
    INSERT INTO wallets (chain_id, address, name, signs) VALUES ('{CHAIN}', '0xnew', 'not adopted', true);
    INSERT INTO balances (account, unit_id)
    SELECT account, unit_id FROM unnest('{{ann, bob, house:gas, house:loss, house:suspense}}'::text[]) account, units;
    INSERT INTO ledger_entries (kind, account, unit_id, amount) VALUES ('credit', 'ann', 1, 2000);
"""
SEED = IDENTITY + SEED_WITHOUT_IDENTITY


@dataclass(frozen=True, slots=True)
class Refused:
    """After `given`, `when` is refused under the name `rule`."""

    sentence: str
    rule: str
    given: str
    when: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """After `given`, `when` is accepted; then the query `asks` gives `answer`."""

    sentence: str
    given: str
    when: str
    asks: str = "SELECT true"
    answer: object = True


async def refuses(connection: asyncpg.Connection[asyncpg.Record], case: Refused) -> None:
    """Assert that the database refuses the case under the rule's name, and nothing else."""
    await connection.execute(case.given or "SELECT")

    with pytest.raises(asyncpg.PostgresError) as caught:
        await connection.execute(case.when)

    assert getattr(caught.value, "constraint_name", None) == case.rule, f"refused by another rule: {caught.value}"


async def allows(connection: asyncpg.Connection[asyncpg.Record], case: Allowed) -> None:
    """Assert that the database takes the case, and shows what it should."""
    await connection.execute(case.given or "SELECT")

    await connection.execute(case.when)

    assert await connection.fetchval(case.asks) == case.answer


def steps(*parts: str) -> str:
    """The steps one after the other."""
    return ";\n".join(part.strip().rstrip(";") for part in parts if part.strip()) + ";"


def before_last(script: str) -> tuple[str, str]:
    """The script without its last step, and that step."""
    *first, last = script.rstrip(";").split(";\n")
    return steps(*first), last
