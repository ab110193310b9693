from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace

import click

from ...cli.command import command, run_async
from ...cli.options import DrivenAgentOptions, agent_option, output_option
from ...cli.output import echo_json
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option


class SendOptions(DrivenAgentOptions):
    text: str = option(types.TEXT, "The message.", required=True, positional=True)
    agent: str = agent_option(types.AGENT, "URL of the agent, or as for `run`.", required=True)
    conversation: str | None = option(types.NAME, "Id of the conversation (contextId) to continue.")
    task: str | None = option(types.NAME, "Id of the task that waits for this message.")
    file: tuple[str, ...] = option(
        replace(types.SUITE_FILES, metavar="FILE"), "File to send with the message. Repeatable.", repeatable=True
    )
    output: str = output_option()


@command(SendOptions)
def send(options: SendOptions) -> bool:
    """Send one message to an agent.

    Shows the agent's tool calls and its response. The agent is asked for its tool calls. Nothing is stored
    or scored; to do both, send through `serve`, or use `run`. The exit code is 1 if the agent's task failed.

    \b
    Example: a2a-eval-proxy send "Where is order ORD-1001?" --agent localhost:9999
    """
    from a2a_tool_capture.wire import FAILED_STATES

    from .transcript import files_of, send_message, turn_json, turn_text

    files = files_of(options.file)
    with redirect_stdout(sys.stderr):  # a Python agent may print
        turn = run_async(
            send_message(
                options.agent_options(),
                options.text,
                conversation_id=options.conversation,
                task_id=options.task,
                files=files,
            )
        )
    if options.output == "json":
        echo_json(turn_json(turn))
    else:
        click.echo(turn_text(turn))
    return turn.state not in FAILED_STATES


FEATURE = Feature(commands=[send])
