"""Rules about push notifications: webhooks can be set and deleted, and receive what the specification says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from a2a_tool_capture.wire import EVENT_KEYS

from ...capture.records import state_of
from ..probe.push_requests import SCHEME, configurations
from ..probe.record import Kind, NotificationSeen, ProbeExchange, PushSeen, PushStep, PushTrial, occurrences_in
from ..probe.responses import Payload, identity, only_message, payload_of, task_id_of
from .base import Problem, Rule, Skipped, Unseen, problem, rules

NOTHING_ARRIVED = "no notification arrived"
TOKEN_HEADER = "x-a2a-notification-token"  # noqa: S105  # a name
MEDIA_TYPE = "application/a2a+json"

_NO_SUCH_ROUTE = (404, 405, 501)
_OTHER_ERRORS = ("not supported", "-32601", "-32603", "-32003", "UNIMPLEMENTED", "INTERNAL", "UNKNOWN")
"""Parts of errors that do not concern the webhook's address."""


def _payloads(seen: PushSeen) -> Iterator[tuple[PushTrial, NotificationSeen, Payload, str]]:
    """Yields every notification, read, with its place. Raises Unseen without any."""
    trials = [trial for trial in (seen.inline, seen.created, seen.retried) if trial is not None]
    for trial in trials:
        for number, notification in enumerate(trial.notifications):
            yield trial, notification, payload_of(notification), f"notification {number + 1}"
    if not any(trial.notifications for trial in trials):
        raise Unseen(NOTHING_ARRIVED)


def _problem(notification: NotificationSeen, message: str, where: str, excerpt: object = None) -> Problem:
    return Problem(message, notification.request, notification.status, where, excerpt)


# ── configurations ──────────────────────────────────────────────────────────────────────────────────────────


def _set_in_messages(seen: PushSeen) -> Iterator[Problem]:
    """A message with a webhook is answered."""
    opening = seen.inline.opening
    if opening.problem:
        _unless_private(seen, opening)
        yield problem(opening, f"no usable answer to a message that sets a webhook: {opening.problem}")


def _unless_private(seen: PushSeen, exchange: ProbeExchange) -> None:
    """Raises Unseen for an error that may be a refusal of the webhook's address."""
    refusal = exchange.problem
    answered = 0 < exchange.status < 500 and exchange.status not in _NO_SUCH_ROUTE
    if seen.private and answered and not any(text in refusal for text in _OTHER_ERRORS):
        raise Unseen(
            f"the agent refused a webhook on this machine or network, as it should (A2A 1.0, section 13.2): {refusal}. "
            "Pass --push-listen and --push-url with an address that it accepts"
        )


def _step_works(step: PushStep, seen: PushSeen) -> Iterator[Problem]:
    """A request about a webhook is answered with its configuration."""
    exchange, url = _step(seen, step)
    if exchange.problem:
        if step is PushStep.CREATE:
            _unless_private(seen, exchange)
        yield problem(exchange, f"{step.value} fails: {exchange.problem}")
    elif not _shows(exchange, url):
        message = f"the answer of {step.value} does not have the webhook {url}"
        yield problem(exchange, message, excerpt=[event.raw for event in exchange.events])


def _step(seen: PushSeen, step: PushStep) -> tuple[ProbeExchange, str]:
    """The request of a step and the URL of the webhook that it is about. Raises Unseen."""
    if step not in seen.steps or seen.created is None:
        raise Unseen("no webhook was created for a task")
    return seen.steps[step], seen.created.webhook.url


def _shows(exchange: ProbeExchange, url: str) -> bool:
    return any(url == found for _, found in configurations(exchange))


def _deleted(seen: PushSeen) -> Iterator[Problem]:
    """After DeleteTaskPushNotificationConfig, the webhook is no longer there."""
    exchange, url = _step(seen, PushStep.DELETE)
    if exchange.problem:
        if exchange.status in _NO_SUCH_ROUTE and seen.interface.legacy:
            raise Unseen("the servers of the SDKs cannot delete webhooks over HTTP+JSON 0.3")
        yield problem(exchange, f"{PushStep.DELETE.value} fails: {exchange.problem}")
        return
    for step in (PushStep.GET_DELETED, PushStep.LIST_AFTER_DELETE):
        later = seen.steps[step]
        if not later.problem and _shows(later, url):
            yield problem(later, f"{step.value} still shows the webhook")


# ── what arrives ─────────────────────────────────────────────────────────────────────────────────────────────


def _arrives(seen: PushSeen) -> Iterator[Problem]:
    """Each webhook receives notifications, whether a message sets it or it is created for a task that still works."""
    inline, created = seen.inline, seen.created
    if only_message(inline.opening) and not inline.notifications:
        raise Unseen("the agent answers with a Message: there is no task to notify of")
    if inline.opening.problem:
        raise Unseen("no webhook was set")
    if not inline.notifications:
        message = f"{NOTHING_ARRIVED} at the webhook that the message sets"
        yield problem(inline.opening, message, "the webhook", inline.webhook.url)
    create = seen.steps.get(PushStep.CREATE)
    if created is None or create is None or create.problem or not created.was_open:
        return
    if created.states and not created.notifications:
        message = f"{NOTHING_ARRIVED} at the webhook that was created while the task was open"
        yield problem(create, message, "the webhook", created.webhook.url)


def _states_arrive(seen: PushSeen) -> Iterator[Problem]:
    """Every state that the sender is shown arrives; the first may be that of the task before any change."""
    for trial in (seen.inline, seen.created):
        if trial is None or not trial.notifications:
            continue
        wanted = trial.states[1:] or trial.states if trial is seen.inline else trial.states[-1:]
        shown = {state_of(event) for each in trial.notifications if (event := payload_of(each).event) is not None}
        missing = [state for state in wanted if state not in shown]
        if missing and (trial is seen.inline or trial.was_open):
            message = f"no notification shows {', '.join(missing)}, although the task was in this state"
            yield problem(trial.opening, message, "its notifications", sorted(filter(None, shown)))
    next(_payloads(seen), None)  # Unseen without notifications


def _in_order(seen: PushSeen) -> Iterator[Problem]:
    """Notifications arrive in the order of the stream of the same message."""
    trial = seen.inline
    next(_payloads(seen), None)
    stream = list(trial.opening.normal_events)
    counts = Counter(map(identity, stream))
    place = {key: number for number, event in enumerate(stream) if counts[key := identity(event)] == 1}
    first: dict[str, int] = {}
    for number, event in enumerate(stream):
        first.setdefault(state_of(event) or "", number)
    latest = -1
    for number, notification in enumerate(trial.notifications):
        shown = payload_of(notification).event
        at = None if shown is None else place.get(identity(shown), first.get(state_of(shown) or " "))
        if at is None:
            continue
        if at < latest:
            where = f"notification {number + 1}"
            yield _problem(notification, "the notification arrives after a later one", where, shown)
        latest = max(at, latest)


def _arrives_once(seen: PushSeen) -> Iterator[Problem]:
    """What was received with 200 does not come again."""
    if seen.interface.legacy:
        raise Skipped("a Task of A2A 0.3 may be the same in two notifications")
    if not seen.inline.notifications:
        raise Unseen(NOTHING_ARRIVED)
    streamed = Counter(map(identity, seen.inline.opening.normal_events))
    times: Counter[str] = Counter()
    for number, notification in enumerate(seen.inline.notifications):
        event = payload_of(notification).event
        if event is None:
            continue
        key = identity(event)
        times[key] += 1
        if times[key] > max(1, streamed[key]):
            message = "the notification comes again, although it was answered with HTTP 200"
            yield _problem(notification, message, f"notification {number + 1}", event)


def _comes_again(seen: PushSeen) -> Iterator[Problem]:
    """A notification that was answered with 503 comes again."""
    if seen.retried is None:
        raise Skipped("tried over another interface")
    arrived = seen.retried.notifications
    if not arrived:
        raise Unseen(NOTHING_ARRIVED)
    if not any(later.request.body == arrived[0].request.body for later in arrived[1:]):
        message = f"the notification that was answered with HTTP {arrived[0].status} did not come again in time"
        yield _problem(arrived[0], message, "notification 1")


# ── each notification ───────────────────────────────────────────────────────────────────────────────────────


def _has_credentials(seen: PushSeen) -> Iterator[Problem]:
    for trial, notification, _, where in _payloads(seen):
        got = notification.header("authorization")
        if got != f"{SCHEME} {trial.webhook.credentials}":
            found = "is missing" if got is None else "does not have the credentials of the configuration"
            yield _problem(notification, f"the header Authorization {found}", where, got)


def _has_token(seen: PushSeen) -> Iterator[Problem]:
    for trial, notification, _, where in _payloads(seen):
        if (got := notification.header(TOKEN_HEADER)) != trial.webhook.token:
            found = "is missing" if got is None else "is not the token of the configuration"
            yield _problem(notification, f"the header X-A2A-Notification-Token {found}", where, got)


def _media_type(notification: NotificationSeen) -> str:
    return (notification.header("content-type") or "").partition(";")[0].strip().lower()


def _is_json(seen: PushSeen) -> Iterator[Problem]:
    for _, notification, _, where in _payloads(seen):
        found = _media_type(notification)
        if notification.request.method != "POST" or found not in (MEDIA_TYPE, "application/json"):
            message = f"the notification is a {notification.request.method} with content type {found!r}"
            yield _problem(notification, f"{message}, expected a POST with {MEDIA_TYPE}", where)


def _has_media_type(seen: PushSeen) -> Iterator[Problem]:
    if seen.interface.legacy:
        raise Skipped("A2A 0.3 does not define the media type")
    for _, notification, _, where in _payloads(seen):
        if _media_type(notification) == "application/json":
            yield _problem(notification, f"the content type is application/json, expected {MEDIA_TYPE}", where)


def _is_event(seen: PushSeen) -> Iterator[Problem]:
    for _, notification, payload, where in _payloads(seen):
        if not (payload.is_current or (seen.interface.legacy and payload.is_legacy)):
            expected = "a Task" if seen.interface.legacy else f"an object with one of {', '.join(EVENT_KEYS)}"
            yield _problem(notification, f"the body is {payload.form}, expected {expected}", where, payload.raw)


def _has_version_of_interface(seen: PushSeen) -> Iterator[Problem]:
    if not seen.interface.legacy:
        raise Skipped("the rule push-payload tests this for A2A 1.0")
    for _, notification, payload, where in _payloads(seen):
        if payload.is_current:
            message = f"the webhook was set over A2A 0.3, but the body is {payload.form}; expected a Task of A2A 0.3"
            yield _problem(notification, message, where, payload.raw)


def _names_task(seen: PushSeen) -> Iterator[Problem]:
    for trial, notification, payload, where in _payloads(seen):
        event = payload.event
        if event is None or "message" in event or not trial.task_id:
            continue
        if (got := task_id_of(event)) != trial.task_id:
            yield _problem(notification, f"the task is {got!r}, expected {trial.task_id!r}", where, payload.raw)


def _has_no_calls(seen: PushSeen) -> Iterator[Problem]:
    for _, notification, payload, where in _payloads(seen):
        found = min(occurrences_in(payload.raw, ""), key=lambda each: each.kind is not Kind.CALLS, default=None)
        if found is not None:
            message = f"{found.kind.value}, although the request that set the webhook activates no extension"
            yield _problem(notification, message, f"{where}, {found.where}", found.value)


PUSH_RULES: tuple[Rule[PushSeen], ...] = rules(
    {
        "push-in-message": _set_in_messages,
        "push-create": partial(_step_works, PushStep.CREATE),
        "push-get": partial(_step_works, PushStep.GET),
        "push-list": partial(_step_works, PushStep.LIST),
        "push-delete": _deleted,
        "push-delivered": _arrives,
        "push-authentication": _has_credentials,
        "push-token": _has_token,
        "push-content-type": _is_json,
        "push-media-type": _has_media_type,
        "push-payload": _is_event,
        "push-payload-version": _has_version_of_interface,
        "push-task": _names_task,
        "push-states": _states_arrive,
        "push-order": _in_order,
        "push-once": _arrives_once,
        "push-retry": _comes_again,
        "push-silent": _has_no_calls,
    }
)
