"""`send`: one message to an agent, from the terminal."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from .command import command, run_async
from .options import SendOptions
from .output import echo_json

if TYPE_CHECKING:
    from a2a_tool_capture import TaskMerger


@command(SendOptions)
def send(options: SendOptions) -> bool:
    """Send one message to an agent.

    Shows the agent's tool calls and its response as they come. The agent is asked for its tool calls. Nothing is stored
    or scored; to do both, send through `serve`, or use `run`. The exit code is 1 if the agent's task failed.

    \b
    Example: a2a-eval-proxy send "Where is order ORD-1001?" --agent localhost:9999
    """
    from tool_call_evaluators.turn_health import FAILED_STATES

    from ..runs.send import MessageTranscript, send_message, turn_json

    transcript = MessageTranscript()
    out = sys.stdout
    as_text = options.output == "text"

    def show(text: str) -> None:
        out.write(text)
        out.flush()

    def observe(so_far: TaskMerger) -> None:
        if as_text:
            show(transcript.update(so_far.turn_tool_calls, so_far.response_text))

    with redirect_stdout(sys.stderr):  # a Python agent may print
        try:
            turn = run_async(
                send_message(
                    options.agent_options(),
                    options.text,
                    conversation_id=options.conversation,
                    task_id=options.task,
                    observe=observe,
                )
            )
        except BaseException:
            show(transcript.line_end())  # the error has a line of its own
            raise
    if as_text:
        show(transcript.end(turn))
    else:
        echo_json(turn_json(turn))
    return turn.state not in FAILED_STATES
