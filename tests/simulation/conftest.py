"""A database of the simulation's own on the session's server, and silence: a history has a log of its own."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog


@pytest.fixture(scope="module")
def simulation_dsn(databases: Any) -> Iterator[str]:
    """The DSN of a database that histories use one after the other."""
    name = databases.create()
    yield databases.dsn_of(name)
    databases.drop(name)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The daemons' own log lines are not shown: there are thousands, and most of them are meant."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
