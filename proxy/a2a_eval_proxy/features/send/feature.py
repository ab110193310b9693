from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace

import click
from a2a_tool_capture.approvals import Answer, Part

from ...cli.command import command, run_async
from ...cli.options import DrivenAgentOptions, agent_option, output_option
from ...cli.output import echo_json
from ...errors import ConfigError
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option


class SendOptions(DrivenAgentOptions):
    text: str | None = option(replace(types.TEXT, metavar="[TEXT]"), "The message.", positional=True)
    agent: str = agent_option(types.AGENT, "URL of the agent, or as for `run`.", required=True)
    conversation: str | None = option(types.NAME, "Id of the conversation (contextId) to continue.")
    task: str | None = option(types.NAME, "Id of the task that waits for this message.")
    file: tuple[str, ...] = option(
        replace(types.SUITE_FILES, metavar="FILE"), "File to send with the message. Repeatable.", repeatable=True
    )
    data: tuple[str, ...] = option(
        replace(types.TEXTS, metavar="JSON"), "JSON to send as a data part of the message. Repeatable.", repeatable=True
    )
    approve: bool = option(types.FLAG, "Approve the tool calls that the task has asked about.")
    reject: str | None = option(replace(types.TEXT, metavar="REASON"), "Reject them, for this reason.")
    choose: str | None = option(replace(types.TEXT, metavar="VALUE"), "Answer the task's question with this choice.")
    output: str = output_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        given = (self.text or self.data or self.file, self.approve, self.reject, self.choose)
        if sum(map(bool, given)) != 1:
            raise ConfigError("give a message (TEXT, --data, --file), or one of --approve, --reject and --choose")
        if not (given[0] or self.task):
            raise ConfigError("--approve, --reject and --choose need --task, the id of the task that asked")


@command(SendOptions)
def send(options: SendOptions) -> bool:
    """Send one message to an agent, or the answer to its question.

    Shows the agent's tool calls and its response. The agent is asked for its tool calls. Nothing is stored
    or scored; to do both, send through `serve`, or use `run`. The exit code is 1 if the agent's task failed.

    \b
    Example: a2a-eval-proxy send "Where is order ORD-1001?" --agent localhost:9999
    """
    from a2a_tool_capture.wire import FAILED_STATES

    from .transcript import message_of, send_message, turn_json, turn_text

    message: Sequence[Part] | Answer = message_of(options.text, options.data, options.file)
    if options.approve or options.reject:
        message = Answer("reject", options.reject) if options.reject else Answer("approve")
    elif options.choose:
        message = Answer("choose", options.choose)
    with redirect_stdout(sys.stderr):  # a Python agent may print
        turn = run_async(
            send_message(options.agent_options(), message, conversation_id=options.conversation, task_id=options.task)
        )
    if options.output == "json":
        echo_json(turn_json(turn))
    else:
        click.echo(turn_text(turn))
    return turn.state not in FAILED_STATES


FEATURE = Feature(commands=[send])
