"""Tokens with bad habits, as hand-assembled runtime code for `anvil_setCode`.

They ignore the selector and read their arguments at offsets 4 and 36, so any call is a
transfer(destination, amount). Each was measured on anvil 1.7.1.
"""

from __future__ import annotations

#: Who the spoofing tokens name as the source of their logs: the first account of anvil.
SPOOFED = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
#: Where the fee token sends its share.
FEE_TAKER = "0x" + "fe" * 20

_LOG = "602435600052600435337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a3"
_RETURN_TRUE = "600160005260206000f3"
_RETURN_FALSE = "600060005260206000f3"
_STOP = "00"

CODE: dict[str, str] = {
    # A transfer with its log and no return data, as old USDT.
    "noreturn": "0x" + _LOG + _STOP,
    # The usual case.
    "true": "0x" + _LOG + _RETURN_TRUE,
    # Nothing happens, and the answer says so.
    "false_nolog": "0x" + _RETURN_FALSE,
    # Nothing happens, and the answer says that it did.
    "silent_true": "0x" + _RETURN_TRUE,
    # The transfer happens, and the answer says that it did not.
    "false_withlog": "0x" + _LOG + _RETURN_FALSE,
    # One per cent goes to FEE_TAKER, in a second log.
    "fee": (
        "0x60646024350460243503600052600435337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
        "60206000a360646024350460005273fefefefefefefefefefefefefefefefefefefefe33"
        "7fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a3600160005260206000f3"
    ),
    # Anybody's call logs a transfer of nothing from SPOOFED.
    "spoof": (
        "0x600060005260043573f39fd6e51aad88f6f4ce6ab8827279cfffb92266"
        "7fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300"
    ),
    # The same with the amount of the call.
    "spoof_nonzero": (
        "0x60243560005260043573f39fd6e51aad88f6f4ce6ab8827279cfffb92266"
        "7fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300"
    ),
    # Three equal logs in one transaction.
    "batch3": "0x" + _LOG * 3 + _STOP,
    # Reverts with "Blacklistable: account is blacklisted".
    "blacklist": (
        "0x7f08c379a0000000000000000000000000000000000000000000000000000000006000527f0000002000000000000000000000000000"
        "0000000000000000000000000000006020527f00000025426c61636b6c69737461626c653a206163636f756e7420697320626c6040527f"
        "61636b6c697374656400000000000000000000000000000000000000000000006060527f00000000000000000000000000000000000000"
        "0000000000000000000000000060805260846000fd"
    ),
    # Not a token but a contract wallet: sends args[1] wei of its own to args[0], without a log.
    "forward_ether": "0x60006000600060006024356004355af100",
}
