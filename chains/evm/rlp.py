"""Recursive length prefix: exactly the part of it that transactions need.

Items are bytes or lists of items. Decoding accepts the canonical form only, so that
`encode(decode(data)) == data` for everything that it accepts.
Source: Ethereum yellow paper, appendix B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from chains.errors import PayloadRefused

Item: TypeAlias = "bytes | Sequence[Item]"
Decoded: TypeAlias = "bytes | list[Decoded]"

DEPTH_MAX = 8  # a transaction with an access list nests three deep


def integer(value: int) -> bytes:
    """A non-negative integer as RLP wants it: big-endian, no leading zero, zero is empty."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def encode(item: Item) -> bytes:
    """The one encoding of `item`."""
    if isinstance(item, bytes):
        if len(item) == 1 and item[0] < 0x80:
            return item
        return _header(len(item), 0x80) + item
    body = b"".join(map(encode, item))
    return _header(len(body), 0xC0) + body


def _header(length: int, offset: int) -> bytes:
    if length < 56:
        return bytes((offset + length,))
    size = integer(length)
    return bytes((offset + 55 + len(size),)) + size


def decode(data: bytes) -> Decoded:
    """The one item in `data`. Raises PayloadRefused for anything left over or not canonical."""
    item, end = _decode_at(data, 0, 0)
    if end != len(data):
        raise PayloadRefused("RLP: bytes after the end")
    return item


def _decode_at(data: bytes, at: int, depth: int) -> tuple[Decoded, int]:
    if at >= len(data) or depth > DEPTH_MAX:
        raise PayloadRefused("RLP: ends too early or nests too deeply")
    first = data[at]
    if first < 0x80:
        return data[at : at + 1], at + 1
    start, end = _span(data, at, first, 0x80 if first < 0xC0 else 0xC0)
    if first < 0xC0:
        body = data[start:end]
        if len(body) == 1 and body[0] < 0x80:
            raise PayloadRefused("RLP: a small byte in a long form")
        return body, end
    items: list[Decoded] = []
    while start < end:
        item, start = _decode_at(data, start, depth + 1)
        items.append(item)
    if start != end:
        raise PayloadRefused("RLP: an item that reaches past its list")
    return items, end


def _span(data: bytes, at: int, first: int, offset: int) -> tuple[int, int]:
    """Where the body of the item at `at` begins and ends."""
    length, start = first - offset, at + 1
    if length > 55:
        start += length - 55
        size = data[at + 1 : start]
        length = int.from_bytes(size, "big")
        if not size or size[0] == 0 or length < 56:
            raise PayloadRefused("RLP: a length in a long form")
    if start + length > len(data):
        raise PayloadRefused("RLP: ends too early")
    return start, start + length
