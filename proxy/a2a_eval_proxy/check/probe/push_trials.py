"""Sets webhooks at an agent, over each interface, and collects the notifications that they receive."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from ...capture.records import state_of
from ...errors import ListenError
from ...net.http_server import HttpServer
from ...protocol.operations import Operation
from ...protocol.webhook_targets import is_public
from ...settings.parsing import is_loopback
from . import push_requests, requests
from .client import ProbeClient
from .record import (
    CheckWebhook,
    Interface,
    NotChecked,
    NotificationSeen,
    OperationRequest,
    ProbeConversation,
    ProbeExchange,
    ProbeRequest,
    PushSeen,
    PushStep,
    PushTrial,
)
from .responses import first_task_id, is_settled, only_message, payload_of, shows_end, states

MAX_NOTIFICATIONS = 1000
"""Maximum number kept of one webhook ..."""
MAX_BODY_BYTES = 1024 * 1024
"""... each up to this size. Others are answered with 413."""


@dataclass(frozen=True, slots=True)
class PushOptions:
    """How to check push notifications.

    `listen` is the address to receive them on, `url` where the agent reaches it; without a `url` only agents on this
    machine are checked. `wait_s` is the maximum time to wait for a notification after the task's end, `retry_wait_s`
    for one to be repeated.
    """

    listen: str = "127.0.0.1:0"
    url: str | None = None
    wait_s: float = 5.0
    retry_wait_s: float = 5.0


@dataclass(slots=True)
class ListeningWebhook:
    """A webhook and what has arrived there. The first notification is answered with `first_status`."""

    webhook: CheckWebhook
    first_status: int = 200
    arrived: list[NotificationSeen] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, request: ProbeRequest) -> int:
        """Keep a notification; returns the status to answer with."""
        if len(self.arrived) >= MAX_NOTIFICATIONS:
            return 413
        status = 200 if self.arrived else self.first_status
        self.arrived.append(NotificationSeen(request, status))
        self._news.set()
        return status

    async def until(self, enough: Callable[[list[NotificationSeen]], bool], timeout_s: float) -> bool:
        """Wait until the notifications are `enough`; returns whether they are after `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                while not enough(self.arrived):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return enough(self.arrived)
        return True


class WebhookListener:
    """The server of the webhooks. Use as async context manager. Raises ListenError if it cannot listen."""

    def __init__(self, options: PushOptions) -> None:
        self._webhooks: dict[str, ListeningWebhook] = {}
        try:
            self._server = HttpServer(self, options.listen, shutdown_timeout_s=1)
        except ListenError as error:
            raise ListenError(error.errno, f"{error.strerror}; choose another address with --push-listen") from error
        self._url = (options.url or self._server.url).rstrip("/")

    @property
    def is_private(self) -> bool:
        """Whether agents may refuse the address (A2A 1.0, section 13.2)."""
        host = urlsplit(self._url).hostname or ""
        try:
            return not is_public(ip_address(host))
        except ValueError:
            return host == "localhost"

    async def __aenter__(self) -> WebhookListener:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    def new(self, first_status: int = 200) -> ListeningWebhook:
        """A webhook that nothing else has."""
        key = secrets.token_urlsafe(12)
        webhook = CheckWebhook(f"{self._url}/{key}", secrets.token_urlsafe(12), secrets.token_urlsafe(12))
        self._webhooks[key] = ListeningWebhook(webhook, first_status)
        return self._webhooks[key]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more and len(body) <= MAX_BODY_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        listening = self._webhooks.get(scope["path"].rpartition("/")[2])
        status = 404
        if listening is not None:
            headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
            request = ProbeRequest(scope["method"], listening.webhook.url, headers, body)
            status = 413 if len(body) > MAX_BODY_BYTES else listening.take(request)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def is_local(url: str) -> bool:
    """Whether the URL's host is this machine."""
    return is_loopback(f"{urlsplit(url).hostname or ''}:80")


MISSING_S = 2.0
"""Seconds to wait for missing notifications after the one that shows the task's end: they may overtake each other."""
LATE_S = 0.3
"""Seconds to wait for more when none is missing."""
SILENT_WAIT_S = 1.0
"""Maximum time to wait over further interfaces, after one has received no notification at all."""
CLEANUP_S = 10.0
"""Maximum time to delete a webhook, and for an answer that comes after the check was stopped."""
RETRIED_STATUS = 503


async def probe_push(
    client: ProbeClient,
    url: str,
    conversations: Sequence[ProbeConversation],
    options: PushOptions,
    progress: Callable[[str], None],
) -> tuple[list[PushSeen], list[NotChecked]]:
    """Check push notifications over the interfaces of these conversations, with the first message of each.

    Every webhook is deleted at the agent before this returns or raises. Raises ListenError.
    """
    if options.url is None and not is_local(url):
        host = urlsplit(url).hostname
        reason = (
            f"the agent at {host} cannot reach this machine's loopback address: pass --push-listen HOST:PORT, and "
            "--push-url with the URL at which the agent reaches it"
        )
        return [], [NotChecked("push notifications", reason)]
    answered = [each for each in conversations if any(turn.opening.status for turn in each.turns)]
    seen: list[PushSeen] = []
    async with WebhookListener(options) as listener, asyncio.TaskGroup() as group:
        retried: asyncio.Task[PushTrial] | None = None
        interfaces = [conversation.interface for conversation in answered]
        for conversation in answered:
            progress(f"{conversation.interface}: push notifications")
            trials = _PushTrials(client, conversation, interfaces, listener, options)
            if seen and not any(each.inline.notifications for each in seen):
                trials.wait_s = min(SILENT_WAIT_S, options.wait_s)
            seen.append(await trials.all())
            if retried is None and seen[-1].inline.notifications:
                retried = group.create_task(trials.retried())
                at = len(seen) - 1
        if retried is not None:
            progress("push notifications: whether they are repeated")
            trial = await retried
            seen[at] = replace(seen[at], retried=trial)
    return seen, []


class _PushTrials:
    """The messages with webhooks over one interface."""

    def __init__(
        self,
        client: ProbeClient,
        conversation: ProbeConversation,
        interfaces: Sequence[Interface],
        listener: WebhookListener,
        options: PushOptions,
    ) -> None:
        """`interfaces` are all of the agent: servers of 0.3 cannot delete over each."""
        self._others = [each for each in interfaces if each != conversation.interface]
        self.wait_s = options.wait_s
        self._retry_wait_s = options.retry_wait_s
        self._client = client
        self._interface = conversation.interface
        openings = [turn.opening for turn in conversation.turns]
        self._streams = any(each.operation is Operation.STREAM and not each.problem for each in openings)
        self._message = conversation.turns[0].message
        self._listener = listener

    async def all(self) -> PushSeen:
        inline = await self._inline()
        if only_message(inline.opening):
            return PushSeen(self._interface, inline, private=self._listener.is_private)
        created, steps = await self._created()
        return PushSeen(self._interface, inline, created, steps, private=self._listener.is_private)

    async def retried(self) -> PushTrial:
        """A message whose webhook answers the first notification with 503."""
        listening = self._listener.new(RETRIED_STATUS)

        def repeated(arrived: list[NotificationSeen]) -> bool:
            return any(each.request.body == arrived[0].request.body for each in arrived[1:])

        async with self._message_sent(listening, Operation.SEND) as (opening, task_id):
            await self._client.finished(opening, task_id)
            await listening.until(bool, self.wait_s)
            await listening.until(repeated, self._retry_wait_s)
        return PushTrial(listening.webhook, opening, task_id, (), tuple(listening.arrived))

    async def _inline(self) -> PushTrial:
        """A message that sets the webhook itself."""
        listening = self._listener.new()
        operation = Operation.STREAM if self._streams else Operation.SEND
        async with self._message_sent(listening, operation) as (opening, task_id):
            shown = await self._states(opening, task_id)
            if not opening.problem:
                await self._collect(listening, shown)
        return PushTrial(listening.webhook, opening, task_id, shown, tuple(listening.arrived))

    async def _created(self) -> tuple[PushTrial, dict[PushStep, ProbeExchange]]:
        """A message that is answered at once, whose task then gets a webhook."""
        interface, listening = self._interface, self._listener.new()
        request = requests.send(
            interface,
            Operation.SEND,
            self._message,
            uuid.uuid4().hex,
            configuration=requests.at_once(interface),
        )
        opening = await self._client.exchange(request)
        task_id = first_task_id(opening)
        steps: dict[PushStep, ProbeExchange] = {}
        if not task_id:
            return PushTrial(listening.webhook, opening, "", (), ()), steps
        configuration = push_requests.configuration_of(interface, listening.webhook)
        create = push_requests.create(interface, task_id, configuration)
        try:
            steps[PushStep.CREATE] = await self._soon(create)
            was_open = not shows_end(await self._client.exchange(requests.get(interface, task_id)))
            if not steps[PushStep.CREATE].problem:
                config_id = _id_of(steps[PushStep.CREATE], listening) or task_id
                steps[PushStep.GET] = await self._soon(push_requests.get(interface, task_id, config_id))
                steps[PushStep.LIST] = await self._soon(push_requests.list_all(interface, task_id))
            shown = await self._states(opening, task_id)
            if was_open and not steps[PushStep.CREATE].problem:
                await self._collect(listening, shown[-1:])
        finally:
            deletion = await self._deleted(listening, task_id)
        if not steps[PushStep.CREATE].problem:
            steps |= deletion
        trial = PushTrial(listening.webhook, opening, task_id, shown, tuple(listening.arrived), was_open)
        return trial, steps

    @asynccontextmanager
    async def _message_sent(
        self, listening: ListeningWebhook, operation: Operation
    ) -> AsyncIterator[tuple[ProbeExchange, str]]:
        """Send the message with the webhook, which is deleted at the end. Yields the answer and the task's id.

        If the check is stopped meanwhile, waits a while for the answer: only that names the task.
        """
        configuration = push_requests.in_message(self._interface, listening.webhook)
        request = requests.send(
            self._interface, operation, self._message, uuid.uuid4().hex, configuration=configuration
        )
        sending = asyncio.create_task(self._client.exchange(request))
        try:
            opening = await asyncio.shield(sending)
            yield opening, first_task_id(opening)
        finally:
            await asyncio.wait([sending], timeout=CLEANUP_S)
            if not sending.cancel() and (task_id := first_task_id(sending.result())):
                await self._deleted(listening, task_id)

    async def _deleted(self, listening: ListeningWebhook, task_id: str) -> dict[PushStep, ProbeExchange]:
        """Delete the webhook at the agent, and look for it afterwards."""
        interface = self._interface
        listed = await self._soon(push_requests.list_all(interface, task_id))
        config_id = _id_of(listed, listening) or task_id
        deletion = await self._soon(push_requests.delete(interface, task_id, config_id))
        for other in self._others if deletion.problem else ():
            if not (await self._soon(push_requests.delete(other, task_id, config_id))).problem:
                break
        return {
            PushStep.DELETE: deletion,
            PushStep.GET_DELETED: await self._soon(push_requests.get(interface, task_id, config_id)),
            PushStep.LIST_AFTER_DELETE: await self._soon(push_requests.list_all(interface, task_id)),
        }

    async def _soon(self, request: OperationRequest) -> ProbeExchange:
        """The answer to a request about webhooks, also if the check is stopped meanwhile."""
        sending = asyncio.create_task(self._client.exchange(request))
        try:
            done, _ = await asyncio.wait([sending], timeout=CLEANUP_S)
        except asyncio.CancelledError:
            await asyncio.wait([sending], timeout=CLEANUP_S)
            raise
        finally:
            sending.cancel()
        return sending.result() if done else ProbeExchange(request, problem=f"no answer within {CLEANUP_S:g} s")

    async def _states(self, opening: ProbeExchange, task_id: str) -> tuple[str, ...]:
        """The states that the sender is shown up to the end of the task, without repetitions."""
        done = await self._client.finished(opening, task_id) if task_id else opening
        return tuple(dict.fromkeys(states(opening, done)))

    async def _collect(self, listening: ListeningWebhook, wanted: Sequence[str]) -> None:
        """Wait up to `wait_s` seconds for the last of these states, and then a moment for the others.

        The first state may be that of the sender's Task, of which the agent need not notify.
        """

        def ended(arrived: list[NotificationSeen]) -> bool:
            return any(is_settled(event) for event in _events(arrived))

        def complete(arrived: list[NotificationSeen]) -> bool:
            return set(wanted[1:]) <= {state_of(event) for event in _events(arrived)}

        if await listening.until(ended, self.wait_s):
            await listening.until(complete, MISSING_S)
            await asyncio.sleep(LATE_S)


def _events(arrived: Sequence[NotificationSeen]) -> Iterator[dict[str, Any]]:
    return (event for each in arrived if (event := payload_of(each).event) is not None)


def _id_of(exchange: ProbeExchange, listening: ListeningWebhook) -> str:
    """The id of the webhook's configuration in an answer; "" if it is not there."""
    found = push_requests.configurations(exchange)
    return next((config_id for config_id, url in found if url == listening.webhook.url), "")
