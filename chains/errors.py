"""What can go wrong while talking to a chain, split by one question: may the request have arrived?

ChainError
├── RpcError                a node did not give a usable result
│   ├── RpcNotSent          the connection could not be made: surely not arrived
│   ├── RpcUnanswered       it may have arrived: time-out, reset, 5xx, not JSON, wrong id
│   └── RpcRefused          the node understood and said no, with a code and a text
├── RailUnavailable         no fresh node can answer now; nothing may be concluded
│   └── FeeCapBlocks        inclusion costs more than the configured cap: nothing is signed at that price
├── WrongChain              a node serves another chain than the configured one
├── AddressMalformed        not an address of this chain: wrong length or alphabet
├── AddressChecksumWrong    an address whose checksum says that it was mistyped
├── PayloadRefused          bytes or a signature that do not say what the order says
├── AnswerMalformed         valid JSON from a node that cannot mean what it should
├── SignerError             a key cannot be read or does not fit its wallet
├── DevnetError             the local development node did not start, or stopped
└── UnknownRail             the configuration names a kind of chain that does not exist
"""

from __future__ import annotations


class ChainError(Exception):
    """Base of everything that `chains` raises."""


class RpcError(ChainError):
    """A node gave no usable result."""

    def __init__(self, node: str, method: str, detail: str) -> None:
        """Keep who was asked what; `detail` carries no URL and no credentials."""
        super().__init__(f"node {node}: {method}: {detail}")
        self.node = node
        self.method = method
        self.detail = detail


class RpcNotSent(RpcError):
    """The connection could not be made, so the request surely did not arrive."""


class RpcUnanswered(RpcError):
    """The request may have arrived; what came back says nothing."""


class RpcRefused(RpcError):
    """The node answered with an error object."""

    def __init__(self, node: str, method: str, code: int | None, message: str, data: object = None) -> None:
        """Keep the node's own code, text and data for `answers.classify`."""
        super().__init__(node, method, f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data


class RailUnavailable(ChainError):
    """No fresh node can answer now. Nothing may be concluded from it."""


class FeeCapBlocks(RailUnavailable):
    """Inclusion costs more than the cap allows, or a node says so: nothing is signed at that price."""

    def __init__(self, needed: int, cap: int) -> None:
        """Both in native base units per unit of gas."""
        super().__init__(f"inclusion needs {needed} wei per gas, the cap is {cap}")
        self.needed = needed
        self.cap = cap


class WrongChain(ChainError):
    """A node serves another chain than the configured one."""


class AddressMalformed(ChainError):
    """The text is no address of this chain: wrong length or alphabet."""


class AddressChecksumWrong(ChainError):
    """The text is an address whose checksum says that it was mistyped."""


class PayloadRefused(ChainError):
    """Bytes or a signature that do not say what the order says."""


class AnswerMalformed(ChainError):
    """A node's answer is valid JSON and cannot mean what it should; treat it as no answer."""


class SignerError(ChainError):
    """A key cannot be read, or does not belong to its wallet."""


class DevnetError(ChainError):
    """The local development node did not start, or stopped by itself."""


class UnknownRail(ChainError):
    """The configuration names a kind of chain that there is no rail for."""
