"""Which orders of a round are signed, and that none of the others holds up those behind it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chains.types import NATIVE
from daemon.payouts.gate import Committed, Purse, Wish, choose
from daemon.payouts.policy import Limit, OnExceed, Scope, Spend, Tally, Terms, Used, Window

DOLLAR = "0xusdc"
LIMIT = Limit(
    scope=Scope.ALL,
    unit_id=1,
    asset="USDC",
    decimals=0,
    window_s=60.0,
    amount=100,
    count=None,
    on_exceed=OnExceed.WAIT,
)
BOUND = Window(Scope.ALL, "", 1, 60.0)


def wish(amount: int, *, fee: int = 1, contract: str = DOLLAR, limited: bool = True) -> Wish[str]:
    spend = Spend(unit_id=1, amount=amount, destination="0xd", account="ann", wallet_id=1)
    return Wish(str(amount), contract, amount, fee, spend if limited else None)


def purse(dollars: int = 1000, coins: int = 1000, *, committed: Committed | None = None) -> Purse:
    return Purse({DOLLAR: dollars, NATIVE: coins}, committed or Committed())


def used(amount: int = 0) -> Tally:
    return Tally(Terms((LIMIT,)), {BOUND: Used(amount)})


def test_one_above_a_limit_waits_and_the_ones_behind_it_go() -> None:
    choice = choose([wish(500), wish(10), wish(11)], purse=purse(), tally=used(), room=5)

    assert choice.signed == ["10", "11"]
    assert [(what, over.limit) for what, over in choice.over] == [("500", LIMIT)]


def test_one_above_a_limit_takes_neither_funds_nor_room() -> None:
    choice = choose([wish(200), wish(60)], purse=purse(dollars=210), tally=used(), room=1)

    assert choice.signed == ["60"]


def test_one_that_lacks_funds_uses_no_limit() -> None:
    choice = choose([wish(90, contract="0xother"), wish(80)], purse=purse(), tally=used(), room=5)

    assert (choice.lacking, choice.signed) == (["90"], ["80"])


def test_one_without_room_uses_neither_funds_nor_a_limit() -> None:
    choice = choose([wish(40), wish(41), wish(19)], purse=purse(), tally=used(), room=1)

    assert (choice.signed, choice.crowded, choice.over) == (["40"], ["41", "19"], [])


def test_what_no_limit_is_about_goes_whatever_was_used() -> None:
    choice = choose([wish(70, limited=False), wish(1)], purse=purse(), tally=used(100), room=5)

    assert choice.signed == ["70"]
    assert len(choice.over) == 1


def test_what_is_signed_already_is_kept_for_it() -> None:
    taken = Committed(native=5, by_contract={DOLLAR: 30})
    choice = choose(
        [wish(71, limited=False), wish(70, limited=False)], purse=purse(100, 7, committed=taken), tally=used(), room=9
    )

    assert (choice.lacking, choice.signed) == (["71"], ["70"])


def test_coins_pay_the_fee_and_the_amount() -> None:
    coins = [wish(6, fee=2, contract=NATIVE, limited=False), wish(2, fee=1, contract=NATIVE, limited=False)]

    choice = choose(coins, purse=purse(coins=10), tally=used(), room=9)

    assert (choice.signed, choice.lacking) == (["6"], ["2"])


@given(st.lists(st.tuples(st.integers(1, 90), st.integers(0, 5)), max_size=25), st.integers(1, 200), st.integers(1, 8))
def test_nothing_is_lost_nothing_is_overspent(orders: list[tuple[int, int]], dollars: int, room: int) -> None:
    wishes = [wish(amount, fee=fee) for amount, fee in orders]

    choice = choose(wishes, purse=purse(dollars, 20), tally=used(), room=room)

    ended = [*choice.signed, *(what for what, _ in choice.over), *choice.lacking, *choice.crowded]
    amount = sum(map(int, choice.signed))
    assert sorted(ended) == sorted(one.what for one in wishes)
    assert amount <= min(dollars, 100)
    assert len(choice.signed) <= room
