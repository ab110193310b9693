"""The agent of a configuration: an A2A agent, a Python class, or a chat-completions API."""

from __future__ import annotations

from pathlib import Path

from ...suite import AgentDefaults
from ...suite.files import ReadContext, code_path, read_source
from ...suite.node import Node
from ..common import Notes

_KEYS = {
    "agent_config": ("agent_type", "agent_name", "api_config", "custom_config"),
    "api_config": ("endpoint", "headers", "body"),
    "custom_config": ("module_path", "class_name"),
    "trace_receiver": ("enabled", "host", "port", "wait_timeout"),
}
"""Those of each object. The name of the agent has no use."""


def read_agent(node: Node, folder: Path, notes: Notes, *, allow_plugins: bool, concurrency: int) -> AgentDefaults:
    """From `agent_config`, or the file that `agent_config_file_path` names. Raises SuiteError.

    A Python file outside `folder` needs `allow_plugins`.
    """
    agent = node.at("agent_config")
    if (file := node.text_at("agent_config_file_path")) and not agent.value:
        agent = read_source(folder / file)
    kind = agent.get("agent_type")
    receiver = node.at("trace_receiver")
    for name, within in {"agent_config": agent, "trace_receiver": receiver}.items():
        notes.unknown_keys(within, _KEYS[name], name)
    for name in ("api_config", "custom_config"):
        notes.unknown_keys(agent.at(name), _KEYS[name], name)
    if receiver.object().get("enabled") and (kind is None or kind.value != "custom"):
        notes.add("trace_receiver: `run` receives no traces; send them to `a2a-eval-proxy serve` and run through it")
    if kind is None:
        return AgentDefaults(concurrency=concurrency)
    if kind.choice(("a2a", "custom", "chat_completions")) == "custom":
        context = ReadContext(folder, allow_plugins)
        return AgentDefaults(url=_python(agent.need("custom_config"), context), concurrency=concurrency)
    api = agent.at("api_config")
    url = api.need("endpoint").text()
    headers = {name: value.text() for name, value in api.at("headers").entries().items()}
    if kind.value == "a2a":
        return AgentDefaults(url=url, headers=headers, concurrency=concurrency)
    body = api.need("body").object()
    return AgentDefaults(url=f"openai:{url}", headers=headers, body=body, concurrency=concurrency)


def _python(custom: Node, context: ReadContext) -> str:
    """`python:...` for a `module_path`, which is a file or a dotted name, and a `class_name`."""
    module, class_name = custom.need("module_path"), custom.text_at("class_name")
    source = module.text()
    if source.endswith(".py"):
        source = module.convert(lambda file: str(code_path(file, context)))
    return f"python:{source}" + (f":{class_name}" if class_name else "")
