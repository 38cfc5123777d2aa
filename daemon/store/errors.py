"""What the store raises, and which database constraint means which of our words.

StoreError
├── CommitUnknown      the commit may or may not have happened: act on nothing, read again
├── Unavailable        the database cannot be reached or is read-only now
└── Refused            a rule of the schema said no; `rule` is the constraint's name
"""

from __future__ import annotations

import asyncpg


class StoreError(Exception):
    """Base of everything that the store raises."""


class CommitUnknown(StoreError):
    """The answer to COMMIT was lost, or came with a warning. Nothing may be sent on its account."""


class Unavailable(StoreError):
    """The database cannot be reached, or does not take writes now."""


class Refused(StoreError):
    """A rule of the schema refused the statement; nothing was written."""

    def __init__(self, rule: str, detail: str) -> None:
        """`rule` is the constraint's name, or the SQLSTATE where none is known."""
        super().__init__(f"the database refused: {rule}: {detail}")
        self.rule = rule
        self.detail = detail


RETRIED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)  #: 40P01 and 40001
LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver lost its place: a time-out, or the end, between a statement's messages
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.TooManyConnectionsError,
)  #: the connection is gone or could not be made
BUSY = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.ReadOnlySQLTransactionError)  #: not now


def translated(error: asyncpg.PostgresError) -> StoreError:
    """Our word for a driver error: by constraint name or SQLSTATE, never by text."""
    if isinstance(error, BUSY):
        return Unavailable(str(error))
    return Refused(error.constraint_name or error.sqlstate or "unknown", str(error))
