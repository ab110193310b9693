"""Settings: where they come from, what is accepted, and one sentence about each mistake."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import a2a_eval_proxy
import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.settings import parsing as types
from a2a_eval_proxy.settings.options import environment_name, options_of, read_config_file
from a2a_eval_proxy.settings.options import load as load_options
from a2a_eval_proxy.settings.parsing import Rate, split_address
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.settings.store_url import check_postgres, is_postgres, masked_url
from hypothesis import given
from hypothesis import strategies as st

UPSTREAM = {"upstream": "http://agent:9000"}
FIELDS = {spec.name: spec for spec in dataclasses.fields(Settings)}
PAGE = Path(a2a_eval_proxy.__file__).parents[1] / "docs" / "settings.md"


def load(flags: dict[str, Any] | None = None, env: dict[str, str] | None = None, file: str | None = None) -> Settings:
    return load_options(Settings, {**UPSTREAM, **(flags or {})}, env, file and read_config_file(file, FIELDS))


def problem(flags: dict[str, Any] | None = None, env: dict[str, str] | None = None, file: str | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        load(flags, env, file)
    return str(raised.value)


@pytest.fixture
def config_file(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> str:
        path = tmp_path / "proxy.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


# ── where a setting comes from ──────────────────────────────────────────────────────────────────────────────


def test_parts_of_an_object_are_set_one_by_one(config_file: Any) -> None:
    file = config_file("timeouts: {connect: 1, response: 1, client-send: 1}")
    env = {"A2A_EVAL_PROXY_TIMEOUTS": "response=2,client_send=2"}
    timeouts = load({"timeouts": ("client_send=3", "drain=3,shutdown=3")}, env, file).timeouts
    assert (timeouts.connect, timeouts.response, timeouts.client_send) == (1, 2, 3)
    assert (timeouts.drain, timeouts.shutdown, timeouts.client_body) == (3, 3, 60)


def test_one_set_of_settings_however_given(config_file: Any) -> None:
    values = {
        "negotiate": "always",
        "limits": "agent_connections=7",
        "judge_budget": "5/h",
        "evaluate": "no",
        "run": "r",
    }
    by_flag = load({**values, "evaluate": False})
    by_env = load(env={environment_name(name): value for name, value in values.items()})
    by_file = load(file=config_file("\n".join(f"{name}: {value}" for name, value in values.items())))
    assert by_flag == by_env == by_file


# ── mistakes ────────────────────────────────────────────────────────────────────────────────────────────────

MISTAKES = [
    ("upstream", "agent", "expected a URL such as"),
    ("upstream", "localhost:99999", "expected a URL such as"),
    ("upstream", "user@localhost:9000", "expected a URL such as"),
    ("upstream", "ftp://agent", "expected a URL such as"),
    ("upstream", "http://agent:99999", "expected a URL such as"),
    ("upstream", "http://agent:0", "expected a URL such as"),
    ("upstream", "http://[::1", "expected a URL such as"),
    ("otlp_forward", f"http://{'a' * 64}.example:4318", "expected a URL such as"),
    ("upstream", "http://agent/?tenant=1", "without query"),
    ("upstream", "http://agent/?", "without query"),
    ("upstream", "http://agent/#x", "without query"),
    ("upstream", "http://agent/a b", "without query"),
    ("upstream", " ", "expected a non-empty string"),
    ("public_url", "proxy.example.com", "expected a URL such as"),
    ("listen", "8080", "expected HOST:PORT"),
    ("listen", ":8080", "expected HOST:PORT"),
    ("listen", "127.0.0.1:", "expected HOST:PORT"),
    ("listen", "127.0.0.1:70000", "expected HOST:PORT"),
    ("listen", "127.0.0.1:²", "expected HOST:PORT"),
    ("otlp", "4318", "expected HOST:PORT"),
    ("card_path", "card.json", "begins with /"),
    ("dialects", "latin", "expected one or more of adk, kagent, traceability, separated by commas"),
    ("dialects", "adk,", "expected one or more of adk, kagent, traceability"),
    ("negotiate", "sometimes", "expected one of declared, always, never"),
    ("log_level", "loud", "expected one of debug, info, warning, error"),
    ("run", "", "expected a non-empty string"),
    ("turn_timeout", "0", "positive number of seconds"),
    ("turn_timeout", "-1", "positive number of seconds"),
    ("turn_timeout", "nan", "positive number of seconds"),
    ("timeouts", "connect=inf", "connect: expected a positive number of seconds"),
    ("timeouts", "response=soon", "response: expected a positive number of seconds"),
    ("timeouts", "conect=5", "unknown name 'conect' (did you mean connect?)"),
    ("limits", "agent_connections=0", "agent_connections: expected a positive whole number"),
    ("limits", "agent_connections=1.5", "agent_connections: expected a positive whole number"),
    ("limits", "body_bytes=8MB", "body_bytes: expected a positive whole number"),
    ("limits", "1000", "expected NAME=VALUE,NAME=VALUE"),
    ("evaluate", "perhaps", "expected true or false"),
]


@pytest.mark.parametrize(("name", "value", "expected"), MISTAKES)
def test_a_mistake_is_one_sentence_that_names_what_was_wrong(
    config_file: Any, name: str, value: str, expected: str
) -> None:
    flag = problem({name: value})
    assert flag.startswith(f"--{name.replace('_', '-')}: ")
    variable = problem({name: None}, env={environment_name(name): value})
    assert variable.startswith(f"A2A_EVAL_PROXY_{name.upper()}: ")
    file = config_file(f'{name}: "{value}"')
    line = problem({name: None}, file=file)
    assert line.startswith(f"{file}:1: {name}: ")
    for message in (flag, variable, line):
        assert expected in message
        assert f", got {value!r}" in message
        assert "\n" not in message


@pytest.mark.parametrize("name", ["upstream", "public_url", "otlp_forward"])
def test_a_password_in_a_url_is_refused_and_not_repeated(name: str) -> None:
    """It would be in every turn, in the log and in errors that clients see."""
    message = problem({name: "http://user:secret@agent:9999"})
    assert message.endswith(
        "expected a URL without user name and password (send these in a header), got 'http://user:***@agent:9999'"
    )


OWN: dict[str, Any] = {
    "card_path": "/card", "negotiate": "never", "require_artifact_uri": False, "public_url": "https://a.example",
    "run": "r", "turn_timeout": 5.0, "expect_traces": True, "trace_wait": 1.0, "no_content": True, "suite": "s.yaml",
    "timeouts": {"connect": 1.0, "response": 2.0}, "limits": {"body_bytes": 3, "agent_connections": 4},
    "upstream_tls": {"cert": "c", "key": "k", "key_password": "p", "ca": "a"}, "upstream": "https://a",
    "upstream_header": (("x", "y"),), "dialects": ("adk",), "redact_key": "r", "redact": (), "judge_budget": None,
}  # fmt: skip


def test_settings_that_an_agent_has_of_its_own() -> None:
    given = OWN | {"dialects": "adk", "upstream_header": "x: y", "redact": None}
    agents = load({"upstream": None, "agents": {"a": given, "b": "http://b"}, "public_url": "https://p"}).each_agent
    found = dataclasses.asdict(agents["a"].settings)
    for name, own in OWN.items():
        assert found[name] == ({**found[name], **own} if isinstance(own, dict) else own)
    assert agents["b"].settings.public_url == "https://p/agents/b"


@pytest.mark.parametrize(
    ("agents", "others", "said"),
    [
        ({"orders": {}}, {}, "agents.orders.upstream is required"),
        ({"orders": {"upstream": "x y"}}, {}, "agents.orders.upstream: expected a URL"),
        (
            {"orders": {"upstream": "http://a", "listen": "127.0.0.1:1"}},
            {},
            "orders.listen: is a setting of the proxy",
        ),
        ({"orders": {"upstream": "http://a", "suit": "x"}}, {}, "agents.orders.suit: unknown setting 'suit' (did you"),
        (
            {"orders": {"upstream": "http://a", "upstream_tls": {"ca": "x"}}},
            {},
            "agents.orders.upstream_tls: requires an agent",
        ),
        ("a=http://a,a=http://b", {}, "agents: expected NAME=URL,NAME=URL"),
        ({"a": 3}, {}, "expected settings such as 'upstream: URL' for a"),
        ({"or/ders": "http://a"}, {}, "is no name of an agent: expected at most 63"),
        (
            {"a": {"upstream": "http://a", "hosts": "x"}, "b": {"upstream": "http://b", "hosts": "X"}},
            {},
            "b.hosts: x is",
        ),
        ({"orders": {"upstream": "http://a", "hosts": "a.test:80"}}, {}, "orders.hosts: expected host names such as"),
        ({"orders": "http://a"}, {"upstream": "http://b"}, "upstream: is the only agent"),
        (
            {"orders": "http://localhost:8080/agents/orders"},
            {"listen": "127.0.0.1:8080"},
            "agents.orders.upstream: http://localhost:8080/agents/orders is where this proxy listens",
        ),
    ],
)
def test_a_mistake_names_the_agent_and_the_setting(agents: Any, others: dict[str, Any], said: str) -> None:
    assert said in problem({"upstream": None, "agents": agents, **others})


@given(st.sampled_from(sorted(FIELDS)), st.text() | st.integers() | st.floats() | st.booleans() | st.lists(st.none()))
def test_any_value_is_accepted_or_explained(name: str, value: Any) -> None:
    try:
        load({name: value})
    except ConfigError as error:
        assert "\n" not in str(error) or "\\n" in repr(value)  # noqa: PT017


# ── who may see what ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("admin", ["0.0.0.0:8081", "192.168.1.5:8081", "[::]:8081", "proxy.example.com:8081"])
def test_an_admin_port_that_others_can_reach_needs_a_token(admin: str) -> None:
    message = problem({"admin": admin})
    assert admin in message
    assert "--admin-token" in message
    assert load({"admin": admin, "admin_token": "s3cret-s3cret-s3cret"}).admin == admin


PAIR = {"cert": "c", "key": "k", "key_password": "s3cret"}


@pytest.mark.parametrize(
    ("given", "masked"),
    [
        ({"admin_token": "s3cret-s3cret-s3cret"}, "admin_token=***"),
        ({"admin_token": "0123456789abcdef", "metrics_token": "s3cret-s3cret-s3cret"}, "metrics_token=***"),
        ({"redact_key": "s3cret"}, "redact_key=***"),
        ({"upstream_header": "authorization: s3cret"}, "upstream_header=***"),
        ({"upstream": "https://a", "upstream_tls": PAIR}, "upstream_tls=***"),
        ({"upstream": None, "agents": {"a": {"upstream": "http://a", "redact_key": "s3cret"}}}, "agents=***"),
        ({"otlp_forward_headers": "x-api-key=s3cret"}, "otlp_forward_headers=***"),
        ({f"tls_{name}": text for name, text in PAIR.items()}, "tls_key_password=***"),
        ({"tls_ports": {"admin": PAIR}}, "***"),
        ({"store": "postgresql://me:s3cret@host/db"}, "postgresql://me:***@host/db"),
    ],
)
def test_secrets_are_masked(given: dict[str, Any], masked: str) -> None:
    shown = repr(load(given))
    assert "s3cret" not in shown
    assert masked in shown


def test_secrets_are_masked_in_complaints(config_file: Any) -> None:
    assert problem(file=config_file("admin_token: [s3cret]")).endswith("got ***")


@pytest.mark.parametrize("name", ["redact_key", "otlp_forward_headers", "upstream_header", "admin_token"])
def test_a_variable_that_is_not_set_is_named_with_its_place(config_file: Any, name: str) -> None:
    file = config_file(f"{name}: 'x: x=${{NEVER_SET}}'")
    assert problem(file=file).startswith(f"{file}:1: {name}: needs the environment variable NEVER_SET")


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


READ: list[tuple[str, Any, Any]] = [
    ("URL", "http://agent:9000/", "http://agent:9000"),
    ("URL", " https://a/b// ", "https://a/b"),
    ("URL", "http://[::1]:1", "http://[::1]:1"),
    ("UPSTREAM", "localhost:9999", "http://localhost:9999"),
    ("UPSTREAM", "127.0.0.1:9999/", "http://127.0.0.1:9999"),
    ("UPSTREAM", "[::1]:9999", "http://[::1]:9999"),
    ("UPSTREAM", "agent:9999/a2a", "http://agent:9999/a2a"),
    ("UPSTREAM", "agent.example.com", "http://agent.example.com"),
    ("UPSTREAM", "http://agent:9/.well-known/agent-card.json", "http://agent:9"),
    ("UPSTREAM", "agent:9/x/.well-known/agent.json", "http://agent:9/x"),
    ("UPSTREAM", "https://agent", "https://agent"),
    ("UPSTREAM", "grpc://agent:50051", "grpc://agent:50051"),
    ("UPSTREAM", "GRPCS://agent:443/", "grpcs://agent:443"),
    ("AGENT", "agent:9999", "http://agent:9999"),
    ("AGENT", "grpc://agent:50051", "grpc://agent:50051"),
    ("AGENT", "python:orders:agent?x", "python:orders:agent?x"),
    ("AGENT", "openai:http://llm/v1/?model=small", "openai:http://llm/v1?model=small"),
    ("TRACE_URL", "http://jaeger:16686/trace/{trace_id}", "http://jaeger:16686/trace/{trace_id}"),
    ("TRACE_URL", "https://x/explore?id={trace_id}#{trace_id}", "https://x/explore?id={trace_id}#{trace_id}"),
    ("ADDRESS", "agent:65535", "agent:65535"),
    ("ADDRESS_OR_OFF", "127.0.0.1:0", "127.0.0.1:0"),
    ("ADDRESS_OR_OFF", False, None),
    ("ADDRESS_OR_OFF", "off", None),
    ("SECONDS", "0.5", 0.5),
    ("SECONDS_OR_0", 0, 0.0),
    ("SECONDS_FROM_1", 1, 1.0),
    ("SHARE", "0", 0.0),
    ("SHARE", 1, 1.0),
    ("SHARE", " 5% ", 0.05),
    ("DAYS", 0.5, 0.5),
    ("DAYS", "36500", 36_500.0),
    ("WHOLE_NUMBER", "-3", -3),
    ("COUNT", 1, 1),
    ("PORT", 0, 0),
    ("PORT", "65535", 65_535),
    ("UP_TO_1000", 1, 1),
    ("UP_TO_1000", 1000, 1000),
    ("RATE", " 20/min", Rate(20, 60.0, "20/min")),
    ("RATE", "999999999/d", Rate(999_999_999, 86_400.0, "999999999/d")),
    ("DIALECT_NAMES", "kagent, adk,adk", ("kagent", "adk")),
    ("NAMES", "a, b,a", ("a", "b")),
    ("NAMES", [" a", "b"], ("a", "b")),
    ("TEXTS", "a\nb", ("a", "b")),
    ("TEXTS", ["a", "b"], ("a", "b")),
    ("HEADER_PAIRS", "x=a%20b, y = c", (("x", "a b"), ("y", "c"))),
    ("HEADER_PAIRS", {"x": "a%20b"}, (("x", "a%20b"),)),
    ("UPSTREAM_HEADERS", "x: a:b\ny:c", (("x", "a:b"), ("y", "c"))),
    ("UPSTREAM_HEADERS", ("x: a",), (("x", "a"),)),
    ("UPSTREAM_HEADERS", {"x": "a"}, (("x", "a"),)),
    ("AGENTS", "a=http://a", (("a", {"upstream": "http://a"}),)),
    ("AGENTS", {"a": {"card-path": "/c"}}, (("a", {"card_path": "/c"}),)),
    ("SWITCH", "Yes", True),
    ("SWITCH", False, False),
]
REFUSED: list[tuple[str, Any]] = [
    *(("UPSTREAM", f"grpc://{rest}") for rest in ("agent", "agent:0", "agent:1/path", "u@agent:1", "agent:x", "")),
    ("UPSTREAM", __file__),
    ("AGENT", "openai:llm"),
    ("AGENT", ""),
    ("TRACE_URL", "jaeger:16686/trace/{trace_id}"),
    ("TRACE_URL", "javascript:alert({trace_id})"),
    ("TRACE_URL", "http://jaeger/trace/"),
    ("TRACE_URL", "http://{trace_id}/"),
    ("TRACE_URL", "http://ada:secret@jaeger/{trace_id}"),
    ("TRACE_URL", "http://jaeger/ {trace_id}"),
    ("TRACE_URL", "http://jaeger]/{trace_id}"),
    ("ADDRESS", "agent:65536"),
    ("SECONDS", True),
    ("SECONDS", 1e7),
    ("SECONDS_OR_0", -0.1),
    ("SECONDS_FROM_1", 0.9),
    *(("SHARE", given) for given in (-0.1, 1.1, "101%", "half")),
    *(("DAYS", given) for given in (0, 36_500.5)),
    *(("WHOLE_NUMBER", given) for given in (1.5, None)),
    *(("COUNT", given) for given in (0, "1.0", True)),
    *(("PORT", given) for given in (-1, 65_536)),
    *(("UP_TO_1000", given) for given in (0, 1001)),
    *(("RATE", given) for given in ("20", "20/s", "/h", "x/h", "²/h", "1000000000/h", 20)),
    *(("DIALECT_NAMES", given) for given in ("", 3)),
    *(("NAMES", given) for given in ("a,,b", ["a", ""], [1], 3)),
    *(("TEXTS", given) for given in ("", [], [1], 3)),
    *(("AGENTS", given) for given in ({}, [], {"a": {1: "x"}}, {"a" * 64: "http://a"}, {1: "http://a"})),
    *(("SWITCH", given) for given in (1, "")),
]


@pytest.mark.parametrize(("kind", "given", "read"), READ)
def test_what_is_read(kind: str, given: Any, read: Any) -> None:
    assert getattr(types, kind).parse(given) == read


@pytest.mark.parametrize(("kind", "given"), REFUSED)
def test_what_is_refused(kind: str, given: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        getattr(types, kind).parse(given)


def test_where_output_may_go(tmp_path: Path) -> None:
    """It is said at once, before a run takes its time."""
    file, deep = tmp_path / "report", tmp_path / "new" / "folder"
    file.touch()
    assert types.OUTPUT_DIRECTORY.parse(str(deep)) == deep
    assert [types.OUTPUT_FILE.parse(str(one)) for one in (file, tmp_path / "new")] == [file, tmp_path / "new"]
    for kind, wrong in (
        (types.OUTPUT_DIRECTORY, file),
        (types.OUTPUT_DIRECTORY, file / "below"),
        (types.OUTPUT_FILE, tmp_path),
        (types.OUTPUT_FILE, deep),
    ):
        with pytest.raises(ValueError, match=r"file|directory"):
            kind.parse(str(wrong))


@pytest.mark.parametrize(
    ("address", "parts"), [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("::1:80", ("::1", 80))]
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({}, "upstream_is_secure", False),
        ({"upstream": "https://a"}, "upstream_is_secure", True),
        ({"upstream": "grpcs://a:1", "grpc": "127.0.0.1:0"}, "grpc_upstream", "a:1"),
        ({}, "grpc_upstream", None),
        ({}, "adds_credentials", False),
        ({"upstream_header": "x: y"}, "adds_credentials", True),
        ({"upstream": "https://a", "upstream_tls": "cert=c,key=k"}, "adds_credentials", True),
        ({}, "names_turns", False),
        ({"store": "postgresql://host/db"}, "names_turns", True),
        ({}, "no_content", False),
        ({}, "require_artifact_uri", True),
        ({}, "expect_traces", False),
        ({}, "evaluate", True),
    ],
)
def test_what_follows_from_settings(given: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(load(given), name) == value


def test_what_is_removed_from_turns() -> None:
    given: list[dict[str, Any]] = [{}, {"redact": "email"}, {"redact_key": "k"}, {"no_content": True}]
    assert len({load(one).privacy_key for one in given * 2}) == len(given)
    assert [load(one).privacy().keeps_content for one in given] == [True, True, True, False]
    assert not load().privacy(no_content=True).keeps_content


@pytest.mark.parametrize("settings", [{}, {"card_path": "/card"}])
def test_requests_for_a_card(settings: dict[str, str]) -> None:
    """Well-known paths are for cards wherever they are: an upstream may serve several agents."""
    is_card, paths = load(settings).is_card_path, load(settings).card_paths
    assert paths == (("/card",) if settings else ("/.well-known/agent-card.json", "/.well-known/agent.json"))
    assert is_card("/.well-known/agent-card.json")
    assert is_card("/agents/orders/.well-known/agent.json")
    assert not is_card("/.well-known/agent-card.json/more")
    assert is_card("/card") is bool(settings)


ADMIN_TOKEN, HTTPS = {"admin_token": "0123456789abcdef"}, {"upstream": "https://agent"}
TOGETHER: list[tuple[dict[str, Any], str]] = [
    ({"listen": "127.0.0.1:8081"}, "admin: 127.0.0.1:8081 is already the address of listen; choose another"),
    ({"otlp_grpc": "127.0.0.1:4318"}, "otlp_grpc"),
    ({"metrics_token": "0123456789abcdef"}, "metrics_token: without admin_token"),
    ({**ADMIN_TOKEN, "metrics_token": "0123456789abcdef"}, "metrics_token: is the admin_token"),
    ({"tls_ports": {"admin": {"cert": "c"}}}, "tls_ports.admin.cert: requires tls_ports.admin.key"),
    ({"tls_ports": {"otlp": {"key": "c"}}}, "--tls-ports: otlp: expected off, a PEM file"),
    ({"otlp": "off", "tls_ports": "otlp=c"}, "tls_ports.otlp: there is no such port"),
    (
        {"otlp_grpc": "0.0.0.0:4317", "otlp_forward": "http://localhost:4317"},
        "otlp_forward: http://localhost:4317 is where this proxy receives traces",
    ),
    ({"otlp": "off", "otlp_forward": "http://collector:4318"}, "otlp_forward: nothing is received"),
    ({"push": "relay"}, "push: relay requires push_url"),
    ({"push_listen": "0.0.0.0:8083"}, "push_listen: nothing is received on 0.0.0.0:8083 without push_url"),
    ({"push_url": "http://proxy:8083", "listen": "127.0.0.1:8083"}, "push_listen: 127.0.0.1:8083 is already"),
    (
        {"push_url": "http://proxy:8083", "tls_ports": "push=c.pem"},
        "tls_ports.push: requires a push_url that begins with https://, got http://proxy:8083",
    ),
    ({"tls_ports": "push=c.pem"}, "tls_ports.push"),
    ({"push_allow": "10.0.0.1/8"}, "10.0.0.1/8 has host bits set"),
    ({"push_allow": "http://client"}, "http://client: expected public, a host name"),
    ({"tls_cert": "a"}, "tls_cert: requires tls_key"),
    ({"tls_key": "a"}, "tls_key: requires tls_cert"),
    ({"tls_client_ca": "a"}, "tls_client_ca: clients present certificates over HTTPS only"),
    ({**HTTPS, "upstream_tls": "cert=a"}, "upstream_tls.cert: requires upstream_tls.key"),
    ({"upstream_tls": "cert=a,key=a"}, "upstream_tls: requires an agent that uses HTTPS, but upstream"),
    ({"upstream_tls": "ca=a"}, "upstream_tls: requires an agent that uses HTTPS, but upstream is http://agent:9000"),
]


@pytest.mark.parametrize(("given", "message"), TOGETHER)
def test_settings_that_do_not_go_together(given: dict[str, Any], message: str) -> None:
    assert message in problem(given)


def test_ports_that_the_system_chooses_do_not_collide() -> None:
    load({"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"})


# ── documentation ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_part_of_a_setting_is_in_the_documents_as_it_is() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for name, option in options_of(Settings).items():
        for part in dataclasses.fields(cast("Any", option.parts)) if option.parts else ():
            shown = "" if part.default is None else f"`{part.default}`"
            assert f"| `{name}.{part.name}` | {shown} | {part.metadata['option'].help} |" in lines


@pytest.mark.parametrize(
    "given", ["s3cret", "x" * 15, "a token with blanks in it", "t\xf6ken-" * 5, "new\nline-of-a-header"]
)
def test_a_token_that_can_be_guessed_is_refused_without_showing_it(given: str) -> None:
    message = problem({"admin_token": given})
    assert message.startswith("--admin-token: a token of at least 16 ")
    assert "openssl rand -hex 32" in message
    assert given not in message


def test_a_token_may_come_from_a_file_and_is_as_long_as_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    assert load({"admin_token": f"${{file:{path}}}"}).admin_token == "0123456789abcdef"
    path.write_text("short")
    assert "at least 16" in problem({"admin_token": f"${{file:{path}}}"})
    assert "needs the file" in problem({"admin_token": f"${{file:{path}.missing}}"})


# ── TLS, headers for the agent and the collector ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", ["", "s3cret", "x y: s3cret", "x:", ": s3cret", {"x": 3}, {}, [{"x": "s3cret"}], 3])
@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("upstream_header", "'Authorization: Bearer ${TOKEN}'"),
        ("otlp_forward_headers", "x-api-key=${COLLECTOR_KEY}"),
    ],
)
def test_what_is_no_header_is_refused_without_showing_it(name: str, example: str, given: Any) -> None:
    value = given.replace(":", "=") if isinstance(given, str) and name == "otlp_forward_headers" else given
    assert problem({name: value}).endswith(f"such as {example}, got ***")


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Transfer-Encoding", "A2A-Extensions", "traceparent", "A2A-Eval-Run"]
)
def test_headers_of_the_proxy_itself_are_not_to_be_set(name: str) -> None:
    assert f"{name} is set by the proxy itself" in problem({"upstream_header": [f"{name}: x"]})


@pytest.mark.parametrize("off", [False, "off"])
def test_a_port_has_the_pair_of_all_ports_its_own_or_none(off: Any) -> None:
    own = {"otlp": "both.pem", "admin": off}
    given = {"tls_cert": "c", "tls_key": "k", "tls_ports": own, "push_url": "https://proxy:8083"}
    settings = load(given)
    found = {port: settings.tls_of(port) for port in ("listen", "push", "otlp", "admin")}
    assert {port: (files.cert, files.key) for port, (files, _) in found.items()} == {
        "listen": ("c", "k"),
        "push": ("c", "k"),
        "otlp": ("both.pem", "both.pem"),
        "admin": (None, None),
    }
    assert load({**given, "push_url": "http://proxy:8083"}).tls_of("push")[0].cert is None


# ── where a store is, and which parts of its URL may be shown ───────────────────────────────────────────────


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("turns.db", "turns.db"),
        ("/var/lib/turns.db", "/var/lib/turns.db"),
        ("sqlite:///var/turns?.db", "sqlite:///var/turns?.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host:5433/db", "postgresql://me@host:5433/db"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgres://me:secret@host/db", "postgres://me:***@host/db"),
        ("postgresql://me:se%40c:r@et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@/db?host=/run/pg", "postgresql://:***@/db?host=/run/pg"),
        ("postgresql:///db?password=secret&sslmode=require", "postgresql:///db?password=***&sslmode=require"),
        ("postgresql:///db?sslpassword=secret", "postgresql:///db?sslpassword=***"),
        ("postgresql://me:secret@[::1/db", "postgresql://***"),
        ("postgresql://me:se/cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se#cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se?cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:secret@one:1,two:2/db", "postgresql://me:***@one:1,two:2/db"),
        ("postgresql://me:secret", "postgresql://***"),
        ("postgresql:me:secret@host/db", "postgresql:***"),
        ("postgresql://me@host/db?pasword=secret", "postgresql://me@host/db?pasword=***"),
        ("mysql://me:secret@host/db", "mysql://me:***@host/db"),
    ],
)
def test_a_password_is_not_shown(location: str, text: str) -> None:
    assert masked_url(location) == text


@pytest.mark.parametrize(
    ("location", "expected"),
    [("postgresql://h/d", True), ("postgres://h/d", True), ("postgresql.db", False), ("sqlite:///postgresql", False)],
)
def test_what_is_a_postgresql_database(location: str, expected: bool) -> None:
    assert is_postgres(location) is expected


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://",
        "postgresql:///turns?host=/run/postgresql",
        "postgres://me@host/turns?sslmode=verify-full",
        "postgresql://me:a:b%40c@[::1]:5432/turns",
        "postgresql://me:secret@one:1,two:2/turns",
        "postgresql://me:secret@%2Frun%2Fpostgresql/turns",
    ],
)
def test_urls_of_postgresql(location: str) -> None:
    check_postgres(location)


@pytest.mark.parametrize(
    "location",
    [
        "postgresql:turns",
        "POSTGRESQL://host/turns",
        "postgresql://me:secret",
        "postgresql://me:se/cret@host/turns",
        "postgresql://me:se#cret@host/turns",
        "postgresql://me:se?cret@host/turns",
        "postgresql://me:se@cret@host/turns",
        "postgresql://me:se[cret@host/turns",
        "postgresql://me:se cret@host/turns",
        "postgresql://me:100%secret@host/turns",
        "postgresql://me:secret@host:port/turns",
    ],
)
def test_urls_that_could_be_misread_are_refused_without_a_word_of_them(location: str) -> None:
    assert is_postgres(location)
    with pytest.raises(ValueError, match="expected postgresql://HOST") as refused:
        check_postgres(location)
    assert "cret" not in str(refused.value)
    assert "cret" not in masked_url(location)
