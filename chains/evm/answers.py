"""What a node's refusal of a send means for the next step.

Pure, over the table in answers_table.py. An unknown text is INVESTIGATE with no row: the
caller counts it, and the operator may add a row. No class lets go of a nonce: REFUSED says
only that this node will never take these bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chains.evm.answers_table import ROWS, Row
from chains.types import AnswerClass

_HASH = re.compile(r"0x[0-9a-f]{64}(?![0-9a-f])")
# Numbers that some texts carry. Digits are bounded, so that no text makes int() work for long.
_N = r"([0-9]{1,40})"
_TIP_LEAST = (
    re.compile(rf"gas tip cap [0-9]+, minimum needed {_N}"),
    re.compile(rf"priority fee below minimum required priority fee {_N}"),
)
_MAX_FEE_LEAST = (
    re.compile(rf"use at least tx\.gasprice = {_N}"),
    re.compile(rf"base ?fee(?: per gas)?: {_N}"),
)
_NEXT_NONCE = (
    re.compile(rf"next nonce {_N}"),
    re.compile(rf"current nonce: {_N}"),
    re.compile(rf"current nonce \({_N}\)"),
    re.compile(rf"\bstate: {_N}"),
    re.compile(rf"allowed nonce range: {_N}"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One classed answer. The numbers are what the node claims: hints, never a decision.

    `row` is None when no row of the table knew the text.
    """

    answer: AnswerClass
    row: Row | None
    tip_least: int | None = None
    max_fee_least: int | None = None
    next_nonce: int | None = None


def classify(
    code: int | None,
    message: str,
    *,
    tx_id: str | None = None,
    replacement: bool = False,
    extra: Sequence[Row] = (),
) -> Answer:
    """The class of an error answer to eth_sendRawTransaction.

    `tx_id` is our hash of the bytes that were sent: then "I have it already" is ACCEPTED, unless the
    text names another hash. Without it that family is INVESTIGATE.
    `replacement` is True when the bytes sent are our newest attempt and not the first: only then can
    "replacement underpriced" mean REPLACE.
    `extra` rows of the operator come before the table's.
    """
    text = message.lower()
    row = next((row for row in (*extra, *ROWS) if _matches(row, code, text)), None)
    return Answer(
        answer=_class_of(row, text, tx_id=tx_id, replacement=replacement),
        row=row,
        tip_least=_first_number(_TIP_LEAST, text),
        max_fee_least=_first_number(_MAX_FEE_LEAST, text),
        next_nonce=_first_number(_NEXT_NONCE, text),
    )


def _matches(row: Row, code: int | None, text: str) -> bool:
    if row.code is not None and row.code != code:
        return False
    if row.pattern.startswith("="):
        return text.strip() == row.pattern[1:]
    return row.pattern in text


def _class_of(row: Row | None, text: str, *, tx_id: str | None, replacement: bool) -> AnswerClass:
    if row is None:
        return AnswerClass.INVESTIGATE
    if row.known and tx_id is not None:
        named = _HASH.findall(text)
        return AnswerClass.ACCEPTED if all(name == tx_id for name in named) else AnswerClass.INVESTIGATE
    if row.bump and replacement:
        return AnswerClass.REPLACE
    return row.answer


def _first_number(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    found = next((match for pattern in patterns if (match := pattern.search(text))), None)
    return int(found[1]) if found else None
