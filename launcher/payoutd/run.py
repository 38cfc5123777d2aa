"""Start the application with its own folders first on the path.

daemon, detectors and chains are everyday words that other distributions also install
(python-daemon does). In a wheel they lie in payoutd/_app, where nothing overwrites
them; in a checkout they lie at its root.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE / "_app" if (HERE / "_app").is_dir() else HERE.parents[1]


def main() -> int:
    """Entry point of the command `payoutd`; the exit code."""
    sys.path.insert(0, str(HOME))
    from daemon.__main__ import main as run

    return run()
