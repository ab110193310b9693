"""A2A messages as JSON: what protobuf itself makes of them."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from a2a.types import Message
from a2a_eval_proxy.grpc_relay.messages import METHODS, as_json
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict

TYPES = sorted(
    {kind for method in METHODS.values() for kind in (method.request_type, method.response_type)},
    key=lambda kind: kind.DESCRIPTOR.full_name,
)


def fill(message: Any, rng: random.Random, depth: int) -> None:
    """Set some of its fields, at most `depth` messages deep."""
    for field in message.DESCRIPTOR.fields:
        kind, count = field.message_type, rng.randrange(3)
        if kind is not None and kind.GetOptions().map_entry:
            value_type = kind.fields_by_name["value"].message_type
            for key in ("a", "é", "")[:count]:
                if value_type is None:
                    getattr(message, field.name)[key] = key
                elif depth:
                    fill(getattr(message, field.name)[key], rng, depth - 1)
        elif field.is_repeated:
            values = getattr(message, field.name)
            for _ in range(count):
                if kind is None:
                    values.append(scalar(field, rng))
                elif depth:
                    fill(values.add(), rng, depth - 1)
        elif count and kind is None:
            setattr(message, field.name, scalar(field, rng))
        elif count and depth and kind.full_name == "google.protobuf.Timestamp":
            getattr(message, field.name).FromMilliseconds(rng.randrange(2**40))
        elif count and depth:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), rng, depth - 1)


def scalar(field: FieldDescriptor, rng: random.Random) -> Any:
    if field.enum_type is not None:
        return rng.choice([0, *field.enum_type.values_by_number, *([] if "Null" in field.enum_type.name else [99])])
    if field.type == field.TYPE_BYTES:
        return rng.randbytes(rng.randrange(5))
    if field.type == field.TYPE_STRING:
        return rng.choice(["", "x", "é\0"])
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == field.TYPE_DOUBLE:
        return rng.choice([0.0, 1.0, -2.5, 1e300, 2.0**63])
    return rng.choice([0, 1, 2**31 - 1])


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.DESCRIPTOR.full_name)
def test_json_is_that_of_protobuf(kind):
    for seed in range(100):
        message = kind()
        fill(message, random.Random(seed), 6)
        content, expected = as_json(message), MessageToDict(message)
        assert content == expected
        assert repr(content) == repr(expected), "the order and the types of values, too"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks(number):
    message = Message()
    message.metadata["n"] = number
    assert as_json(message)["metadata"] == {"n": str(number)}, "as over HTTP"


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        ("/lf.a2a.v1.A2AService/GetTask", {"id": "t"}, ("t", False, False, False)),
        ("/a2a.v1.A2AService/GetTask", {"name": "tasks/t"}, ("t", False, True, False)),
        ("/lf.a2a.v1.A2AService/ListTasks", {"includeArtifacts": True}, ("", True, False, False)),
        (
            "/a2a.v1.A2AService/CreateTaskPushNotificationConfig",
            {"parent": "tasks/t/pushNotificationConfigs"},
            ("t", False, True, True),
        ),
    ],
)
def test_what_a_request_names(path: str, fields: dict[str, Any], expected: Any) -> None:
    request = METHODS[path].request(fields)
    assert (request.task_id, request.includes_artifacts, request.legacy, request.has_webhook) == expected
