"""Containers without a daemon and without a registry, in a storage of the test's own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from deployment.base_image import write_root
from support.provision import wheels

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
BASE = "localhost/base:test"
IMAGE = "localhost/a2a-eval-proxy:test"
COMMAND_TIMEOUT_S = 120
BUILD_TIMEOUT_S = 400

STORAGE = """\
[storage]
driver = "{driver}"
runroot = "{folder}/run"
graphroot = "{folder}/graph"
"""
# Nothing is shared with other containers of this machine: no state, no locks.
# Where limits of processes cannot be raised, cgroups are of both versions, and there is no systemd, these are needed.
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "host"
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{folder}/state"
volume_path = "{folder}/volumes"
"""
PIP = """\
[global]
no-index = true
find-links = /wheels
"""


def commands(*begin: str) -> list[list[str]]:
    """The words of those commands of deploy/README.md that begin with these, without them."""
    page = (DEPLOY / "README.md").read_text("utf-8").replace("\\\n", " ")
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)).splitlines()
    read = [shlex.split(line, comments=True) for line in lines]
    return [words[len(begin) :] for words in read if words[: len(begin)] == [*begin]]


class NoContainersError(Exception):
    """Containers cannot run here; the message says why."""


class PodmanError(Exception):
    """A command of podman failed; the message has what it said."""


class Podman:
    """The command `podman` with its images, containers and volumes in one folder."""

    def __init__(self, folder: Path, driver: str) -> None:
        """`driver` is `overlay`, or `vfs`, which works anywhere and copies whole images.

        Raises NoContainersError where a program is not installed."""
        for program in ("podman", "runc", "catatonit"):
            if not shutil.which(program):
                raise NoContainersError(f"{program} is not installed: apt-get install podman runc catatonit")
        storage, containers = folder / "storage.conf", folder / "containers.conf"
        storage.write_text(STORAGE.format(folder=folder, driver=driver))
        containers.write_text(CONTAINERS.format(folder=folder))
        self._folder = folder
        self._environment = os.environ | {
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
            "TMPDIR": str(folder),
        }

    def __call__(self, *arguments: str | Path, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """What `podman ARGUMENTS` prints. Raises PodmanError with what it says where it fails."""
        command = ["podman", "--log-level", "fatal", *map(str, arguments)]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False, timeout=timeout_s
        )
        if done.returncode:
            raise PodmanError(f"podman {arguments[0]}: {(done.stdout + done.stderr).strip()[-2000:]}")
        return done.stdout

    def compose(self, python: Path, files: list[Path], *arguments: str, **variables: str) -> str:
        """What `podman-compose ARGUMENTS` prints. Raises PodmanError with what it says where it fails."""
        given = [part for file in files for part in ("--file", str(file))]
        command = [str(python), "-m", "podman_compose", "--no-ansi", "--in-pod", "false", *given, *arguments]
        environment = self._environment | variables
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S
        )
        if done.returncode:
            raise PodmanError(f"podman-compose: {(done.stdout + done.stderr).strip()[-2000:]}")
        return done.stdout

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """`podman ARGUMENTS` in the background, its output to be read."""
        command = ["podman", "--log-level", "fatal", *map(str, arguments)]
        return subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def make_base(self) -> None:
        """The base image. Raises NoContainersError where it cannot be made, or nothing can run on it."""
        root, archive = self._folder / "root", self._folder / "root.tar"
        try:
            write_root(root)
            with tarfile.open(archive, "w") as packed:
                packed.add(root, "/", filter=_of_root)
            self("import", "--change", "ENV=PATH=/usr/local/bin:/bin", archive, BASE)
            self._probe()
        except (PodmanError, subprocess.TimeoutExpired) as error:
            raise NoContainersError(f"containers cannot run here: {str(error)[-300:]}") from error
        except (OSError, PackageNotFoundError, subprocess.CalledProcessError) as error:
            raise NoContainersError(f"no base image can be made here: {error}") from error
        finally:
            shutil.rmtree(root, ignore_errors=True)
            archive.unlink(missing_ok=True)

    def _probe(self) -> None:
        """Run a container, a step of a build and a Pod. Raises PodmanError where one of them does not work here."""
        self("run", "--rm", BASE, "python3", "-c", "pass")
        folder = self._folder / "probe"
        folder.mkdir()
        (folder / "Dockerfile").write_text(f"FROM {BASE}\nRUN true\n")
        self("build", "--layers=false", "--pull=never", folder)
        waiting = {"name": "waiting", "image": BASE, "imagePullPolicy": "Never", "command": ["sleep", "60"]}
        spec = {"hostNetwork": True, "containers": [waiting]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}
        (folder / "pod.json").write_text(json.dumps(pod))
        self("kube", "play", folder / "pod.json")
        self("pod", "rm", "--force", "--time", "0", "probe")

    def build(self) -> None:
        """The image, by the command of the page on that base, without network."""
        offline = self._folder / "pip.conf"
        offline.write_text(PIP)
        found = wheels(DEPLOY / "requirements.txt", DEPLOY / "build-requirements.txt")
        mounted = ["--volume", f"{found}:/wheels:ro", "--volume", f"{offline}:/etc/pip.conf:ro"]
        options = ["--format", "docker", "--layers=false", "--pull=never", "--build-arg", f"BASE={BASE}", *mounted]
        (words,) = commands("docker", "build")
        shown = [REPOSITORY / word if (REPOSITORY / word).exists() else word for word in words]
        self("build", *options, "--tag", IMAGE, *shown, timeout_s=BUILD_TIMEOUT_S)


def working_podman(folder: Path) -> Podman:
    """Podman with the base image, on the quickest storage that works. Raises NoContainersError."""
    try:
        return _with_base(folder / "overlay", "overlay")
    except NoContainersError:
        return _with_base(folder / "vfs", "vfs")


def _with_base(folder: Path, driver: str) -> Podman:
    folder.mkdir()
    podman = Podman(folder, driver)
    podman.make_base()
    return podman


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    return member
