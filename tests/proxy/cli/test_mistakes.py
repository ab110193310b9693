"""Mistakes of users: each gives one sentence and the right exit code, before the agent gets a message.

The sentence is the same in every encoding of the output, but for what the encoding lacks, and at every width: each
mistake is made in another encoding and at another width than the one before it.
"""

from __future__ import annotations

import asyncio
import io
import re
import socket
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from agents.scenario_agent import scenario_agent
from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from support.commands import ended, messages
from support.proxy import Proxy

NOBODY = "http://127.0.0.1:1"
UNSET = "agent.headers.X-Key: header 'X-Key' needs the environment variable NO_SUCH_KEY, which is not set"
REFUSED = "connection refused; is the agent running?"
NO_HOST = "no such host; is the URL right?"
UNTRUSTED = (
    "its certificate is not trusted (unable to get local issuer certificate); name its authority with --agent-ca"
)
CASES = "cases:\n  - id: ask\n    turns: [{user: message me}]\n"


def _expecting(calls: str) -> str:
    return f"suite: s\ncases:\n  - {{id: a, turns: [{{user: hi, expect: {{tool_calls: {calls}}}}}]}}\n"


CALLS = "[{name: search, arguments: {q: {$regx: Berlin}}}]"
SUITES: dict[str, str | bytes] = {
    "suite.yaml": f"suite: s\nevaluators: [tool_error]\ntolerate: [vacuous]\n{CASES}",
    "meant/good.yaml": f"suite: good\nevaluators: [tool_error]\n{CASES}",
    "meant/bad.yaml": f"siute: s\nevaluators: [tool_error]\n{CASES}",
    "infinite.yaml": _expecting("[{name: f, arguments: {x: .inf}}]"),
    "typo.yaml": f"suite: s\nevaluators:\n  - tool_eror\n{CASES}",
    "option.yaml": f"suite: s\nevaluators:\n  - tool_error: {{thresold: 1}}\n{CASES}",
    "key.yaml": f"suite: s\nevaluators: [tool_error]\ncase:\n{CASES}",
    "expect.yaml": "suite: s\ncases:\n  - id: a\n    turns: [{user: hi, expect: {calls: []}}]\n",
    "twice.yaml": f"suite: s\n{CASES}  - id: ask\n    turns: [{{user: hi}}]\n",
    "broken.yaml": "suite: [\n",
    "empty.yaml": "",
    "no-cases.yaml": "suite: s\nevaluators: [tool_error]\n",
    "gate.yaml": f"suite: s\nevaluators: [tool_error]\ngates: {{tool_eror: 1}}\n{CASES}",
    "no-input.yaml": f"suite: s\nevaluators: [contains]\ngates: {{contains: 1}}\n{CASES}",
    "limit.yaml": f"suite: s\nevaluators: [tool_error]\ngates: {{tool_error: {{mean: 90}}}}\n{CASES}",
    "model.yaml": f"suite: s\nevaluators: [helpfulness]\n{CASES}",
    "judge.yaml": f"suite: s\njudge: {{model: gpt-4o}}\nevaluators: [helpfulness]\n{CASES}",
    "secret.yaml": f"suite: s\njudge: {{model: m, api_key: sk-1}}\nevaluators: [helpfulness]\n{CASES}",
    "header.yaml": f"suite: s\nagent: {{headers: {{X-Key: '${{NO_SUCH_KEY}}'}}}}\nevaluators: [tool_error]\n{CASES}",
    "probe.yaml": "suite: s\nevaluators: [state_of_world]\ncases:\n  - {id: a, turns: [{user: hi, expect: "
    "{state_of_world: {http: {url: 'http://host', headers: {X-Key: '${NO_SUCH_KEY}'}}, equals: 1}}}]}\n",
    "plugin.yaml": f"suite: s\nplugins: [no-such.py]\n{CASES}",
    "settings.yaml": "# of this project\nstore: turns.db\nheader: ['X-Key: ${NO_SUCH_KEY}']\n",
    "csv.yaml": "input,expected\nhi,there\n",
    "latin.yaml": "suite: größe\n".encode("latin-1"),
    "binary.yaml": b"\x00\x01\xff",
    "tab.yaml": "suite: s\n\tcases: []\n",
    "unclosed.yaml": "suite: s\ncases:\n  - {id: a, turns: [{user: hi}]\n",
    "list.yaml": "- a\n- b\n",
    "word.yaml": "hello\n",
    "alias.yaml": "suite: s\ncases:\n  - *nope\n",
    "number-id.yaml": "suite: s\ncases:\n  - {id: 3, turns: [{user: hi}]}\n",
    "turns.yaml": "suite: s\ncases:\n  - {id: a, turns: hello}\n",
    "tags.yaml": "suite: s\ncases:\n  - {id: a, tags: x, turns: [{user: hi}]}\n",
    "regex.yaml": _expecting("[{name: f, arguments: {x: {$regex: '['}}}]"),
    "arguments.yaml": _expecting("[{name: f, arguments: [1]}]"),
    "tool.yaml": _expecting("[{tool: f}]"),
    "bare-name.yaml": _expecting("[lookup]"),
    "unread.yaml": "suite: s\nevaluators: [tool_error]\n" + _expecting("[{name: f}]").partition("\n")[2],
    "tolerate.yaml": f"suite: s\nevaluators: [tool_error]\ntolerate: [vacuos]\n{CASES}",
    "repeat.yaml": f"suite: s\nevaluators: [tool_error]\nrepeat: {{times: 2, pass: 5}}\n{CASES}",
    "gate-text.yaml": f"suite: s\nevaluators: [tool_error]\ngates: {{pass_rate: high}}\n{CASES}",
    "judge-url.yaml": f"suite: s\njudge: {{model: m, base_url: localhost}}\nevaluators: [helpfulness]\n{CASES}",
    "agent-url.yaml": f"suite: s\nagent: {{url: 'ftp://x'}}\nevaluators: [tool_error]\n{CASES}",
    "agent-key.yaml": f"suite: s\nagent: {{ulr: 'http://x'}}\nevaluators: [tool_error]\n{CASES}",
    "tools.yaml": f"suite: s\ntools: broken.yaml\nevaluators: [tool_error]\n{CASES}",
    "plug.py": "raise ValueError('of the plug-in')\n",
    "raises.yaml": f"suite: s\nplugins: [plug.py]\nevaluators: [tool_error]\n{CASES}",
    "outside.yaml": f"suite: s\nplugins: [../plug.py]\nevaluators: [tool_error]\n{CASES}",
    "quarantine.yaml": f"suite: s\nevaluators: [tool_error]\nquarantine: [ask]\n{CASES}",
    "agents.yaml": "agents: {orders: {upstream: 'http://x', store: y}}\n",
    "columns.csv": "turn,verdict\nx,maybe\n",
    "maybe.csv": "turn_id,label,evaluator\nx,maybe,helpfulness\n",
    "broken.jsonl": "{\n",
    "setting.yaml": "stroe: turns.db\n",
    "settings-list.yaml": "- a\n",
    "agent.py": "class A: pass\n",
    "scenarios.json": '{"scenarios": [{"scenario_id": "s", "goal": "g"}]}',
    "binary.db": b"\x00\x01\x02" * 1_000,
    "turn-agent.yaml": "suite: s\nevaluators: [tool_error]\ncases:\n  - {id: a, turns: [{user: hi, agent: oders}]}\n",
    "turn-agents.yaml": "suite: s\ncases:\n  - {id: a, turns: [{user: hi, agent: orders}, {user: hi}]}\n",
    "simulated.yaml": "suite: s\nevaluators: [tool_trajectory]\ncases:\n"
    "  - {id: a, simulate: {goal: g}, expect: {tool_calls: [{name: f}]}}\n",
}


@dataclass(frozen=True)
class Mistake:
    """What a user types, and part of the sentence that answers it. `{agent}`, `{strange}` stand for URLs."""

    command: str
    sentence: str
    code: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    """Variables to set."""


DEAD_PROXY = {"HTTP_PROXY": NOBODY}
KEY = {"OPENAI_API_KEY": "sk-of-nobody"}
RUN = "run suite.yaml --agent {agent}"
UNANSWERED = "run suite.yaml --store x.db --agent"
MODEL = f"{UNANSWERED} openai:{{strange}}"
MISTAKES = {
    # the agent
    "agent down": Mistake(f"run suite.yaml --agent {NOBODY}", f"{NOBODY} cannot be reached: {REFUSED}", 3),
    "agent down: send": Mistake(f"send hi --agent {NOBODY}", REFUSED, 3),
    "agent down: validate": Mistake(f"validate suite.yaml --agent {NOBODY}", REFUSED, 3),
    "agent down: check": Mistake(f"check {NOBODY}", REFUSED, 3),
    "agent down: init": Mistake(f"init --agent {NOBODY} --dir new", REFUSED, 3),
    "model down": Mistake(f"run suite.yaml --agent openai:{NOBODY}/v1 --agent-model m", REFUSED, 3),
    "no such host": Mistake("run suite.yaml --agent http://no-such-host.invalid", NO_HOST, 3),
    "no such host: check": Mistake("check http://no-such-host.invalid", NO_HOST, 3),
    "agent down: long URL": Mistake(f"send hi --agent {NOBODY}/{'x' * 5_000}", REFUSED, 3),
    "agent down: gRPC": Mistake("send hi --agent grpc://127.0.0.1:1", f"cannot be reached: {REFUSED}", 3),
    "agent down: gRPC: check": Mistake("check grpc://127.0.0.1:1", REFUSED, 3),
    "no TLS there": Mistake("send hi --agent https://{address}", "it does not speak TLS at that port; try http://", 3),
    "no TLS there: check": Mistake("check https://{address}", "it does not speak TLS at that port; try http://", 3),
    "no TLS there: gRPC": Mistake("run suite.yaml --agent grpcs://{address}", "at that port; try grpc://", 3),
    "TLS there": Mistake("run suite.yaml --agent http://{secure}", "no response; if it speaks TLS, try https://", 3),
    "TLS there: check": Mistake("check http://{secure}", "no response; if it speaks TLS, try https://", 3),
    "TLS there: gRPC": Mistake("send hi --agent grpc://{secure}", "no response; if it speaks TLS, try grpcs://", 3),
    "certificate": Mistake("run suite.yaml --agent https://{secure}", UNTRUSTED, 3),
    "certificate: check": Mistake("check https://{secure}", UNTRUSTED, 3),
    "certificate: gRPC": Mistake("send hi --agent grpcs://{secure}", UNTRUSTED, 3),
    "certificate of another": Mistake(
        "send hi --agent https://{secure} --agent-ca ca.pem", "its certificate is for another host; use its name", 3
    ),
    "agent and suite swapped": Mistake("run {agent} --agent suite.yaml", "not a file (are two arguments swapped?), go"),
    "agent for a suite": Mistake("run {agent}", "it is a URL: give that of an agent with --agent, and a file here"),
    "agent for a suite: evaluate": Mistake("evaluate --suite {agent}", "it is a URL: give that of an agent with"),
    "suite for an agent: check": Mistake("check suite.yaml", "not a file (are two arguments swapped?), got"),
    "suite for an agent: send": Mistake("send hi --agent suite.yaml", "not a file (are two arguments swapped?), got"),
    "simulated user": Mistake("run simulated.yaml", "scope: conversation}}; and the simulated user needs a model"),
    "no agent there": Mistake("run suite.yaml --agent {strange}/404", "/404/.well-known/agent-card.json answered", 3),
    "no agent there: check": Mistake("check {strange}/404", "/.well-known/agent.json; http://", 3),
    "no agent": Mistake("run suite.yaml", "the URL of the agent is missing: give --agent URL"),
    "no agent: init": Mistake("init --dir new", "--agent is required: give --agent URL, set A2A_EVAL_PROXY_AGENT"),
    "other scheme": Mistake("run suite.yaml --agent ftp://x", "--agent: expected a URL such as http://127.0.0.1:9999"),
    "user in the URL": Mistake("run suite.yaml --agent http://a:b@c", "without user name and password"),
    "web page": Mistake("run suite.yaml --agent {strange}/html", "no agent card (a web page); is it an A2A agent?", 3),
    "web page: check": Mistake("check {strange}/html", "no agent card (a web page); is it an A2A agent?", 3),
    "web page: validate": Mistake("validate suite.yaml --agent {strange}/html", "(a web page); is it an A2A agent?", 3),
    "JSON that is no card": Mistake("send hi --agent {strange}/list", "(expected the JSON of a card); is it an A2A", 3),
    "empty card": Mistake("run suite.yaml --agent {strange}/object", "(expected the JSON of a card); is it an A2A", 3),
    "interfaces of others": Mistake("send hi --agent {strange}/soap", "/soap offers SOAP; expected JSONRPC or HTTP+JS"),
    "binding that is not offered": Mistake("send hi --agent {strange}/answers-html --binding GRPC", "expected GRPC"),
    "login": Mistake("run suite.yaml --agent {strange}/login", "it leads to https://login.example/; give that URL", 3),
    "login: check": Mistake("check {strange}/login", "it leads to https://login.example/; give that URL if", 3),
    "redirect to itself": Mistake("run suite.yaml --agent {strange}/loop", "it leads to itself, again and again", 3),
    "no credentials": Mistake("run suite.yaml --agent {strange}/401", "HTTP 401: who?; credentials are missing or", 3),
    "no credentials: check": Mistake("check {strange}/401", "not accepted: give them with --header", 3),
    "forbidden": Mistake("init --agent {strange}/403 --dir new", "HTTP 403: who?; credentials are missing or not", 3),
    "broken agent": Mistake("run suite.yaml --agent {strange}/500", "agent-card.json answered HTTP 500: who?", 3),
    "agent that hangs": Mistake(
        "run suite.yaml --timeout 0.1 --agent {strange}/hangs", "/hangs did not respond in time", 3
    ),
    "agent that hangs: check": Mistake("check {strange}/hangs --timeout 0.1", "no answer within 0.1 s", 3),
    "port of the admin API": Mistake("send hi --agent {admin}", "the admin port of a2a-eval-proxy is no agent: cli", 3),
    "messages without credentials": Mistake("send hi --agent {strange}/answers-401", "credentials are missing or n", 3),
    "messages without credentials: init": Mistake(
        "init --dir new --agent {strange}/answers-401", "credentials are missing or not accepted", 3
    ),
    "messages answered by a web page": Mistake("send hi --agent {strange}/answers-html", "is that the agent's URL?", 3),
    "messages without credentials: run": Mistake(
        f"{UNANSWERED} {{strange}}/answers-401", "HTTP 401: who?; credentials are missing or not acc", 3
    ),
    "messages without credentials: check": Mistake(
        "check {strange}/answers-401", "/rpc answered HTTP 401: who?; credentials are missing or n", 3
    ),
    "messages without credentials: doctor": Mistake(
        "doctor {strange}/answers-401 --otlp 127.0.0.1:0", "credentials are missing or not accepted: give", 3
    ),
    "messages answered by a web page: run": Mistake(
        f"{UNANSWERED} {{strange}}/answers-html", "HTTP 200 with a web page; is that the agent's URL?", 3
    ),
    "messages answered by a web page: check": Mistake("check {strange}/answers-html", "/rpc answered HTTP 200: a", 3),
    "messages that fail: run": Mistake(f"{UNANSWERED} {{strange}}/answers-500", "answered HTTP 500: who?", 3),
    "messages that fail: check": Mistake("check {strange}/answers-500", "/rpc answered HTTP 500: ", 3),
    "messages that fail: init": Mistake("init --dir new --agent {strange}/answers-500", "answered HTTP 500: who?", 3),
    "model without credentials": Mistake(f"{MODEL}/401", "HTTP 401: who?; give the key in A2A_EVAL_PROXY_AGENT_A", 3),
    "model without credentials: send": Mistake("send hi --agent openai:{strange}/401", "HTTP 401: who?; give the", 3),
    "model without credentials: init": Mistake("init --dir new --agent openai:{strange}/401", "HTTP 401: who?;", 3),
    "model without credentials: doctor": Mistake(
        "doctor openai:{strange}/403 --otlp 127.0.0.1:0", "HTTP 403: who?; give the key in", 3
    ),
    "web page for a model": Mistake(f"{MODEL}/html", "a web page; is it a chat-completions API?", 3),
    "model behind a login": Mistake(f"{MODEL}/login", "HTTP 307", 3),
    "model at a wrong path": Mistake(f"{MODEL}/404", "HTTP 404: who?", 3),
    "extension that the agent requires": Mistake(
        f"{UNANSWERED} {{strange}}/answers-required", "send it with --header 'A2A-Extensions: urn:other'", 3
    ),
    "extension that the agent requires: send": Mistake(
        "send hi --agent {strange}/answers-required", "send it with --header 'A2A-Extensions: urn:other'", 3
    ),
    "dead proxy": Mistake(
        "run suite.yaml --agent {agent}", f"via proxy {NOBODY} from HTTP_PROXY; is that proxy right?", 3, DEAD_PROXY
    ),
    "dead proxy: check": Mistake("check {agent}", f"via proxy {NOBODY} from HTTP_PROXY; is that", 3, DEAD_PROXY),
    "dead proxy: init": Mistake("init --dir new --agent {agent}", "from HTTP_PROXY; is that", 3, DEAD_PROXY),
    "SOCKS proxy": Mistake(
        "send hi --agent {agent}", "from ALL_PROXY: SOCKS needs `pip install", environment={"ALL_PROXY": "socks5://x"}
    ),
    "SOCKS proxy: check": Mistake("check {agent}", "correct or unset", environment={"ALL_PROXY": "socks5://x"}),
    "proxy that is no URL": Mistake("send hi --agent {agent}", "HTTP_PROXY: ", environment={"HTTP_PROXY": "ftp://x"}),
    "authorities that are missing": Mistake(
        "send hi --agent {agent}", "SSL_CERT_FILE=no.pem cannot be used", environment={"SSL_CERT_FILE": "no.pem"}
    ),
    "proxy of ours for an agent": Mistake("check {proxy}", "is an a2a-eval-proxy, which hides the extension from"),
    "messages that fail": Mistake("send hi --agent {strange}/answers-500", "answered HTTP 500: who?", 3),
    "messages that hang": Mistake("send hi --timeout 0.1 --agent {strange}/answers-hangs", "did not ", 3),
    "messages to a dead port": Mistake("run suite.yaml --agent {strange}/elsewhere", f"{NOBODY}/ cannot be reached", 3),
    "URL in the place of nothing": Mistake("init {agent}", "give the agent's URL as --agent http://127.0.0.1:"),
    "URL after the text": Mistake("send hi {agent}", "give the agent's URL as --agent http://127.0.0.1:"),
    "suite for an agent: serve": Mistake("serve --upstream suite.yaml", "not a file (are two arguments swapped?)"),
    "Python agent that is missing": Mistake("run suite.yaml --agent python:no.py:A", "no.py:A: no such Python file"),
    "Python agent without the class": Mistake("run suite.yaml --agent python:agent.py:B", "agent.py has no class B"),
    "class that is no agent": Mistake("run suite.yaml --agent python:agent.py:A", "no method execute(user_query"),
    "agent of a turn": Mistake("run turn-agents.yaml", "turns[1]: agent is missing, which another turn names: gi"),
    "agent of a turn: typo": Mistake(
        "run turn-agent.yaml --agent {strange}/gateway", "the suite names the agent oders"
    ),
    "agent of a turn: no proxy": Mistake("validate turn-agent.yaml --agent {agent}", "is no proxy with an agent"),
    "agent of a turn: Python": Mistake("run turn-agent.yaml --agent python:agent.py:A", "needs the URL of a proxy"),
    "model without a URL": Mistake("run suite.yaml --agent openai:x --agent-model m", "--agent: expected a URL such a"),
    # the command line
    "option of another command": Mistake("convert scenarios.json --agent http://x", "No such option '--agent'"),
    "no duration": Mistake(f"{RUN} --timeout 5m", "--timeout: expected a positive number of seconds, got '5m'"),
    "no repetitions": Mistake(f"{RUN} --repeat 0", "--repeat: expected a whole number from 1 to 1000, got '0'"),
    "lower case": Mistake(f"{RUN} --binding grpc", "got 'grpc' (did you mean GRPC?)"),
    "unknown change": Mistake(f"{RUN} --fail-on worse", "--fail-on: expected one or more of regression, newly-failing"),
    "change from nothing": Mistake(f"{RUN} --fail-on regression", "name it with --baseline NAME"),
    "no share": Mistake("compare done done --detect 200%", "--detect: expected a number from 0 to 1, or 0% to 100%"),
    "unknown dialect": Mistake(f"{RUN} --dialects adl", "got 'adl' (did you mean adk?)"),
    "unknown detector": Mistake(f"{RUN} --redact phon", "there is no detector 'phon'; expected one of token, email"),
    "hash without key": Mistake(f"{RUN} --redact email:hash", "give --redact-key '${VARIABLE}'"),
    "header that frames": Mistake(f"{RUN} --header Content-Length:3", "'Content-Length' is set for each request; leav"),
    "header of a missing file": Mistake(f"{RUN} --header X:${{file:no.txt}}", "header 'X' needs the file no.txt: No s"),
    "missing authority": Mistake(f"{RUN} --agent-ca no.pem", "agent_ca: cannot use no.pem: No such file"),
    "certificate that is no certificate": Mistake(f"{RUN} --agent-ca suite.yaml", "there is no PEM certificate in it"),
    "certificate without key": Mistake(f"{RUN} --agent-cert ca.pem", "agent_cert: requires agent_key"),
    "no address": Mistake(f"{RUN} --otlp nope", "--otlp: expected HOST:PORT such as 127.0.0.1:8080"),
    "report below a file": Mistake(f"{RUN} --report suite.yaml/report", "suite.yaml is a file"),
    "traces: nobody there": Mistake(f"{RUN} --traces tempo://127.0.0.1:1", "//127.0.0.1:1) cannot be reached: All", 3),
    "traces: no file": Mistake(f"{RUN} --traces otlp-file:no.jsonl", "no.jsonl cannot be read: No such file or dir", 3),
    "traces: other scheme": Mistake(f"{RUN} --traces zipkin://x", "with one of jaeger:, jaegers:, otlp-file:, tempo:,"),
    "traces: user": Mistake(f"{RUN} --traces tempo://a:b@c", "(send these in a header); tempo: stands for http:"),
    "traces: two ways": Mistake(f"{RUN} --traces tempo://x --otlp 127.0.0.1:0", "leave out one of the two"),
    "traces: variable": Mistake(
        f"{RUN} --traces tempo://x --traces-header 'X: ${{NO_SUCH_KEY}}'", "variable NO_SUCH_KEY, which is not set"
    ),
    "unknown setting": Mistake(f"{RUN} --config setting.yaml", "setting.yaml:1: unknown setting 'stroe' (did you mean"),
    "suite for settings": Mistake(f"{RUN} --config suite.yaml", "suite.yaml is a suite; expected a file with settings"),
    "folder with a suite that is misspelt": Mistake("run meant --agent {agent}", "meant/bad.yaml: is neither a suite"),
    "number that JSON cannot hold": Mistake("run infinite.yaml --agent {agent}", ".inf is a number that JSON cannot"),
    "list for settings": Mistake(f"{RUN} --config settings-list.yaml", "contains no settings; expected lines suc"),
    "broken settings": Mistake(f"{RUN} --config broken.yaml", "--config: broken.yaml:2:1: did not find expected node"),
    "unknown framework": Mistake("doctor {agent} --framework langchian", "(did you mean langchain?)"),
    "no suite": Mistake("run", "Missing argument 'SUITE...'"),
    "unknown command": Mistake("evalute", "No such command 'evalute'"),
    "unknown option": Mistake(f"{RUN} --concurrncy 2", "Did you mean '--concurrency'?"),
    "no number": Mistake(f"{RUN} --concurrency abc", "expected a whole number from 1 to 1000, got 'abc'"),
    "negative time": Mistake(f"{RUN} --timeout -1", "--timeout: expected a positive number of seconds, got '-1'"),
    "unknown choice": Mistake(f"{RUN} --output jsn", "(did you mean json?)"),
    "unknown case": Mistake(f"{RUN} --case aks", "no case 'aks'"),
    "nothing to resume": Mistake(f"{RUN} --resume", "--resume: requires the name of the run to resume, --run NAME"),
    "unknown run: resume": Mistake(f"{RUN} --run doen --resume", "no run 'doen' (did you mean done?)"),
    "header without colon": Mistake(f"{RUN} --header X", "--header: expected NAME:VALUE"),
    "header without its variable": Mistake(
        f"{RUN} --header X:${{NO_SUCH_KEY}}", "the environment variable NO_SUCH_KEY, which is not set"
    ),
    "variable with a wrong value": Mistake(
        RUN, "A2A_EVAL_PROXY_CONCURRENCY: expected a whole number", environment={"A2A_EVAL_PROXY_CONCURRENCY": "x"}
    ),
    "report in a file": Mistake(f"{RUN} --report suite.yaml", "--report: cannot create the directory, as it is a file"),
    "variable in the config": Mistake(
        f"{RUN} --config settings.yaml", "settings.yaml:3: header: needs the environment variable NO_SUCH_KEY, which is"
    ),
    "config that is missing": Mistake(f"{RUN} --config no.yaml", "--config: cannot read no.yaml: No such file"),
    # the suite
    "no such suite": Mistake("run no.yaml --agent {agent}", "no.yaml: cannot be read: No such file"),
    "folder": Mistake("run folder --agent {agent}", "folder: the folder has no suite"),
    "empty suite": Mistake("run empty.yaml --agent {agent}", "empty.yaml: "),
    "suite without cases": Mistake("run no-cases.yaml --agent {agent}", "no-cases.yaml: the suite has no cases"),
    "broken YAML": Mistake("run broken.yaml --agent {agent}", "broken.yaml:2:1"),
    "no YAML of a suite": Mistake("run csv.yaml --agent {agent}", "csv.yaml"),
    "evaluator typo": Mistake("run typo.yaml --agent {agent}", "typo.yaml:3:5: evaluators[0]: unknown evaluator"),
    "option typo": Mistake("run option.yaml --agent {agent}", "did you mean threshold?"),
    "key typo": Mistake("run key.yaml --agent {agent}", "did you mean cases?"),
    "expectation typo": Mistake("run expect.yaml --agent {agent}", "did you mean tool_calls?"),
    "case twice": Mistake("run twice.yaml --agent {agent}", "'ask' is already the id of an earlier case"),
    "gate typo": Mistake("run gate.yaml --agent {agent}", "did you mean tool_error?"),
    "gate without input": Mistake("run no-input.yaml --agent {agent}", "gate contains cannot be met, as"),
    "gate without input: validate": Mistake("validate no-input.yaml", "gate contains cannot be met, as contains skips"),
    "gate out of scale": Mistake("run limit.yaml --agent {agent}", "must lie between 0 and 1"),
    "no judge": Mistake("run model.yaml --agent {agent}", "set A2A_EVAL_PROXY_JUDGE_MODEL"),
    "no key": Mistake("run judge.yaml --agent {agent}", "A2A_EVAL_PROXY_JUDGE_API_KEY or OPENAI_API_KEY"),
    "no key: validate": Mistake("validate judge.yaml", "not valid: 1 error"),
    "key in the suite": Mistake("run secret.yaml --agent {agent}", "do not write the API key into a file"),
    "variable of a header": Mistake("run header.yaml --agent {agent}", f"header.yaml:2:19: {UNSET}"),
    "variable of a header: probe": Mistake(
        "run probe.yaml --agent {agent}", f"probe.yaml: case a: {UNSET.removeprefix('agent.headers.X-Key: ')}"
    ),
    "variable of a header: validate": Mistake("validate header.yaml", f"header.yaml:2:19: {UNSET}"),
    "missing plug-in": Mistake("run plugin.yaml --agent {agent}", "plugin.yaml:2:11"),
    "suite in another encoding": Mistake("run latin.yaml --agent {agent}", "latin.yaml: is not UTF-8: byte 9 cannot b"),
    "suite that is no text": Mistake("run binary.yaml --agent {agent}", "binary.yaml: is not UTF-8: byte 2 cannot"),
    "suite that cannot be read": Mistake("run loop.yaml --agent {agent}", "loop.yaml: cannot be read: Too many levels"),
    "tab": Mistake("run tab.yaml --agent {agent}", "tab.yaml:2:1: found a tab character that violates indentation; in"),
    "bracket not closed": Mistake("run unclosed.yaml --agent {agent}", "is a bracket or a quote not closed, or a line"),
    "list for a suite": Mistake("run list.yaml --agent {agent}", "is neither a suite (an object with the key `suite`)"),
    "word for a suite": Mistake("validate word.yaml", "word.yaml: is neither a suite (an object with the key"),
    "alias of nothing": Mistake("run alias.yaml --agent {agent}", "alias.yaml:3:5: alias *nope has no anchor before i"),
    "number for an id": Mistake("run number-id.yaml --agent {agent}", "expected a string, got 3; put it in quotes"),
    "text for turns": Mistake("run turns.yaml --agent {agent}", 'cases[0].turns: expected a list, got "hello"'),
    "text for tags": Mistake("run tags.yaml --agent {agent}", 'cases[0].tags: expected a list, got "x"'),
    "regular expression": Mistake("run regex.yaml --agent {agent}", "$regex '[' does not compile: unterminated"),
    "list for arguments": Mistake("run arguments.yaml --agent {agent}", "arguments: expected an object, got a list"),
    "key of a call": Mistake("run tool.yaml --agent {agent}", "tool_calls[0].tool: unknown key; accepted are name, ar"),
    "name for a call": Mistake("run bare-name.yaml --agent {agent}", 'expected an object, got "lookup"'),
    "expectation without evaluator": Mistake("validate unread.yaml", "not valid: 1 error"),
    "tolerate typo": Mistake("run tolerate.yaml --agent {agent}", "unknown 'vacuos' (did you mean vacuous?)"),
    "more to pass than times": Mistake("run repeat.yaml --agent {agent}", "repeat.pass: must not be above times"),
    "text for a gate": Mistake("run gate-text.yaml --agent {agent}", 'gates.pass_rate: expected a number, got "high"'),
    "URL of the judge": Mistake("run judge-url.yaml --agent {agent}", "base_url must be a URL such as https://host/v1"),
    "URL in the suite": Mistake("run agent-url.yaml", "agent.url: expected a URL that begins with http:// or https://"),
    "agent typo in the suite": Mistake("run agent-key.yaml", "agent.ulr: unknown key (did you mean url?)"),
    "broken tools": Mistake("run tools.yaml --agent {agent}", "broken.yaml:2:1: did not find expected node content"),
    "plug-in that raises": Mistake("run raises.yaml --agent {agent}", "plug-in plug.py: ValueError: of the plug-in"),
    "plug-in from outside": Mistake("run outside.yaml --agent {agent}", "allow running it with --allow-plugins"),
    "quarantine that is a list": Mistake("run quarantine.yaml --agent {agent}", "quarantine: expected an object, got"),
    "unknown tag": Mistake(f"{RUN} --tag nope", "--tag: no case of suite 's' has the tag 'nope'"),
    "scenarios for a suite": Mistake(f"{RUN} --scenario-file-path no.json", "suite.yaml: names no file of scenarios"),
    "another format": Mistake(f"{RUN} --format arksim", "is neither an ArkSim configuration nor its scenarios"),
    "no folder for the report": Mistake("check {agent} --out no/x.json", "--out: there is no directory 'no'; create i"),
    # the store
    "no store": Mistake("evaluate --suite suite.yaml --store no.db", "there is no such file; --store names another"),
    "unknown run": Mistake("evaluate --suite suite.yaml --run nope", "no run 'nope'; the store has done"),
    "unknown run: compare": Mistake("compare done doen", "no run 'doen' (did you mean done?); the store has done"),
    "unknown run: export": Mistake("export --run nope", "no run 'nope'; the store has done"),
    "unknown turn": Mistake("show nope", "no turn 'nope', and no run 'nope'"),
    "run name in use": Mistake(f"{RUN} --run done", "run 'done' already exists in a2a-eval-proxy.db; use --resume"),
    "run of another suite": Mistake("run meant/good.yaml --agent {agent} --run done", "its suite, cases or attempts "),
    "file that exists": Mistake("record --run done --out suite.yaml", "suite.yaml already exists"),
    "file in no folder": Mistake("record --run done --out no/file.yaml", "--out: there is no directory 'no'; create i"),
    "store that is no store": Mistake(f"{RUN} --store suite.yaml", "store suite.yaml: "),
    "other database": Mistake(f"{RUN} --store mysql://x/y", "store mysql://... is not supported"),
    "database down": Mistake(
        f"{RUN} --store postgresql://alice:s3cret@127.0.0.1:1/db", "postgresql://alice:***@127.0.0.1:1/db: cannot", 3
    ),
    "folder for a store": Mistake("runs --store folder", "store folder: is a directory; --store names another"),
    "folder for a new store": Mistake(f"{RUN} --store folder", "store folder: Is a directory; give the path"),
    "store in no folder": Mistake(f"{RUN} --store no/turns.db", "there is no directory 'no'; give the path of a store"),
    "no database": Mistake("runs --store binary.db", "store binary.db: file is not a database; give the path"),
    "database of others": Mistake("runs --store others.db", "the file is a database, but not a store (schema 0)"),
    "damaged store": Mistake("runs --store damaged.db", "store damaged.db: database disk image is malformed"),
    "newer store": Mistake(f"{RUN} --store newer.db", "another version of a2a-eval-proxy wrote it (schema 99"),
    "newer store: runs": Mistake("runs --store newer.db", "with that version, then move it aside or give another"),
    "no such database host": Mistake(f"{RUN} --store postgresql://no-such-host.invalid/x", "failed to resolve host", 3),
    "unknown baseline": Mistake(f"{RUN} --baseline nope", "no run 'nope'; the store has done"),
    "unknown run: record": Mistake("record --run nope", "no run 'nope'; the store has done"),
    "unknown run: accept": Mistake("accept suite.yaml --run nope", "no run 'nope'; the store has done"),
    "unknown run: replay": Mistake(f"{RUN} --replay-user nope", "no run 'nope'; the store has done"),
    "one run only": Mistake("compare done", "Missing argument 'RUN_B'"),
    "two names": Mistake("show done done", "Got unexpected extra argument (done)"),
    "folder to accept": Mistake("accept folder --run done", "folder: cannot be read: Is a directory; name a file in i"),
    "folder to write": Mistake("record --run done --out folder", "--out: expected a file that can be written to"),
    "prune what": Mistake("prune", "which turns? Give --retain-days, --retain-mb or both"),
    "prune: no number": Mistake("prune --retain-days x", "--retain-days: expected a positive number of days, got 'x'"),
    "worker without a server": Mistake("worker --store turns.db", "workers share a store; expected postgresql://"),
    "nothing to convert": Mistake("convert nope.json", "nope.json: cannot be read: No such file or directory"),
    "converted into an existing file": Mistake("convert scenarios.json --out suite.yaml", "suite.yaml already exists"),
    "unknown evaluator": Mistake("evaluators tool_eror", "unknown evaluator 'tool_eror' (did you mean tool_error?)"),
    "nothing to calibrate": Mistake("calibrate suite.yaml", "no judged evaluators: there is nothing to calibrate"),
    "no labels": Mistake("calibrate judge.yaml", "give some on the page /label of `ui` or `serve`", environment=KEY),
    "labels that are missing": Mistake("calibrate judge.yaml --labels no.csv", "no.csv: No such file", environment=KEY),
    "labels without columns": Mistake(
        "calibrate judge.yaml --labels columns.csv", "the first line must name the columns", environment=KEY
    ),
    "label of no scale": Mistake(
        "calibrate judge.yaml --labels maybe.csv", "'maybe' is no label of helpfulness; expected pass", environment=KEY
    ),
    "labels that are no JSON": Mistake(
        "calibrate judge.yaml --labels broken.jsonl", "broken.jsonl: line 1: expected a JSON object", environment=KEY
    ),
    "file of a message": Mistake("send hi --agent {agent} --file no.txt", "--file: no.txt cannot be read: No such fil"),
    "no suite for a coding agent": Mistake("mcp --suite nope.yaml", "nope.yaml: cannot be read: No such file or"),
    # serve
    "port in use": Mistake(
        "serve --upstream {agent} --listen {taken} --admin 127.0.0.1:0 --no-otlp",
        "Address already in use; choose another address with --listen",
        3,
    ),
    "a short token": Mistake(
        "serve --upstream {agent} --admin-token s3cret",
        "without blanks is expected; 'openssl rand -hex 32' makes one, got ***",
    ),
    "admin for everybody": Mistake("serve --upstream {agent} --admin 0.0.0.0:0", "set --admin-token, or use"),
    "URL for the name of an agent": Mistake("serve --agents {agent}", "is no name of an agent: expected at most 63"),
    "setting of the proxy for an agent": Mistake("serve --config agents.yaml", "agents.orders.store: is a setting of"),
    "one agent and several": Mistake("serve --upstream {agent} --agents a=http://a", "is the only agent, and `agents`"),
    "short token": Mistake("serve --upstream {agent} --admin-token x", "a token of at least 16 printable ASCII charac"),
    "no upstream": Mistake("serve", "--upstream is required: give --upstream URL, set A2A_EVAL_PROXY_UPSTREAM"),
    "one address twice": Mistake("serve --upstream {agent} --admin 127.0.0.1:8080", "already the address of listen"),
}  # fmt: skip


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


@pytest.fixture(scope="module")
def secure(folder: Path) -> Iterator[str]:
    """HOST:PORT of an agent with TLS, whose certificate is that of another host."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("agent.example").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    with scenario_agent(tls=context) as agent:
        yield agent.url.removeprefix("https://")


@pytest.fixture(scope="module")
def folder(agent: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the suites, and the run `done` in the default store."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name in ("folder", "meant"):
        Path(folder, name).mkdir()
    for name, text in SUITES.items():
        Path(folder, name).write_bytes(text if isinstance(text, bytes) else text.encode())
    Path(folder, "loop.yaml").symlink_to("loop.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert ended(f"run suite.yaml --agent {agent} --run done") in (0, 1)
    whole = Path(folder, "a2a-eval-proxy.db").read_bytes()
    Path(folder, "damaged.db").write_bytes(whole[:100] + b"\xff" * 4_000 + whole[4_100:])
    Path(folder, "newer.db").write_bytes(whole)
    for name, statement in (("newer.db", "PRAGMA user_version = 99"), ("others.db", "CREATE TABLE customers (name)")):
        with closing(sqlite3.connect(folder / name)) as connection:
            connection.execute(statement)
    return folder


_CARD = {
    "name": "Strange", "description": "x", "version": "1", "capabilities": {}, "skills": [],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
}  # fmt: skip


_ANSWERS = {
    ".well-known": PlainTextResponse("nothing", 404),
    "required": JSONResponse({"jsonrpc": "2.0", "id": 1, "error": {"code": -32008, "message": "an extension"}}),
    "login": RedirectResponse("https://login.example/"),
    "html": HTMLResponse("<html>Welcome</html>"),
    "list": JSONResponse([]),
    "gateway": JSONResponse({"agents": [{"name": "orders"}]}),
}


def _strange_agents(url: str) -> Starlette:
    """The first part of the path says what the agent does: with its card, or after `answers-` with messages."""

    async def answer(request: Request) -> Response:
        name, path = request.path_params["name"], request.path_params["path"]
        interface = {"url": f"{url}/{name}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        required = [{"uri": "urn:other", "required": True}] if name == "answers-required" else []
        more = {"soap": {"protocolBinding": "SOAP"}, "elsewhere": {"url": f"{NOBODY}/"}}.get(name, {})
        if more or (name.startswith("answers-") and request.method == "GET"):
            interfaces = {"supportedInterfaces": [interface | more], "capabilities": {"extensions": required}}
            return JSONResponse(_CARD | interfaces)
        name = name.removeprefix("answers-")
        if name == "hangs":
            await asyncio.Event().wait()
        if name.isdigit() or (name == "gateway" and path != "agents"):
            return PlainTextResponse("who?", int(name) if name.isdigit() else 404)
        return RedirectResponse(str(request.url)) if name == "loop" else _ANSWERS.get(name, JSONResponse({}))

    return Starlette(routes=[Route("/{name}/{path:path}", answer, methods=["GET", "POST"])])


@pytest.fixture(scope="module")
def proxy(agent: str, folder: Path) -> Iterator[Proxy]:
    with Proxy(agent, folder / "proxy.db") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def strange() -> Iterator[str]:
    with ServerThread(_strange_agents) as server:
        yield server.url


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in ("OPENAI_API_KEY", "A2A_EVAL_PROXY_JUDGE_API_KEY", "A2A_EVAL_PROXY_JUDGE_MODEL", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


ENCODINGS, WIDTHS = ("utf-8", "cp1252", "ascii"), ("60", "80", "200")


@pytest.fixture(scope="module")
def values(agent: str, secure: str, strange: str, proxy: Proxy) -> Iterator[dict[str, str]]:
    """What stands for the names in commands."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield {
            "{agent}": agent, "{secure}": secure, "{strange}": strange, "{admin}": proxy.admin_url,
            "{proxy}": proxy.url,
            "{address}": agent.removeprefix("http://"), "{taken}": f"127.0.0.1:{taken.getsockname()[1]}",
        }  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_one_sentence_before_the_first_message(
    name: str, agent: str, values: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake, number, before = MISTAKES[name], list(MISTAKES).index(name), messages(agent)
    encoding, width = ENCODINGS[number % 3], WIDTHS[number // 3 % 3]
    for variable, value in {"COLUMNS": width, **mistake.environment}.items():
        monkeypatch.setenv(variable, value)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    command = re.sub(r"{\w+}", lambda found: values.get(found[0], found[0]), mistake.command)
    code = ended(command)
    said = []
    for stream in (out, err):
        stream.seek(0)
        said.append(stream.read())
    told = "".join(said)
    assert (code, mistake.sentence in told, "Traceback" in told, "s3cret" in told) == (mistake.code, True, False, False)
    if "not valid" not in told:
        (line,) = (line for line in said[1].splitlines() if not line.startswith("receiving traces; "))
        assert line.startswith("a2a-eval-proxy: ")
        assert mistake.sentence in line
    assert messages(agent) == before


def test_unknown_variables_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that Kubernetes sets for a Service of our name are not unknown."""
    monkeypatch.setenv("A2A_EVAL_PROXY_AGNET", "http://x")
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_MODL", "m")
    for known in ("JUDGE_MODEL", "CONFIG", "SERVICE_HOST", "PORT", "PORT_8080_TCP_ADDR", "ADMIN_SERVICE_PORT_HTTP"):
        monkeypatch.setenv(f"A2A_EVAL_PROXY_{known}", "suite.yaml")
    monkeypatch.delenv("A2A_EVAL_PROXY_CONFIG")
    assert ended("runs") == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: nothing reads the variable A2A_EVAL_PROXY_AGNET (did you mean A2A_EVAL_PROXY_AGENT?)",
        "warning: nothing reads the variable A2A_EVAL_PROXY_JUDGE_MODL (did you mean A2A_EVAL_PROXY_JUDGE_MODEL?)",
    ]


def test_a_misspelt_placeholder_and_unread_expectations_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    case = f"{{id: a, turns: [{{user: hi, expect: {{tool_calls: {CALLS}}}}}]}}"
    Path("note.yaml").write_text(f"suite: s\nevaluators: [tool_error]\ncases: [{case}]\n")
    assert ended("validate note.yaml") == 2
    out = capsys.readouterr().out
    assert re.search(r"^warning: .*did you mean \$regex\?", out, re.MULTILINE)
    assert "\nerror: tool_calls is expected in case a, but no evaluator reads it (" in out


def test_a_missing_expectation_is_named_as_in_the_suite(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the run, by `validate` and `run`, and after it. The cases that are left out may have it."""
    Path("bare.yaml").write_text(f"suite: s\nevaluators: [tool_trajectory]\n{CASES}")
    warning = "warning: tool_trajectory skips case ask: no turn has expect.tool_calls; the run fails as unmeasured\n"
    skipped = "every result was skipped (not given: expected_tool_calls (in a suite: expect.tool_calls))"
    for command, code, warned in (
        ("validate bare.yaml", 0, True),
        (f"run bare.yaml --agent {agent}", 1, True),
        (f"run bare.yaml --agent {NOBODY}", 3, True),
        (f"run bare.yaml --agent {NOBODY} --case ask", 3, False),
    ):
        assert ended(command) == code
        out, err = capsys.readouterr()
        assert (warning in out + err, skipped in out) == (warned, code == 1), command


def test_the_job_of_init_is_at_the_top_of_the_repository(agent: str) -> None:
    Path("repository", ".git").mkdir(parents=True)
    assert ended(f"init --agent {agent} --dir repository/tests/agent --message 'chunks please'") == 0
    assert Path("repository/tests/agent/suite.yaml").exists()
    job = Path("repository/.github/workflows/agent.yml").read_text()
    assert "working-directory: tests/agent" in job
    assert "path: tests/agent/report" in job
    assert 'PACKAGE: ""' in job
