"""Depths count as people say confirmations, and no node's URL is ever shown."""

from __future__ import annotations

import pytest

from chains.settings import ByDepth, NodeSettings


@pytest.mark.parametrize(
    ("confirmations", "head", "height"), [(1, 10, 10), (12, 100, 89), (12, 11, 0), (12, 10, None), (3, 0, None)]
)
def test_a_block_counts_itself_as_its_first_confirmation(confirmations: int, head: int, height: int | None) -> None:
    assert ByDepth(confirmations).height(head) == height


def test_a_node_shows_its_name_and_host_and_never_its_url() -> None:
    node = NodeSettings("n1", "https://user:secret@node.example/v3/apikey", ws="wss://node.example/apikey")

    assert node.host == "node.example"
    assert "secret" not in repr(node)
    assert "apikey" not in repr(node)
