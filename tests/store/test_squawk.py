"""The migrations are clean by squawk, with the rules that .squawk.toml leaves out for a reason."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = sorted((ROOT / "daemon" / "store" / "migrations").glob("*.sql"))


def squawk(*files: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.prefix) / "bin" / "squawk"
    return subprocess.run(
        [program, "--config", ROOT / ".squawk.toml", "--reporter", "gcc", *files],
        capture_output=True,
        text=True,
        check=False,
    )


def test_squawk_finds_nothing_in_the_migrations() -> None:
    assert MIGRATIONS

    done = squawk(*MIGRATIONS)

    assert done.returncode == 0, done.stdout + done.stderr


def test_squawk_would_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "0001_bad.sql"
    bad.write_text("ALTER TABLE payouts ADD COLUMN extra text NOT NULL;\n")

    assert squawk(bad).returncode == 1
