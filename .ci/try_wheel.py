"""Installs the built wheels in a clean environment, without a checkout, and does what README.md begins with.

    python .ci/try_wheel.py dist --python 3.12 --versions lowest --installer pip
    python .ci/try_wheel.py dist --extras grpc,postgres --folder tried   # which stays
    python .ci/try_wheel.py dist --extension-only        # beside a2a-sdk 0.3

Runs on Linux, macOS and Windows. Standard library only; `--installer uv` needs uv in the interpreter that runs it.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from contextlib import nullcontext
from pathlib import Path

SCRIPTS, EXE = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")

BESIDE = """
from importlib.metadata import version
from a2a_tool_capture import ActivationGate, CapturingExecutor, CapturingRequestHandler, ToolCallRecorder
assert version("a2a-sdk").startswith("0.3"), version("a2a-sdk")
print("beside a2a-sdk", version("a2a-sdk"))
"""


def wheel(dist: Path, package: str) -> Path:
    """The wheel of a package in the folder. Raises ValueError unless there is one."""
    (found,) = dist.glob(f"{package}-*.whl")
    return found.resolve()


def lowest(path: Path, extras: list[str]) -> list[str]:
    """The direct requirements of a wheel, and those of the extras, at exactly their lower bounds."""
    with zipfile.ZipFile(path) as content:
        (name,) = (name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        lines = email.message_from_bytes(content.read(name)).get_all("Requires-Dist", [])
    wanted = [f"extra == '{extra}'" for extra in extras]
    bounds = [
        re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*(?:[^;]*,)?>=\s*([\w.]+)", line)
        for line in lines
        if "extra ==" not in line or any(extra in line for extra in wanted)
    ]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


def install(python: Path, installer: str, folder: Path, *what: str, versions: list[str]) -> None:
    """Install `what`; `versions` constrains it."""
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(versions), "utf-8")
    pip = (
        [sys.executable, "-m", "uv", "pip", "install", "--python", str(python)]
        if installer == "uv"
        else [str(python), "-m", "pip", "install", "--no-compile"]
    )
    subprocess.run([*pip, "--quiet", "--constraint", str(constraints), *what], check=True, cwd=folder)


def use(scripts: Path, folder: Path) -> None:
    """The demo, and the commands that README.md begins with, against the sample agent."""
    program = str(scripts / f"a2a-eval-proxy{EXE}")
    subprocess.run([program, "--version"], check=True, cwd=folder)
    subprocess.run([program, "demo"], check=True, cwd=folder)
    agent = [str(scripts / f"python{EXE}"), "-m", "a2a_eval_proxy.features.demo.agent", "--port", "0"]
    with subprocess.Popen(agent, cwd=folder, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout
            ready = re.search(r"http://\S+", served.stdout.readline())
            assert ready, "the sample agent did not start"
            subprocess.run([program, "init", "--agent", ready[0]], check=True, cwd=folder)
            subprocess.run([program, "run", "suite.yaml"], check=True, cwd=folder)
            assert (folder / "report/report.html").is_file()
        finally:
            served.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="folder with the wheels")
    parser.add_argument("--python", default=sys.executable, help="interpreter to make the environment of")
    parser.add_argument("--versions", choices=("lowest", "newest"), default="newest", help="of the direct requirements")
    parser.add_argument("--installer", choices=("pip", "uv"), default="pip")
    parser.add_argument("--extras", default="", help="of the proxy, separated by commas")
    parser.add_argument("--folder", type=Path, help="of the environment and of what the commands write; default: none")
    parser.add_argument("--extension-only", action="store_true", help="the extension, next to a2a-sdk 0.3")
    options = parser.parse_args()
    extension, proxy = wheel(options.dist, "a2a_tool_capture"), wheel(options.dist, "a2a_eval_proxy")
    kept = nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with kept as name:
        folder = Path(name).resolve()
        without_pip = ["--without-pip"] if options.installer == "uv" else []
        subprocess.run([options.python, "-m", "venv", *without_pip, str(folder / "env")], check=True)
        python = folder / "env" / SCRIPTS / f"python{EXE}"
        if options.extension_only:
            sdk = f"a2a-tool-capture[a2a-sdk] @ {extension.as_uri()}"
            install(python, options.installer, folder, sdk, versions=["a2a-sdk<0.4"])
            subprocess.run([python, "-c", BESIDE], check=True, cwd=folder)
            return
        extras = options.extras.split(",") if options.extras else []
        versions = lowest(proxy, extras) if options.versions == "lowest" else []
        wanted = f"a2a-eval-proxy[{','.join(extras)}] @ {proxy.as_uri()}"
        install(python, options.installer, folder, str(extension), wanted, versions=versions)
        use(python.parent, folder)


if __name__ == "__main__":
    main()
