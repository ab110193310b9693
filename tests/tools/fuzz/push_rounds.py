"""One push round for real: clients register webhooks through a proxy process, an agent notifies, then the reckoning."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
from a2a_tool_capture import URI
from support.ports import held_ports

from .ledger import Fault, Ledger
from .push_peers import Arrival, Peers
from .push_plan import MAX_BODY_BYTES, NO_ANSWER, STATUS, Notification, PushRound, Webhook
from .rounds import SHORT_TURNS, Result, proxy_process
from .sockets import Line

_PATIENCE_S = 60.0
_ALL_THERE_S = 60.0

Attempt = tuple[Webhook, Notification, int | None]
"""What was sent, and the status with which the proxy itself answered: 0 for the client's answer, None if unread."""


async def run_push_round(plan: PushRound) -> Result:
    """Plays the round."""
    started = time.monotonic()
    ledger = Ledger()
    peers = Peers({one.token: one for one in plan.webhooks})
    with held_ports(1) as (port,):
        async with peers:
            push = ("--push-url", f"http://127.0.0.1:{port}/push", "--push-listen", f"127.0.0.1:{port}")
            options = (
                *SHORT_TURNS,
                "--no-evaluate",
                *push,
                "--push-allow",
                "127.0.0.1",
                "--limits",
                f"body_bytes={MAX_BODY_BYTES}",
            )
            async with proxy_process(ledger, peers.url, *options) as watch:
                game = _Game(plan, peers, ledger, watch.proxy.url)
                await game.play()
                await game.until_all_there()
                game.reckon()
                peers.hang_up()
    ends = Counter(_end(status) for _, _, status in game.attempts)
    scripts = {one.token.encode(): f"{one!r:.3000}" for one in plan.webhooks}
    return Result(ledger.findings, time.monotonic() - started, plan.exchanges, ends, watch.peak, scripts)


class _Game:
    def __init__(self, plan: PushRound, peers: Peers, ledger: Ledger, url: str) -> None:
        self._plan = plan
        self._peers = peers
        self._ledger = ledger
        self._url = url
        self.attempts: list[Attempt] = []

    def _report(self, fault: Fault, message: str, webhook: Webhook) -> None:
        self._ledger.report(fault, message, webhook.token.encode())

    async def play(self) -> None:
        room = asyncio.Semaphore(self._plan.clients)
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(timeout=_PATIENCE_S, trust_env=False, limits=limits) as self._http:
            await asyncio.gather(*(self._use(one, room) for one in self._plan.webhooks))

    async def _use(self, webhook: Webhook, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                await self._register(webhook)
                if webhook.token not in self._peers.addresses:
                    return
                *others, last = webhook.notifications
                if webhook.at_once:
                    await asyncio.gather(*(self._notify(webhook, one) for one in others))
                else:
                    for one in others:
                        await self._notify(webhook, one)
                if webhook.deleted:
                    await self._delete(webhook)
                await self._notify(webhook, last)
            except httpx.HTTPError as error:
                self._report(Fault.HUNG, f"{type(error).__name__}: {error}", webhook)

    # ── what clients and agents do ──────────────────────────────────────────────────────────────────────

    async def _register(self, webhook: Webhook) -> None:
        own = f"{self._peers.url}/hook/{webhook.token}?own=1"
        response = await self._call(webhook, *_registration(webhook, own))
        address = self._peers.addresses.get(webhook.token)
        if address is None or address == own:
            self._report(Fault.LOST, f"it is not relayed: status {response.status_code}, {address}", webhook)
            self._peers.addresses.pop(webhook.token, None)
        elif address in response.text:
            self._report(Fault.CROSSED, "its client sees the proxy's address", webhook)
        elif webhook.answer == "echo" and not webhook.shape.startswith("create") and own not in response.text:
            self._report(Fault.ALTERED, "its client does not see its own URL", webhook)

    async def _delete(self, webhook: Webhook) -> None:
        params = {"taskId": webhook.token, "id": f"config-{webhook.token}"}
        await self._call(webhook, "DeleteTaskPushNotificationConfig", params, "1.0")

    async def _call(self, webhook: Webhook, method: str, params: dict[str, Any], version: str) -> httpx.Response:
        headers = {"a2a-version": version, "content-type": "application/json"}
        if webhook.asked:
            headers |= {"a2a-extensions": URI, "x-a2a-extensions": URI}
        if method.startswith("/"):
            return await self._http.post(f"{self._url}{method}", content=json.dumps(params), headers=headers)
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._http.post(f"{self._url}/rpc", content=json.dumps(request), headers=headers)

    async def _notify(self, webhook: Webhook, one: Notification) -> None:
        address = self._peers.addresses[webhook.token]
        if one.unknown:
            address = address[:-8] + "x" * 8
        for _ in range(one.times):
            self._peers.sent[one.name] = time.monotonic()
            if one.leaves:
                await self._leave(address, one)
                self.attempts.append((webhook, one, None))
                continue
            answer = await self._http.request(one.method, f"{address}?n=1", content=one.body, headers=list(one.headers))
            own = "x-from" not in answer.headers
            if not own and answer.status_code != STATUS.get(webhook.reaction, 200):
                self._report(Fault.ALTERED, f"{one.name}: the agent got {answer.status_code}", webhook)
            if "location" in answer.headers:
                self._report(Fault.ALTERED, f"{one.name}: the agent got a redirect", webhook)
            self.attempts.append((webhook, one, answer.status_code if own else 0))

    async def _leave(self, address: str, one: Notification) -> None:
        url = httpx.URL(address)
        line = await Line.connect(url.port or 0)
        fields = "".join(f"{name}: {value}\r\n" for name, value in (*one.headers, ("content-length", len(one.body))))
        await line.send(f"{one.method} {url.path}?n=1 HTTP/1.1\r\nhost: p\r\n{fields}\r\n".encode() + one.body)
        line.close()

    async def until_all_there(self) -> None:
        """Waits for what agents sent that did not wait for an answer."""
        deadline = time.monotonic() + _ALL_THERE_S
        while any(self._lacks(self._arrived())) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    # ── the reckoning ───────────────────────────────────────────────────────────────────────────────────

    def _arrived(self) -> dict[str, list[Arrival]]:
        found: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in self._peers.arrived:
            found[arrival.headers.get("x-note", "")].append(arrival)
        return found

    def _lacks(self, arrived: dict[str, list[Arrival]]) -> Iterator[tuple[Webhook, Notification, int, int]]:
        """Notifications that arrived less often than they must: how often, and how often they must."""
        least: Counter[str] = Counter()
        for webhook, one, status in self.attempts:
            certain = not one.unknown and not webhook.deleted  # the deletion overtakes what nobody waits for
            must = status in (0, 502) or (status is None and certain and (webhook.asked or not one.may_be_changed))
            least[one.name] += must and len(one.body) <= MAX_BODY_BYTES
            if len(arrived[one.name]) < least[one.name]:
                yield webhook, one, len(arrived[one.name]), least[one.name]

    def reckon(self) -> None:
        arrived = self._arrived()
        known = {one.name: (webhook, one) for webhook in self._plan.webhooks for one in webhook.notifications}
        for webhook, one, count, must in self._lacks(arrived):
            self._report(Fault.LOST, f"{one.name} ({one.kind}) arrived {count} times, not {must}", webhook)
        most = Counter(one.name for _, one, _ in self.attempts)
        for name, arrivals in arrived.items():
            if name not in known:
                self._ledger.report(Fault.CROSSED, f"no agent sent {name!r}")
                continue
            webhook, one = known[name]
            if len(arrivals) > most[name]:
                self._report(Fault.DUPLICATED, f"{name} arrived {len(arrivals)} times, not {most[name]}", webhook)
            for arrival in arrivals:
                self._compare(webhook, one, arrival)
        for token in self._peers.overlapping:
            self._report(Fault.DOUBTFUL, "two notifications at the same time", self._peers.webhooks[token])
        for webhook, one, status in self.attempts:
            if status and status not in _allowed(webhook, one):
                self._report(Fault.ALTERED, f"{one.name} ({one.kind}): the proxy answered {status}", webhook)

    def _compare(self, webhook: Webhook, one: Notification, arrival: Arrival) -> None:
        if arrival.token != webhook.token or one.unknown:
            self._report(Fault.CROSSED, f"{one.name} arrived at {arrival.token}", webhook)
        if _after_end(webhook, one):
            self._report(Fault.CROSSED, f"{one.name} arrived at a webhook that was deleted", webhook)
        if arrival.method != one.method:
            self._report(Fault.ALTERED, f"{one.name} arrived as {arrival.method}", webhook)
        if (webhook.asked or not one.may_be_changed) and arrival.body != one.body:
            self._report(Fault.ALTERED, f"{one.name} ({one.kind}): another body", webhook)
        if not webhook.asked and any(re.search(f"{webhook.secret}|{re.escape(URI)}", text) for text in _read(arrival)):
            self._report(Fault.CROSSED, f"{one.name} ({one.kind}): its client sees tool calls", webhook)


def _read(arrival: Arrival) -> Iterator[str]:
    """The texts that a client may find in a body, and in the header."""
    body = arrival.body
    if "gzip" in arrival.headers.get("content-encoding", ""):
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError):
            pass
    yield str(arrival.headers)
    yield body.decode("utf-8", "replace")
    yield body.decode("utf-16", "replace")
    try:
        yield json.dumps(json.loads(body), ensure_ascii=False)
    except (ValueError, RecursionError):
        pass


def _after_end(webhook: Webhook, one: Notification) -> bool:
    return webhook.deleted and one is webhook.notifications[-1]


def _allowed(webhook: Webhook, one: Notification) -> set[int]:
    """What the proxy itself may answer."""
    if one.unknown or _after_end(webhook, one):
        return {404}
    if len(one.body) > MAX_BODY_BYTES:
        return {413}
    allowed = {502} if webhook.reaction in NO_ANSWER else set()
    if not webhook.asked:
        if one.may_be_changed:
            allowed |= {422, 204}
        if one.times > 1 or one.kind == "final":
            allowed.add(204)
    return allowed


def _registration(webhook: Webhook, own: str) -> tuple[str, dict[str, Any], str]:
    """Method or path, parameters and version."""
    message = {"messageId": webhook.token, "role": "ROLE_USER", "parts": [{"text": f"client-of-{webhook.token}"}]}
    config = {"url": own, "id": f"config-{webhook.token}", "token": "t"}
    match webhook.shape:
        case "create":
            return "CreateTaskPushNotificationConfig", {"taskId": webhook.token, **config}, "1.0"
        case "create-0.3":
            params = {"taskId": webhook.token, "pushNotificationConfig": config}
            return "tasks/pushNotificationConfig/set", params, "0.3"
        case "send-0.3":
            legacy = {**message, "role": "user", "parts": [{"kind": "text", **message["parts"][0]}], "kind": "message"}  # type: ignore[dict-item]
            params = {"message": legacy, "configuration": {"pushNotificationConfig": config}}
            return "message/send", params, "0.3"
        case shape:
            method = {"send": "SendMessage", "stream": "SendStreamingMessage", "rest": "/message:send"}[shape]
            return method, {"message": message, "configuration": {"taskPushNotificationConfig": config}}, "1.0"


def _end(status: int | None) -> str:
    return "left" if status is None else "answered" if status == 0 else f"refused with {status}"
