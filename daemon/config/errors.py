"""What is wrong with a configuration, told so that the reader can mend it.

ConfigError                 the file was read and says something that cannot be run
└── ConfigUnreadable        there is no file, or what is there is no YAML that we accept
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that stops the start. Holds no value that could be a secret."""

    path: str  #: The key's path, such as `chains.ethereum.finality.confirmations`; "" for the file itself.
    found: str
    expected: str
    fix: str = ""

    def __str__(self) -> str:
        """The problem on one line."""
        where = f"{self.path}: " if self.path else ""
        line = f"{where}found {self.found}; expected {self.expected}"
        return f"{line}. {self.fix}" if self.fix else line


class ConfigError(Exception):
    """The configuration cannot be run; `problems` says why, all of them at once."""

    exit_code = 1

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems in the order of the file's sections."""
        assert problems, "a ConfigError without a problem says nothing"
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ConfigUnreadable(ConfigError):
    """There is no configuration file to read at that path, or it is not YAML."""

    exit_code = 2
