"""The reference of the configuration is written from the sections, and current."""

from __future__ import annotations

from pathlib import Path

import yaml

from daemon.config.document import document
from daemon.config.fields import Section, extra_of, written_keys
from daemon.config.model import Config
from daemon.config.shape import sections_in

ROOT = Path(__file__).parents[4]


def sections(section: type[Section] = Config) -> set[type[Section]]:
    below = {child for field in section.model_fields.values() for child in sections_in(field.annotation)}
    return {section}.union(*(sections(child) for child in below))


def test_the_page_is_what_the_sections_say() -> None:
    page = (ROOT / "docs/configuration.md").read_text()

    assert page == document(), "run: python -m daemon.config.document > docs/configuration.md"


def test_every_key_stands_in_the_page_with_its_reason() -> None:
    page = document()

    for section in sections():
        for name, field in section.model_fields.items():
            for key in written_keys(name, field):
                assert f"`{key}`" in page
            if not extra_of(field).get("added"):
                assert field.description, f"{section.__name__}.{name}"
                assert field.description.replace("|", "\\|") in page


def test_every_number_has_a_unit() -> None:
    unitless = {"chain_id"}  # an identity, not a quantity

    for section in sections():
        for name, field in section.model_fields.items():
            if field.annotation in (int, float, int | None, float | None) and name not in unitless:
                assert extra_of(field).get("unit"), f"{section.__name__}.{name}"


def test_the_default_file_shows_every_section_and_every_key_of_a_chain_and_a_wallet() -> None:
    text = (ROOT / "config.yaml").read_text()
    written = yaml.safe_load(text)

    left_out = set(Config.keys()) - set(written)
    assert left_out == {"providers", "heartbeat"}, "only what this version cannot do is left out"
    for key in (
        "poll_s",
        "watch_from",
        "max_blind_blocks",
        "max_fee_share_of_payout",
        "max_in_flight",
        "retired",
        "dead",
    ):
        assert f"{key}:" in text
