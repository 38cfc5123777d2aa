"""The wheel can be installed beside distributions that use our everyday names."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ROOT / ".tools" / "beside"  # python-daemon, which scripts/setup --test puts there


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; AssertionError with all of it when it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (built,) = folder.glob("payoutd-*.whl")
    return built


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of a fresh environment, which borrows our dependencies from this one."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    interpreter = tmp_path / "venv" / "bin" / "python"
    site_packages(interpreter).joinpath("borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def site_packages(interpreter: Path) -> Path:
    (found,) = (interpreter.parents[1] / "lib").glob("python*/site-packages")
    return found


def test_the_wheel_puts_one_name_into_site_packages_and_brings_the_sql(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"payoutd"}
    assert any(name.startswith("payoutd/_app/daemon/store/migrations/0001") for name in names)
    assert all(f"payoutd/_app/{folder}/__init__.py" in names for folder in ("chains", "detectors", "daemon"))


@pytest.mark.skipif(not BESIDE.is_dir(), reason="scripts/setup --test fetches python-daemon")
def test_the_wheel_and_python_daemon_both_work_in_one_environment(wheel: Path, python: Path, tmp_path: Path) -> None:
    shutil.copytree(BESIDE, site_packages(python), dirs_exist_ok=True)
    run(python, "-m", "installer", wheel, cwd=tmp_path)  # refuses to overwrite a file

    helped = run(python.parent / "payoutd", "--help", cwd=tmp_path)
    as_module = run(python, "-m", "payoutd", "--help", cwd=tmp_path)
    theirs = run(python, "-c", "import daemon; print(daemon.__file__, daemon.DaemonContext)", cwd=tmp_path)

    assert "payoutd" in helped
    assert "payoutd" in as_module
    assert theirs.startswith(str(site_packages(python) / "daemon"))
