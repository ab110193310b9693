"""The table of the rules about push notifications."""

from __future__ import annotations

from functools import partial

from a2a_tool_capture import Severity

from ..probe.record import PushSeen, PushStep
from . import push
from .base import Rule

_CONFIGURE = (
    "Serve the operation for every task of the client. With a2a-sdk, pass a push_config_store to DefaultRequestHandler."
)
_SENDER = "With a2a-sdk, pass a push_sender to DefaultRequestHandler (BasePushNotificationSender)."

_rule = partial(Rule, about="push notifications")

PUSH_RULES: tuple[Rule[PushSeen], ...] = (
    _rule(
        "push-in-message",
        "messages may set a webhook",
        push.set_in_messages,
        "The card offers push notifications, so clients set webhooks in their messages (A2A 1.0, section 3.2.2).",
        f"Accept the configuration, or set capabilities.pushNotifications to false. {_CONFIGURE}",
    ),
    _rule(
        "push-create",
        "webhooks can be created",
        partial(push.step_works, PushStep.CREATE),
        "Clients set a webhook for a task that already works (A2A 1.0, section 3.1.7).",
        _CONFIGURE,
    ),
    _rule(
        "push-get",
        "webhooks can be read",
        partial(push.step_works, PushStep.GET),
        "Get returns the configuration with its URL (A2A 1.0, section 3.1.8).",
        _CONFIGURE,
    ),
    _rule(
        "push-list",
        "webhooks are listed",
        partial(push.step_works, PushStep.LIST),
        "List returns all configurations of the task (A2A 1.0, section 3.1.9).",
        _CONFIGURE,
    ),
    _rule(
        "push-delete",
        "webhooks can be deleted",
        push.deleted,
        "After a deletion nothing is sent to the webhook (A2A 1.0, section 3.1.10).",
        f"Remove the configuration for good. {_CONFIGURE}",
    ),
    _rule(
        "push-delivered",
        "notifications arrive",
        push.arrives,
        "The agent tries at least once to deliver to each webhook (A2A 1.0, section 4.3.3).",
        f"{_SENDER} If the agent cannot reach the address, or refuses private ones, pass --push-listen and --push-url.",
    ),
    _rule(
        "push-authentication",
        "notifications have the credentials",
        push.has_credentials,
        "The header Authorization has scheme and credentials of the configuration (A2A 1.0, section 4.3.3); clients "
        "refuse notifications without it.",
        "Send `Authorization: SCHEME CREDENTIALS` from the configuration's `authentication`. a2a-sdk 1.3 does "
        "this, 1.1 does not.",
    ),
    _rule(
        "push-token",
        "notifications have the token",
        push.has_token,
        "Clients that set `token` look for it in this header, which A2A 0.3 names and A2A 1.0 leaves out.",
        "Send the token of the configuration in the header X-A2A-Notification-Token, also if it has `authentication`.",
        Severity.WARNING,
    ),
    _rule(
        "push-content-type",
        "notifications are JSON",
        push.is_json,
        "A notification is a POST with the content type application/a2a+json (A2A 1.0, section 4.3.3).",
        "Send the event as JSON, with the content type application/a2a+json.",
    ),
    _rule(
        "push-media-type",
        "the media type is that of A2A",
        push.has_media_type,
        "The content type is application/a2a+json (A2A 1.0, section 4.3.3); most clients also accept application/json.",
        "Set the header Content-Type to application/a2a+json. The sender of a2a-sdk does not do this yet.",
        Severity.WARNING,
    ),
    _rule(
        "push-payload",
        "notifications are events",
        push.is_event,
        "The body is a StreamResponse with exactly one of task, message, statusUpdate and artifactUpdate "
        "(A2A 1.0, section 4.3.3); in A2A 0.3 it is a Task.",
        "Send what a stream sends, without JSON-RPC around it.",
    ),
    _rule(
        "push-payload-version",
        "the body has the interface's version",
        push.has_version_of_interface,
        "A client of A2A 0.3 expects a Task; it cannot read a StreamResponse.",
        "Remember the version with which the webhook was set. The senders of a2a-sdk 1.x do not do this.",
        Severity.WARNING,
    ),
    _rule(
        "push-task",
        "notifications name the task",
        push.names_task,
        "Clients ignore notifications of tasks that they did not begin (A2A 1.0, section 4.3.3).",
        "Send the notifications of a task to its own webhooks only.",
    ),
    _rule(
        "push-states",
        "every state arrives",
        push.states_arrive,
        "Clients without a stream know a change of the task only from its notification.",
        f"Send a notification for every statusUpdate. {_SENDER}",
    ),
    _rule(
        "push-order",
        "notifications keep the order",
        push.in_order,
        "A client that gets the end of a task first may ignore what comes later.",
        "Send the notifications of a task one after another: wait for the answer before the next.",
        Severity.WARNING,
    ),
    _rule(
        "push-once",
        "notifications arrive once",
        push.arrives_once,
        "Clients must handle repetitions (A2A 1.0, section 4.3.3), but not all do.",
        "Do not repeat a notification that was answered with HTTP 2xx.",
        Severity.WARNING,
    ),
    _rule(
        "push-retry",
        "failed notifications are repeated",
        push.comes_again,
        "A client that restarts misses what is sent only once (A2A 1.0, section 13.2: agents should retry).",
        "Repeat a notification after HTTP 503, with growing pauses. The senders of the SDKs try once; "
        "`a2a-eval-proxy serve --push-retry` repeats for them.",
        Severity.WARNING,
    ),
    _rule(
        "push-silent",
        "push: nothing unless activated",
        push.has_no_calls,
        "Arguments and results may be confidential: a webhook of another client must not see them.",
        "Omit the metadata key and the URI from notifications to webhooks whose request did not activate the "
        "extension. With a2a-sdk, GatedPushConfigStore and CapturingRequestHandler of a2a_tool_capture do this.",
    ),
)
