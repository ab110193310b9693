"""What becomes a finding of the turn: a notification that does not arrive, and one that its client will refuse."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.features.push import listener
from a2a_eval_proxy.features.push.targets import WebhookTargets
from proxy.push.conftest import Endpoint, Relay
from proxy.push.test_relay import asking, with_hook
from support.patience import PATIENCE_S

CAUSES = {"push_unsent": 502, "push_not_allowed": 403, "push_timeout": 504, "push_audience": 200}


def update(task_id: str, state: str) -> Any:
    return {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}


@pytest.fixture
def silent() -> Iterator[str]:
    """A webhook that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


async def found(relay: Relay, text: str, code: str) -> list[dict[str, Any]]:
    """The findings of this code in the one turn of this text, once there is one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for turn in await relay.proxy.turns():
                findings = [finding for finding in turn["findings"] if finding["code"] == code]
                if turn["user_text"] == text and findings:
                    return findings
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("code", CAUSES)
async def test_a_notification_that_does_not_arrive_is_a_finding(
    code: str, is_open: bool, relay: Relay, endpoint: Endpoint, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a turn that is open, or that has ended before."""
    if code == "push_timeout":
        monkeypatch.setattr(listener, "TIMEOUT_S", 0.1)
    url = {"push_unsent": "http://127.0.0.1:1/", "push_timeout": silent}.get(code, endpoint.url)
    if is_open:
        text = f"silent {uuid.uuid4()}"
        task_id = (await relay.send(text, with_hook(url)))["result"]["task"]["id"]
        (address,) = relay.addresses()
    else:
        text, task_id, address = await asking(relay, url)
        await relay.turn(text)
    if code == "push_not_allowed":
        monkeypatch.setattr(WebhookTargets, "allows", lambda targets, host, found: False)
    claims = base64.urlsafe_b64encode(json.dumps({"aud": address}).encode()).decode()
    headers = {"authorization": f"Bearer e30.{claims}.x"} if code == "push_audience" else {}
    for state in ("WORKING", "COMPLETED"):
        answer = await relay.notify(address, update(task_id, state), **headers)
        assert answer.status_code == CAUSES[code]
    assert len(await found(relay, text, code)) == 1
    turn = await relay.turn(text)
    more = set() if is_open else {"calls_missed"}  # its task went on without a message
    assert relay.codes(turn) - more == {code}
    assert len(turn["evaluations"]) > 0


@pytest.mark.parametrize("entry", ["follow", "feed", "end", "report"])
async def test_a_notification_that_capture_fails_on_arrives(
    entry: str, relay: Relay, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("a bug")

    text, task_id, address = await asking(relay, endpoint.url)
    await relay.turn(text)
    monkeypatch.setattr(TurnBook, entry, broken)
    for state in ("WORKING", "COMPLETED"):
        answer = await relay.notify(address, {"task": {**update(task_id, state)["statusUpdate"], "id": task_id}})
        assert (answer.status_code, answer.content) == (200, endpoint.says)
    await endpoint.until_ended()
    if entry == "feed":
        assert len(await found(relay, text, "capture_error")) == 1
