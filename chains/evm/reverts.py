"""Why a dry run was refused: the contract's own reason, made fit to be shown. Pure.

The reason is a stranger's text (a contract's, by way of a node): it is cut and stripped of
everything that is not printable, and nothing is ever decided by it.
Source: Solidity ABI, Error(string) and Panic(uint256).
"""

from __future__ import annotations

import re

from chains.errors import RpcRefused
from chains.evm.wire import shown

ERROR_SELECTOR = bytes.fromhex("08c379a0")
PANIC_SELECTOR = bytes.fromhex("4e487b71")
REVERT_CODE = 3  # geth, reth, anvil: "execution reverted" with the return data
NO_REASON = "reverted without a reason"
# A text that says that the *contract* ended the call, whatever the code beside it.
REVERT_TEXTS = (
    "revert",  # geth "execution reverted", Besu "Execution reverted", Nethermind "Reverted 0x…"
    "vm execution error",  # Parity, OpenEthereum, Nethermind (-32015)
    "invalid opcode",  # geth, for the assert() of old Solidity
    "invalidfeopcode",  # anvil 1.7.1 (-32603)
)
_HEX = re.compile(r"0x((?:[0-9a-fA-F]{2})*)", re.ASCII)
_PREFIX = re.compile(
    r"^(?:vm exception while processing transaction: )?(?:execution reverted|revert(?:ed)?)[:, ]*", re.I
)


def reason_of(refused: RpcRefused) -> str | None:
    """Why the contract ended the call, or None when the refusal says something else: that proves nothing."""
    text = refused.message.lower()
    data = _return_data(refused.data)
    if refused.code != REVERT_CODE and not any(known in text for known in REVERT_TEXTS):
        return None
    return _decoded(data) or shown(_PREFIX.sub("", refused.message)).strip() or NO_REASON


def _return_data(found: object) -> bytes:
    """The return data that clients put into an error: hex, hex within a text, or one object deeper."""
    if isinstance(found, dict):
        found = found.get("data") or found.get("result")
    if not isinstance(found, str):
        return b""
    match = _HEX.search(found)
    return bytes.fromhex(match[1]) if match else b""


def _decoded(data: bytes) -> str:
    """The reason in return data, or "" when there is none."""
    selector, body = data[:4], data[4:]
    if selector == ERROR_SELECTOR and len(body) >= 64:
        start = int.from_bytes(body[:32], "big")
        size = int.from_bytes(body[start : start + 32], "big") if start <= len(body) else 0
        return shown(body[start + 32 : start + 32 + size].decode("utf-8", "replace")).strip()
    if selector == PANIC_SELECTOR and len(body) >= 32:
        return f"Panic({hex(int.from_bytes(body[:32], 'big'))})"
    return shown(f"custom error 0x{data.hex()}") if len(data) >= 4 else ""
