"""A base image from what this machine has: Python, a shell, the few programs that the Dockerfile runs.

It stands in for the public base, which needs a registry. The steps that are tested are those of the Dockerfile.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

PROGRAMS = ("sh", "install", "sleep", "cat", "id", "ls")
OF_WHEELS = (*("libstdc++.so.6", "libgcc_s.so.1"), *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"))
"""What compiled wheels may expect of a machine (manylinux), in addition to the C library."""
NOT_NEEDED = (
    *("test", "idlelib", "tkinter", "_tkinter*", "turtledemo", "lib2to3"),
    *("*.opt-?.pyc", "site-packages", "dist-packages", "config-*"),
)
"""Bytecode stays, with the times of its sources: the image writes none, so each start would compile the library."""


def write_root(root: Path) -> None:
    """Fill an empty folder with a root file system.

    Raises OSError, CalledProcessError or PackageNotFoundError where something is missing."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    home = root / "usr/local"
    library = home / "lib" / version
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*NOT_NEEDED), symlinks=True)
    _copy_pip(library / "site-packages")
    interpreter = home / "bin" / version
    _copy(Path(sys.executable).resolve(), interpreter)
    (home / "bin/python3").symlink_to(version)
    programs = {name: Path(shutil.which(name) or f"/bin/{name}").resolve() for name in PROGRAMS}
    for name, program in programs.items():
        _copy(program, root / "bin" / name)
    known = _known_libraries()
    libraries = {known[name] for name in OF_WHEELS if name in known}
    for library_path in _needed_by([interpreter, *library.rglob("*.so"), *programs.values(), *libraries]) | libraries:
        _copy(library_path.resolve(), root / str(library_path).lstrip("/"))
    for folder in ("tmp", "proc", "sys", "dev", "etc", "run", "var/tmp"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _copy_pip(site_packages: Path) -> None:
    found = distribution("pip")
    for file in found.files or ():
        if ".." not in file.parts:
            _copy(Path(str(found.locate_file(file))), site_packages / file)


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, target)


def _needed_by(files: Iterable[Path]) -> set[Path]:
    """Shared libraries, and the loader, that any of these is linked to."""
    told = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", told)}


def _known_libraries() -> dict[str, Path]:
    """By name, as the loader finds them."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    told = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    return {name: Path(path) for name, path in re.findall(r"^\s+(\S+) \(.*x86-64.*\) => (\S+)$", told, re.MULTILINE)}
