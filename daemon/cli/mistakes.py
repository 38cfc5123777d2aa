"""How a command ends when something outside of it is wrong: one line and an exit code, no traceback."""

from __future__ import annotations

FAILED = 1  #: It found something, or could not do it.
MISUSED = 2  #: It was called wrongly.


class CommandFailed(Exception):
    """A command cannot go on; the message is the line that the user reads, and says what to do."""

    def __init__(self, message: str, *, exit_code: int = FAILED) -> None:
        """Keep the line and the code."""
        super().__init__(message)
        self.exit_code = exit_code
