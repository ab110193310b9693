"""The comparison itself, with kits of one test each in place of a2a-tck, which is on no index."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tools.conformance.__main__ import main

_OPTIONS = """
def pytest_addoption(parser):
    for name in ("--sut-host", "--sut-url", "--transport", "--transports", "--test-scope"):
        parser.addoption(name)
"""
_TEST = """
import httpx

def test_message(request):
    url = request.config.getoption("--sut-host") or request.config.getoption("--sut-url")
    card = httpx.get(url + "/.well-known/agent-card.json", trust_env=False).json()
    listed = [
        (each.get("protocolBinding", each.get("transport")), each["url"])
        for each in card.get("supportedInterfaces", card.get("additionalInterfaces"))
    ]
    assert [binding for binding, _ in listed] == ["JSONRPC", "HTTP+JSON", "GRPC"]
    message = {"messageId": "tck-artifact-text", "role": ROLE, "parts": [{"text": "hi", **KIND}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {"message": message}}
    answer = httpx.post(listed[0][1], json=call, headers={"A2A-Version": "1.0"}, trust_env=False).json()
    task = answer["result"].get("task", answer["result"])
    assert "ompleted" in task["status"]["state"].lower()
    assert len(task["artifacts"]) == 1
"""
_RUNS_ONCE = """
from pathlib import Path

def test_runs():
    Path("ran").touch(exist_ok=False)
"""
_CALLS = {
    "tests/compatibility": 'ROLE, KIND, METHOD = "ROLE_USER", {}, "SendMessage"\n',
    "tests/mandatory": 'ROLE, KIND, METHOD = "user", {"kind": "text"}, "message/send"\n',
}


@pytest.fixture(autouse=True)
def _kits_need_no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """To import those of this environment takes most of a kit's time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _kit(folder: Path, tests: str, test: str) -> Path:
    """A working copy whose tests are in `tests`."""
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    for name in (tests, "tests/optional"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "conftest.py").write_text(_OPTIONS, "utf-8")
    (folder / tests / "test_it.py").write_text(test, "utf-8")
    return folder


@pytest.mark.parametrize("tests", ["tests/compatibility", pytest.param("tests/mandatory", marks=pytest.mark.installs)])
def test_the_agents_pass_directly_and_through_the_proxy(
    tests: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit = _kit(tmp_path, tests, _CALLS[tests] + _TEST)
    assert main([str(kit), "--rounds", "1", "--transports", "jsonrpc"]) == 0
    assert re.fullmatch(  # the proxy reads the card, too
        r"\w+-jsonrpc-direct-0: 1 passed; requests: {'card direct': 1, 'JSONRPC direct': 1}\n"
        r"\w+-jsonrpc-proxied-0: 1 passed; requests: {'card proxied': \d, 'JSONRPC proxied': 1}\n"
        r"  turns: {'JSONRPC': 1}\n",
        capsys.readouterr().out,
    )


def test_a_difference_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit = _kit(tmp_path, "tests/compatibility", _CALLS["tests/compatibility"] + _TEST + _RUNS_ONCE)
    assert main([str(kit), "--rounds", "1", "--transports", "jsonrpc"]) == 1
    said = capsys.readouterr().out
    assert (
        "DIFFERS tests.compatibility.test_it::test_runs\n  direct   passed\n  proxied  failed: FileExistsError" in said
    )
