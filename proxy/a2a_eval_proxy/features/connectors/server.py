"""Serves an agent that does not speak A2A on loopback, on an event loop of its own: it may block.

Its tool calls travel in the extension."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Task
from a2a_tool_capture import CapturingRequestHandler, ToolCall, ToolCallRecorder, reconcile
from a2a_tool_capture.approvals import message_words
from a2a_tool_capture.connector import recorder as automatic
from a2a_tool_capture.json_values import plain_text
from a2a_tool_capture.recorder import CallRecording
from a2a_tool_capture.secret_references import resolve
from google.protobuf.json_format import MessageToDict
from tool_call_evaluators.evaluator import FAILURES
from tool_call_evaluators.suite import AgentDefaults

from ...net.browser_guard import BrowserGuard, HostNames
from ...net.sdk_server import REST_PREFIX, sdk_server
from ...runs.served_agents import SEED
from ...threads import LoopThread
from ...turn import Turn
from .agent_spans import TurnSpans, spans_of_turn
from .chat_agent import ChatAgent, ChatEndpoint, endpoint
from .conversations import CLOSE_TIMEOUT_S, AgentAnswer, AgentConversations, AnswerError, ModelUnreachableError
from .loading import failure, python_agents

logger = logging.getLogger(__name__)


class ConnectedAgent(AgentExecutor):
    """A task for each message: completed with one artifact, or failed with what went wrong.

    Its calls are those that the agent returns, those that `a2a_tool_capture.connector.recorder` saw meanwhile, and
    those in spans, each once; they take precedence in this order.
    """

    def __init__(self, conversations: AgentConversations, recorder: ToolCallRecorder, timeout_s: float) -> None:
        self._conversations = conversations
        self._recorder = recorder
        self._timeout_s = timeout_s

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task_id, context_id = context.message, context.task_id, context.context_id
        if message is None or task_id is None or context_id is None:
            raise ValueError("a request without a message")
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work()
        seed = dict(message.metadata.items()).get(SEED)
        given = int(seed) if isinstance(seed, float) and seed.is_integer() else None
        text = context.get_user_input() or message_words(MessageToDict(message))
        answer = await self._answer(context_id, text, given)
        if isinstance(answer, str):
            await updater.failed(new_text_message(answer, context_id=context_id, task_id=task_id))
        else:
            await updater.add_artifact([new_text_part(plain_text(answer.text))], name="answer")
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _answer(self, context_id: str, text: str, seed: int | None) -> AgentAnswer | str:
        """The answer, or why it failed; its calls are recorded in either case."""
        returned: list[ToolCall] = []
        with automatic.request() as seen, spans_of_turn() as traced:
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    answer = await self._conversations.say(context_id, text, seed)
                returned = answer.tool_calls
            except TimeoutError as error:
                return f"no answer within {self._timeout_s:g} s" if limit.expired() else failure(error)
            except (AnswerError, ModelUnreachableError) as error:
                return str(error)
            except FAILURES as error:
                logger.debug("the agent failed", exc_info=error)
                return failure(error)
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():  # the task itself is to end
                    raise
                return failure(error)  # raised by the agent's code
            finally:
                self._record(context_id, returned, seen, traced)
        return answer

    def _record(self, context_id: str, calls: list[ToolCall], *others: CallRecording | TurnSpans | None) -> None:
        """Record `calls`, and what `others` have in addition."""
        for other in others:
            calls = reconcile(calls, other.tool_calls if other else []).tool_calls
        if (recording := self._recorder.current) is not None:
            for call in calls:
                recording.add(call)
            if (conversation := self._conversations.of(context_id)) is not None:
                conversation.sources = tuple(call.source for call in recording.tool_calls)


MAX_TASKS = 10_000
"""Tasks that clients can read again; the oldest are forgotten first."""

STOP_TIMEOUT_S = 15.0
"""Maximum time to stop a server; an agent that blocks its event loop for longer is abandoned."""


@dataclass(slots=True)
class LocalAgent:
    """A running server: the `name` of its agent, the `url` of its card, and the conversations it holds."""

    name: str
    url: str
    _loop: LoopThread
    _conversations: AgentConversations

    def tell(self, turn: Turn) -> None:
        """Complete a turn with what does not travel: the agent's own id of its conversation, and the sources of its
        calls."""
        conversation = self._conversations.of(turn.conversation_id)
        if conversation is None:
            return
        turn.conversation_id = conversation.chat_id or turn.conversation_id
        if len(conversation.sources) == len(turn.tool_calls):
            pairs = zip(turn.tool_calls, conversation.sources, strict=True)
            turn.tool_calls = [replace(call, source=source) for call, source in pairs]

    def unreachable(self, conversation_id: str) -> str:
        """Why the last turn of the conversation says nothing about the agent; "" if it does."""
        conversation = self._conversations.of(conversation_id)
        return conversation.unreachable if conversation else ""

    async def begin(self, conversation_id: str, said: Sequence[tuple[str, str]]) -> None:
        """Begin a conversation in which the user has said that, and the agent, which is a model, answered."""
        await self._loop.call(self._conversations.begin(conversation_id, said))

    async def end(self, conversation_id: str) -> None:
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._loop.call(self._conversations.end(conversation_id))
        except TimeoutError:
            logger.warning("%s blocks its event loop: a conversation could not be ended", self.name)


class RecentTasks(InMemoryTaskStore):
    def __init__(self) -> None:
        super().__init__()
        self._recent: OrderedDict[str, ServerCallContext] = OrderedDict()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        self._recent[task.id] = context
        self._recent.move_to_end(task.id)
        if len(self._recent) > MAX_TASKS:
            await self.delete(*self._recent.popitem(last=False))


@asynccontextmanager
async def serving(
    agent: str, chat: AgentDefaults, headers: Mapping[str, str], tls: ssl.SSLContext | None, timeout_s: float
) -> AsyncIterator[LocalAgent]:
    """The server of a `python:` or `openai:` agent: an instance for each conversation. A turn fails after `timeout_s`.

    `chat`: how a chat-completions API is asked: `model`, `system` and `body`, whose `enable_metadata`, as in
    ArkSim, is not sent: it adds `metadata` with the conversation's `chat_id` and `turn_id`. `headers` and `tls` are
    those of requests to it. Raises ConfigError, ConfigurationError, and
    AgentUnreachableError if nothing answers at its URL.
    """
    scheme, _, reference = agent.partition(":")
    models = scheme == "openai"
    new_agent = await _models(reference, chat, headers, tls) if models else python_agents(reference)
    name = agent.partition("?")[0] if models else agent
    loop = LoopThread(name)
    stack = AsyncExitStack()
    try:
        yield await loop.call(_start(stack, loop, name, new_agent, timeout_s))
    finally:
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await loop.call(stack.aclose())
            loop.close(CLOSE_TIMEOUT_S)
        except TimeoutError:
            logger.warning("%s does not stop: it blocks its event loop; its thread is abandoned", name)


async def _models(
    url: str, chat: AgentDefaults, headers: Mapping[str, str], tls: ssl.SSLContext | None
) -> Callable[[], Any]:
    body = dict(chat.body)
    first = [*([{"role": "system", "content": chat.system}] if chat.system else []), *body.pop("messages", [])]
    with_metadata = bool(body.pop("enable_metadata", False))
    if chat.model:
        body["model"] = chat.model
    api = ChatEndpoint(endpoint(resolve("--agent", url)), body, headers, tls)
    await api.reach()
    return lambda: ChatAgent(api, first, with_metadata=with_metadata)


async def _start(
    stack: AsyncExitStack, loop: LoopThread, name: str, new_agent: Callable[[], Any], timeout_s: float
) -> LocalAgent:
    conversations = AgentConversations(new_agent)
    stack.push_async_callback(conversations.end_all)
    recorder = ToolCallRecorder(enabled=True)
    executor = ConnectedAgent(conversations, recorder, timeout_s)

    def build(url: str) -> tuple[CapturingRequestHandler, AgentCard]:
        card = _card(name, url)
        return CapturingRequestHandler(executor, RecentTasks(), card, recorder=recorder), card

    serving = sdk_server(build, "127.0.0.1:0", lambda app: BrowserGuard(app, HostNames()))
    return LocalAgent(name, await stack.enter_async_context(serving), loop, conversations)


def _card(name: str, url: str) -> AgentCard:
    return AgentCard(
        name=name,
        description="Served by a2a-eval-proxy",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=interface_url, protocol_binding=binding, protocol_version="1.0")
            for binding, interface_url in (("JSONRPC", f"{url}/"), ("HTTP+JSON", url + REST_PREFIX))
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="conversation", name=name, description="Answers messages", tags=["conversation"])],
    )
